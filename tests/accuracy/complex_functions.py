"""Element-wise functions of complex64: the length of the error, against complex128 and mpmath."""

import math

import numpy
import torch
from functions import kinds_that_differ
from ulps import FORMATS, special_numbers, spread

UNARY = """exp expm1 log log10 log1p sin cos tan sinh cosh tanh asin acos atan asinh acosh atanh
    sqrt rsqrt reciprocal sgn abs angle sigmoid square""".split()  # noqa: SIM905
BINARY = ["mul", "div", "pow"]
# PyTorch's complex128 loses digits of these, and of values next to branch cuts.
NUMPY = {
    "asin": numpy.arcsin,
    "acos": numpy.arccos,
    "atan": numpy.arctan,
    "asinh": numpy.arcsinh,
    "acosh": numpy.arccosh,
    "atanh": numpy.arctanh,
}
CHECKED_ROWS = 64
CHECKED_LIMIT = 1e4
MPMATH = {
    **{name: name for name in UNARY if name not in ("abs", "angle", "rsqrt", "sgn", "square")},
    "abs": "fabs",
    "angle": "arg",
    "sgn": "sign",
    "rsqrt": lambda m, x: 1 / m.sqrt(x),
    "reciprocal": lambda m, x: 1 / x,
    "square": lambda m, x: x * x,
    "sigmoid": lambda m, x: 1 / (1 + m.exp(-x)),
    "log1p": lambda m, x: m.log(1 + x),
    "expm1": lambda m, x: m.exp(x) - 1,
    "mul": lambda m, x, y: x * y,
    "div": lambda m, x, y: x / y,
    "pow": "power",
}


def distance(actual, exact):
    """|actual - exact| in units of the last place of |exact|, as float64.

    Arguments:
        actual: results as complex64 or float32.
        exact: the same as complex128 or float64.
    NaN where either has an infinite part, a part that is NaN, or a length beyond the type.
    """
    digits, least = FORMATS[torch.float32]
    length = exact.abs()
    _, exponent = torch.frexp(length)
    unit = torch.ldexp(torch.ones_like(length), exponent.clamp(min=least + 1) - digits)
    steps = (actual.to(exact.dtype) - exact).abs() / unit
    return torch.where(length.float().isfinite() & steps.isfinite(), steps, math.nan)


def parts(x):
    """The real and imaginary parts of results, one after the other."""
    return torch.view_as_real(x).flatten() if x.is_complex() else x


def corrected(name, arguments, exact, rows):
    """exact with mpmath's results at these rows; it has no zeros with signs."""
    import mpmath

    function = MPMATH[name]
    with mpmath.workdps(120):
        for row in rows:
            numbers = [x[row].item() for x in arguments]
            lengths = [abs(part) for x in numbers for part in (x.real, x.imag)]
            if not all(0 < length < CHECKED_LIMIT for length in lengths):
                continue
            points = [mpmath.mpmathify(x) for x in numbers]
            if isinstance(function, str):
                result = getattr(mpmath, function)(*points)
            else:
                result = function(mpmath, *points)
            exact[row] = complex(result) if exact.is_complex() else float(result)
    return exact


def exact_result(name, arguments):
    """As complex128 or float64."""
    wide = [x.to(torch.complex128) for x in arguments]
    if name not in NUMPY:
        return getattr(torch, name)(*wide)
    with numpy.errstate(all="ignore"):
        return torch.from_numpy(NUMPY[name](*(x.numpy() for x in wide)))


def summary(steps, arguments):
    row = int(steps.nan_to_num(nan=-1.0).argmax())
    at = [part for x in arguments for part in torch.view_as_real(x[row]).tolist()]
    return {"ulp": round(steps[row].item(), 2), "at": at, "wrong": 0}


def measure(name, arguments, device):
    """One row of the table: the device and the CPU against complex128 and mpmath."""
    function = getattr(torch, name)
    actual = function(*(x.to(device) for x in arguments)).cpu()
    expected = function(*arguments)
    exact = exact_result(name, arguments)
    for _ in range(2):  # what is far at first may only be far from a wrong complex128
        far = [distance(x, exact).nan_to_num(nan=0.0) for x in (actual, expected)]
        rows = torch.cat([x.topk(min(CHECKED_ROWS, x.numel())).indices for x in far])
        exact = corrected(name, arguments, exact, rows.unique().tolist())
    numbers = [torch.view_as_real(x).movedim(-1, 0) for x in arguments]
    if actual.is_complex():
        numbers = [x.repeat_interleave(2, 1) for x in numbers]
    return {
        "name": name,
        "dtype": "complex64",
        "ocl": summary(distance(actual, exact), arguments),
        "cpu": summary(distance(expected, exact), arguments),
        "kinds": kinds_that_differ(
            parts(actual), parts(expected), parts(exact), [x for pair in numbers for x in pair]
        ),
    }


def numbers_of(count, seed):
    """Complex numbers with bit patterns at random; a half has parts of similar length."""
    real, imag = spread(count, torch.float32, seed), spread(count, torch.float32, seed + 1)
    near = torch.rand(count // 2, generator=torch.Generator().manual_seed(seed)) * 8 - 4
    imag[: count // 2] = real[: count // 2] * near
    return torch.complex(real, imag)


def arguments_of(name, count):
    """All pairs of special parts, and numbers at random."""
    special = special_numbers(torch.float32)
    pairs = torch.cartesian_prod(special, special)
    x = torch.cat([torch.complex(*pairs.unbind(1)), numbers_of(count, 0)])
    if name in UNARY:
        return [x]
    return [x, torch.cat([x[: len(pairs)].roll(7), numbers_of(count, 2).flip(0)])]


def measure_complex(device, count, names=(*UNARY, *BINARY)):
    for name in names:
        yield measure(name, arguments_of(name, count), device)
