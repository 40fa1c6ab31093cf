"""Multiplies by each matrix unit once, so that OCL_DUMP_DIR gets the programs.

usage: OCL_KERNEL_FAMILY=gpu OCL_MATRIX_UNITS=emulate OCL_DUMP_DIR=FOLDER gpu_units.py
"""

import torch

from torch_ocl import _C

TYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "i8": torch.int8}


def main():
    first = len(_C.gemm_gpu_tiles())
    square = [i for i, tile in enumerate(_C.gemm_unit_tiles()) if tile.m == tile.n >= 64]
    for name in _C.matrix_units():
        _C.emulate_matrix_unit(name)
        _, types = _C.matrix_unit(0).split(": ")
        for dtype in (TYPES[each] for each in types.split(", ")):
            a, b = (torch.ones(16, 32, dtype=dtype, device="ocl") for _ in range(2))
            multiply = torch._int_mm if dtype == torch.int8 else torch.mm
            # If the unit lacks registers for a tile, the model chooses another.
            for index in square:
                _C.force_tuned("gemm_gpu", first + index)
                multiply(a, b.t())
    torch.ocl.synchronize()


if __name__ == "__main__":
    main()
