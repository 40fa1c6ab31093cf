"""PyTorch's element types in generated kernels; § is the number of lanes."""

import math
from typing import NamedTuple

import torch
from torch._inductor.utils import upcast_compute_type

from torch_ocl import _C


class Type(NamedTuple):
    code: str  # its name in kernels/core/cl/types.clh
    memory: str
    value: str


# The types in memory, MEM_x in types.clh. Their names are in kernels/core/types/dtype.cpp.
_MEMORY = {
    torch.float32: "float",
    torch.float64: "double",
    torch.float16: "half",
    torch.bfloat16: "ushort",
    torch.int8: "char",
    torch.int16: "short",
    torch.int32: "int",
    torch.int64: "long",
    torch.uint8: "uchar",
    torch.uint16: "ushort",
    torch.uint32: "uint",
    torch.uint64: "ulong",
    torch.bool: "uchar",
}
_VALUES = {
    torch.float16: "float",
    torch.bfloat16: "float",
    # Lanes are 0 and -1, as from comparisons of floats; a single number is 0 or 1.
    torch.bool: "int",
}
TYPES = {
    dtype: Type(code, _MEMORY[dtype], _VALUES.get(dtype, _MEMORY[dtype]))
    for code, dtype in _C.element_types().items()
    if not dtype.is_complex
}


# The integers whose low bits a float keeps as a narrower type (kernels/core/cl/low_bits.clh).
_LOW_BITS_OF = {
    torch.int8: "int",
    torch.int16: "int",
    torch.uint8: "int",
    torch.uint16: "int",
    torch.uint32: "uint",
    torch.uint64: "ulong",
}


def value_type(dtype: torch.dtype) -> str:
    return TYPES[dtype].value + "§"


def is_float(dtype: torch.dtype) -> bool:
    return dtype.is_floating_point


def convert(text: str, source: torch.dtype, target: torch.dtype) -> str:
    """Converts the value to another type."""
    source, target = upcast_compute_type(source), upcast_compute_type(target)
    if source == target:
        return text
    if target == torch.bool:
        return f"MASK({text} != {literal(0, source)})"
    if source == torch.bool:
        text = f"FLAG({text})"
    if is_float(source) and target in _LOW_BITS_OF:
        long = source == torch.float64 and target == torch.uint8  # the eager kernels do the same
        integer = "long" if long else _LOW_BITS_OF[target]
        text = f"{integer}_of_{TYPES[source].value}_lanes({text})"
    return f"convert_{value_type(target)}({text})"


def condition(mask: str, dtype: torch.dtype) -> str:
    """Converts a mask so that its lanes are as wide as those of the type, which ?: needs."""
    size = 4 if dtype == torch.bool else upcast_compute_type(dtype).itemsize
    lanes = {1: "char", 2: "short", 4: "int", 8: "long"}[size]
    return mask if lanes == "int" else f"convert_{lanes}§({mask})"


def literal(value, dtype: torch.dtype) -> str:
    """A constant in each lane."""
    dtype = upcast_compute_type(dtype)
    if dtype == torch.bool:
        return "TRUE_LANES" if value else "FALSE_LANES"
    return f"({value_type(dtype)})({scalar_literal(value, dtype)})"


def scalar_literal(value, dtype: torch.dtype) -> str:
    dtype = upcast_compute_type(dtype)
    if is_float(dtype):
        value = float(value)
        if math.isnan(value):
            return "NAN"
        rounded = value
        if dtype == torch.float32 and math.isfinite(value):
            rounded = torch.tensor(value, dtype=torch.float32).item()
        if math.isinf(rounded):
            return "INFINITY" if rounded > 0 else "-INFINITY"
        # Inductor raises if different numbers have equal texts, even if they round to the same.
        origin = f" /* {value!r} */" if value != rounded else ""
        return repr(rounded) + ("f" if dtype == torch.float32 else "") + origin
    value = int(value)
    if dtype == torch.uint64:
        return f"{value % 2**64}UL"
    if value == -(2**63):
        return "(-9223372036854775807L - 1)"
    if dtype == torch.int32 and value == -(2**31):
        return "(-2147483647 - 1)"
    return f"{value}L" if dtype == torch.int64 or abs(value) >= 2**31 else str(value)
