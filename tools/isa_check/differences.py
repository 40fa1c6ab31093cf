"""Compares buffers by the types of the numbers that the kernel stored: integers and copies exactly,
floating-point numbers within a tolerance, since compilers contract and functions differ."""

import re

import numpy as np
from arithmetic import bfloat
from memory import KINDS

# Relative to the number, plus as much of a thousandth of the buffer's largest one.
TOLERANCES = {"f32": 1e-4, "f64": 1e-12, "f16": 1e-3, "bf16": 8e-3}
READ = {
    "f32": lambda data: data.view(np.float32).astype(np.float64),
    "f64": lambda data: data.view(np.float64),
    "f16": lambda data: data.view(np.float16).astype(np.float64),
    "bf16": lambda data: bfloat(data.view(np.uint16)).astype(np.float64),
}


def error_of(found, expected):
    """The largest relative error, for elements of one type; infinities and NaN must be the same."""
    with np.errstate(all="ignore"):
        same = (found == expected) | (np.isnan(found) & np.isnan(expected))
        finite = np.isfinite(expected)
        largest = np.max(np.abs(expected[finite]), initial=1e-30)
        error = np.abs(found - expected) / (np.abs(expected) + 1e-3 * largest)
    error[same] = 0
    error[np.isnan(error)] = np.inf
    return float(np.max(error, initial=0))


def readings(kind, source):
    """The floating-point types that bytes stored as `kind` may have: kernels compute bfloat16 in
    integers, and PTX stores float16 as 16 bits."""
    if kind in ("f32", "f64"):
        return [kind]
    if kind == "u16":
        names = {"f16": r"half|f16", "bf16": r"bf16|bfloat"}
        return [
            name for name, text in names.items() if re.search(rf"^#define .*({text})", source, re.M)
        ]
    return []


def kinds_of(block):
    """For each byte, the number of the type that was stored there; 0: none."""
    marks = np.repeat(block.kinds, 1 << block.granule)
    return marks[: block.size]


def difference(block, expected, source):
    """'' or a description. `source`: the program, which names the types of 16-bit numbers."""
    found = block.bytes()
    wrong = found != expected
    if not wrong.any():
        return ""
    stored = kinds_of(block)
    for kind, number in KINDS.items():
        here = stored == number
        if not (wrong & here).any():
            continue
        size = int(kind[1:]) // 8 if kind else 1
        a, b = (elements(data, here, size) for data in (found, expected))
        errors = {name: error_of(READ[name](a), READ[name](b)) for name in readings(kind, source)}
        if any(error <= TOLERANCES[name] for name, error in errors.items()):
            continue
        place = int(np.flatnonzero(wrong & here)[0])
        shown = ", ".join(f"{name} by {error:.2g}" for name, error in errors.items())
        return (
            f"{int((wrong & here).sum())} bytes differ that were stored as {kind or 'nothing'}"
            f"{f' ({shown})' if shown else ''}, first byte {place} of {block.name}: "
            f"{found[place // size * size :][:size].tobytes().hex()} for "
            f"{expected[place // size * size :][:size].tobytes().hex()}"
        )
    return ""


def elements(data, here, size):
    """The whole elements in which a byte is marked."""
    count = len(data) // size * size
    rows = here[:count].reshape(-1, size).all(1)
    return np.ascontiguousarray(data[:count].reshape(-1, size)[rows])
