"""Compares the values of a program on the device with the CPU's."""

import torch
from author import COARSE, largest

# (relative, absolute) by type, for values that were rounded. Exact ones must be equal.
TOLERANCE = {
    torch.float64: (1e-4, 1e-4),  # rounded in float32 perhaps, before a conversion
    torch.complex128: (1e-4, 1e-4),
    torch.float32: (1e-4, 1e-4),
    torch.complex64: (1e-4, 1e-4),
    torch.float16: (1e-2, 1e-2),
    torch.bfloat16: (8e-2, 8e-2),
}


class Difference(Exception):
    """The difference: a kind, and a sentence."""

    def __init__(self, kind, message):
        super().__init__(message)
        self.kind = kind


def layout(x):
    """Strides of the dimensions where they matter."""
    if x.numel() < 2:
        return None
    return tuple(s for n, s in zip(x.shape, x.stride()) if n > 1)


def compare_values(actual, expected, level, versions=True):
    """Raises Difference. Rounding and the level decide how close numbers must be."""
    if actual is None:
        raise Difference("missing", "there is no result")
    for name in ("dtype", "shape", "requires_grad", "is_leaf", "_version")[: 5 if versions else 4]:
        a, b = getattr(actual, name), getattr(expected, name)
        if a != b:
            raise Difference(name, f"{name} {a} instead of {b}")
    for function in (torch.is_conj, torch.Tensor.is_neg, layout):
        a, b = function(actual), function(expected)
        if a != b and expected.numel():
            raise Difference(function.__name__, f"{function.__name__} {a} instead of {b}")
    compare_numbers(actual.detach().cpu(), expected.detach(), level)


def compare_numbers(actual, expected, level):
    if level == 0 or expected.dtype not in TOLERANCE:
        same = (actual == expected) | ((actual != actual) & (expected != expected))
        if level and not expected.dtype.is_floating_point:
            return
    else:
        rtol, atol = TOLERANCE[torch.bfloat16 if level >= COARSE else expected.dtype]
        level = level % COARSE or 1
        numbers = expected[expected.isfinite()]
        scale = max(1.0, largest(numbers) * level)
        same = torch.isclose(actual, expected, rtol * level, atol * scale, equal_nan=True)
        if expected.dtype == torch.float16:  # beyond the type, or just not
            same |= (actual.abs() >= 60_000) & (expected.abs() >= 60_000)
    if not same.all():
        where = tuple((~same).nonzero()[0].tolist())
        wrong = int((~same).sum())
        raise Difference(
            "numbers",
            f"{wrong} of {same.numel()} numbers, at {where}: "
            f"{actual[where].item()} instead of {expected[where].item()}",
        )


def aliases(run, numbers):
    """Finds values that share memory: for each value, the first one with the same storage."""
    first, result = {}, {}
    for n in numbers:
        if run[n].numel():
            key = run[n].untyped_storage().data_ptr()
            result[n] = first.setdefault(key, n)
    return result


def compare_aliases(actual, expected, numbers):
    a, b = aliases(actual, numbers), aliases(expected, numbers)
    for n in numbers:
        if a.get(n) != b.get(n):
            shares = f"v{a.get(n)} instead of v{b.get(n)}"
            raise Difference("aliases", f"v{n} shares the memory of {shares}")


def compare_errors(actual, expected, step):
    """Both raise an error of the same class, or neither."""
    a, b = (type(e).__name__ if e is not None else None for e in (actual, expected))
    if a != b:
        text = " ".join(str(actual).split())[:200] if actual is not None else ""
        raise Difference("error", f"{a or 'nothing'} raised instead of {b or 'nothing'}: {text}")
