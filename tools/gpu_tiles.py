"""Runs each tile of matrix products and convolutions once, so that OCL_DUMP_DIR gets the programs.

usage: OCL_KERNEL_FAMILY=gpu OCL_DUMP_DIR=FOLDER gpu_tiles.py
"""

import torch

from torch_ocl import _C

CONVOLUTION_LOADS = 8  # tiles with more loads per work-item are only for matrix products


def multiply(dtype=torch.float32, size=64):
    """Multiplies by a matrix, and by a transposed matrix, as linear layers do."""
    a, b = (torch.ones(size, size, dtype=dtype, device="ocl") for _ in range(2))
    a @ b
    a @ b.t()


def convolve():
    x = torch.ones(1, 64, 8, 8, device="ocl", requires_grad=True)
    weight = torch.ones(64, 64, 3, 3, device="ocl", requires_grad=True)
    torch.nn.functional.conv2d(x, weight, padding=1).sum().backward()


def choose(tile):
    for tunable in ("gemm_gpu", "conv_gpu"):
        _C.force_tuned(tunable, tile)


def main():
    for index, tile in enumerate(_C.gemm_gpu_tiles()):
        choose(index)
        multiply()
        if max(tile.m, tile.n) * tile.k <= CONVOLUTION_LOADS * tile.items:
            convolve()
    choose(0)
    multiply(size=63)
    multiply(torch.float16)
    torch.ocl.synchronize()


if __name__ == "__main__":
    main()
