"""Products by NVIDIA's matrix units in small sizes: all types, layouts and tiles, with tails, and
what is added to a product. The launches are recorded in emulation, for isa_check.py.

usage: OCL_KERNEL_FAMILY=gpu OCL_MATRIX_UNITS=emulate unit_products.py [--few]
"""

import itertools
import sys

import torch

from torch_ocl import _C

TYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "i8": torch.int8}
UNITS = ("sm_80", "sm_75")


def operand(rows, columns, dtype, transposed):
    shape = (columns, rows) if transposed else (rows, columns)
    if dtype == torch.int8:
        made = torch.randint(-128, 128, shape, dtype=dtype)
    else:
        made = torch.randn(shape).to(dtype)
    made = made.to("ocl")
    return made.t() if transposed else made


def multiply(a, b):
    return (torch._int_mm if a.dtype == torch.int8 else torch.mm)(a, b)


def products(dtype, few):
    first = len(_C.gemm_gpu_tiles())  # the unit's tiles among the candidates
    tiles = list(enumerate(_C.gemm_unit_tiles()))
    smallest = min(tiles, key=lambda each: each[1].m * each[1].n)[0]
    for index, tile in tiles[: 1 if few else None]:
        _C.force_tuned("gemm_gpu", first + index)
        multiply(operand(tile.m + 3, 70, dtype, False), operand(70, tile.n + 5, dtype, True))
    _C.force_tuned("gemm_gpu", first + smallest)
    layouts = [(False, True)] if few else itertools.product((False, True), repeat=2)
    for of_a, of_b in layouts:
        for m, n, k in ((37, 43, 75), (32, 48, 64), (1, 5, 9), (20, 12, 0)):
            multiply(operand(m, k, dtype, of_a), operand(k, n, dtype, of_b))
    multiply(operand(15, 2100, dtype, False), operand(2100, 14, dtype, False))  # split along k
    if dtype != torch.int8:
        a, b = operand(20, 40, dtype, False), operand(40, 17, dtype, False)
        torch.addmm(operand(20, 17, dtype, False), a, b, beta=3, alpha=2)
        torch._addmm_activation(operand(1, 17, dtype, False)[0], a, b, use_gelu=True)
        torch.mm(a, b, out_dtype=torch.float32)
        torch.bmm(a[None].expand(2, -1, -1), torch.stack([b, b]))


def main():
    torch.manual_seed(0)
    for name in UNITS:
        _C.emulate_matrix_unit(name)
        for dtype in _C.matrix_unit(0).split(": ")[1].split(", "):
            products(TYPES[dtype], few="--few" in sys.argv)
            assert _C.last_kernel() in ("gemm_unit", "gemm_sum"), _C.last_kernel()
    torch.ocl.synchronize()


if __name__ == "__main__":
    main()
