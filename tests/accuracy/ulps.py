"""Numbers of all magnitudes, and how far results are from exact ones in units of the last place."""

import math

import torch

# Bits of the significand, and the least exponent of a normal number.
FORMATS = {torch.float16: (11, -14), torch.bfloat16: (8, -126), torch.float32: (24, -126)}
BITS = {torch.float16: torch.int16, torch.bfloat16: torch.int16, torch.float32: torch.int32}
NOT_NUMBERS = [0.0, -0.0, math.inf, -math.inf, math.nan]
LANDMARKS = [0.5, 1.0, 2.0, 3.0, 10.0, 100.0, 1.5, 1 / 3, 1e-3, 1e-30, 1e30]


def every_number(dtype):
    """All 65536 numbers of a 16-bit type."""
    return torch.arange(-(1 << 15), 1 << 15).to(torch.int16).view(dtype)


def spread(count, dtype, seed):
    """Numbers with bit patterns at random, so that all exponents and denormals are as frequent.

    A quarter of them is between 2^-10 and 2^10, where functions change.
    """
    numbers = torch.Generator().manual_seed(seed)
    limits = torch.iinfo(BITS[dtype])
    bits = torch.randint(limits.min, limits.max, (count,), generator=numbers, dtype=torch.int64)
    x = bits.to(BITS[dtype]).view(dtype)
    exponents = torch.rand(count // 4, generator=numbers, dtype=torch.float64) * 20 - 10
    x[: count // 4] = torch.copysign(exponents.exp2(), x[: count // 4].double()).to(dtype)
    return x


def special_numbers(dtype):
    """Zeros, infinities, NaN, the ends of the type's range, and some numbers between."""
    info = torch.finfo(dtype)
    ends = [info.max, info.tiny, info.smallest_normal, info.eps, info.tiny * info.eps]
    numbers = [x for number in ends + LANDMARKS for x in (number, -number)]
    return torch.tensor(NOT_NUMBERS + numbers, dtype=torch.float64).to(dtype).unique(sorted=False)


def distance(actual, exact):
    """|actual - exact| in units of the last place, as float64.

    Arguments:
        actual: results in float16, bfloat16 or float32.
        exact: the same in float64.
    A result of another kind than the exact one, such as NaN for a number, is infinitely far.
    """
    digits, least = FORMATS[actual.dtype]
    _, exponent = torch.frexp(exact)
    unit = torch.ldexp(torch.ones_like(exact), exponent.clamp(min=least + 1) - digits)
    steps = (actual.double() - exact).abs() / unit
    rounded = exact.to(actual.dtype)
    alike = (actual == rounded) | (actual.isnan() & rounded.isnan())
    other_kind = (actual.isfinite() != rounded.isfinite()) & ~alike
    steps = torch.where(other_kind, math.inf, steps)
    return torch.where(alike & ~rounded.isfinite(), 0.0, steps)


def kinds(x):
    """0 for numbers; other integers for NaN, each infinity and each zero."""
    kind = x.isnan().int() * 1 + (x == math.inf) * 2 + (x == -math.inf) * 3
    return kind + (x == 0) * (4 + x.signbit().int())
