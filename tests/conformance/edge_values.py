"""Numbers and elements at the ends of their types."""

import math

import torch

HALVES = (torch.float16, torch.bfloat16)

NUMBERS = {
    int: (-1, 0, 1, 255, 256, 300, 2**31, -(2**31) - 1, 2**63 - 1, -(2**63), 2**63),
    float: (0.0, -0.0, -1.0, 1e-45, 1e6, 1e39, 1e300, math.inf, -math.inf, math.nan),
    complex: (complex(math.inf, math.nan), complex(1e300, 0.0), complex(-0.0, -0.0)),
}


def of_floats(dtype):
    limits = torch.finfo(dtype)
    tiny = limits.smallest_normal
    return {
        "nan": [1.0, math.nan, -2.0],
        "inf": [math.inf, 1.0, -math.inf],
        "zeros": [0.0, -0.0],
        "denormals": [tiny / 2, -tiny / 4, tiny],
        "extremes": [limits.max, limits.min, limits.max / 2],
        "mixed": [math.nan, math.inf, -math.inf, -0.0, 0.0, tiny / 2, limits.max, -1.0, 0.5],
        "all nan": [math.nan],
    }


def of_integers(dtype):
    limits = torch.iinfo(dtype)
    return {
        "extremes": [limits.min, limits.max],
        "mixed": [limits.min, limits.max, 0, 1, limits.max - 1, *([-1] if limits.min else [])],
        "zeros": [0],
    }


SPECIALS = ("nan", "inf", "zeros", "denormals", "extremes", "mixed", "all nan")


def special_tensor(t, name, turn):
    """A tensor like `t` whose elements repeat the special numbers; None if the type has none. With
    another `turn` for each argument of a call, all pairs of special numbers occur."""
    if t.dtype is torch.bool:
        return None
    if t.is_complex():
        real, imaginary = (
            special_tensor(p, name, turn + k) for k, p in enumerate((t.real, t.imag))
        )
        return torch.complex(real, imaginary) if t.dtype is not torch.complex32 else None
    known = of_floats(t.dtype) if t.dtype.is_floating_point else of_integers(t.dtype)
    if name not in known:
        return None
    numbers = known[name]
    # Each argument has another step, so that all pairs occur.
    step = torch.arange(t.numel())
    step = step if turn == 0 else step // len(numbers) ** min(turn, 3) + turn * step
    return torch.tensor(numbers, dtype=t.dtype)[step % len(numbers)].reshape(t.shape)
