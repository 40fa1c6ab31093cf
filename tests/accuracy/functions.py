"""The element-wise functions: those of pointwise_table.h, and those composed of them."""

import functools
import math

import torch
import torch.nn.functional as F
from pointwise_cases import Case, operators, special_operators
from scipy import special
from ulps import distance, every_number, kinds, special_numbers, spread

# Not numbers as results, or none that rounding changes.
EXACT = {"logical_not", "isposinf", "isneginf", "signbit", "conj_physical", "bitwise_not"}
BINARY = """add sub mul div.Tensor floor_divide div.Tensor_mode remainder.Tensor fmod.Tensor
    pow.Tensor_Tensor maximum minimum fmax fmin atan2 hypot copysign.Tensor xlogy special_xlog1py
    logaddexp logaddexp2 heaviside special_zeta igamma igammac""".split()  # noqa: SIM905
# mpmath's functions, which give the exact result where float64's may be wrong.
MPMATH = {
    "special_bessel_j0": lambda m, x: m.besselj(0, x),
    "special_bessel_j1": lambda m, x: m.besselj(1, x),
    "special_bessel_y0": lambda m, x: m.bessely(0, x) if x > 0 else m.nan,
    "special_bessel_y1": lambda m, x: m.bessely(1, x) if x > 0 else m.nan,
    "special_airy_ai": lambda m, x: m.airyai(x),
    "i0": lambda m, x: m.besseli(0, x),
    "special_i1": lambda m, x: m.besseli(1, x),
    "special_i0e": lambda m, x: m.besseli(0, x) * m.exp(-abs(x)),
    "special_i1e": lambda m, x: m.besseli(1, x) * m.exp(-abs(x)),
    "special_modified_bessel_i0": lambda m, x: m.besseli(0, x),
    "special_modified_bessel_i1": lambda m, x: m.besseli(1, x),
    "special_modified_bessel_k0": lambda m, x: m.besselk(0, x),
    "special_modified_bessel_k1": lambda m, x: m.besselk(1, x),
    "special_scaled_modified_bessel_k0": lambda m, x: m.besselk(0, x) * m.exp(x),
    "special_scaled_modified_bessel_k1": lambda m, x: m.besselk(1, x) * m.exp(x),
    "special_erfcx": lambda m, x: m.exp(x * x) * m.erfc(x),
    "special_log_ndtr": lambda m, x: m.log(m.erfc(-x / m.sqrt(2)) / 2),
    "special_ndtri": lambda m, x: m.sqrt(2) * m.erfinv(2 * x - 1),
    "erfinv": lambda m, x: m.erfinv(x),
    "digamma": lambda m, x: m.digamma(x),
    "polygamma 1": lambda m, x: m.psi(1, x),
    "polygamma 2": lambda m, x: m.psi(2, x),
    "polygamma 3": lambda m, x: m.psi(3, x),
    "lgamma": lambda m, x: m.log(abs(m.gamma(x))) if abs(x) < 1000 else m.loggamma(x).real,
    "sinc": lambda m, x: m.sincpi(x),
    "special_spherical_bessel_j0": lambda m, x: m.sinc(x),
    "log1p": lambda m, x: m.log1p(x),
    "asinh": lambda m, x: m.asinh(x),
    "atanh": lambda m, x: m.atanh(x),
    "acosh": lambda m, x: m.acosh(x),
    "mish": lambda m, x: x * m.tanh(m.log1p(m.exp(x))),
    "softplus": lambda m, x: m.log1p(m.exp(1.5 * x)) / 1.5,  # with pointwise_cases.py's beta
    "logit": lambda m, x: m.log(x / (1 - x)),
    "silu": lambda m, x: x / (1 + m.exp(-x)),
    "gelu": lambda m, x: x / 2 * m.erfc(-x / m.sqrt(2)),
    "log_sigmoid": lambda m, x: -m.log1p(m.exp(-x)),
    "igamma": lambda m, a, x: m.gammainc(a, 0, x, regularized=True),
    "igammac": lambda m, a, x: m.gammainc(a, x, regularized=True),
}
# Arguments that mpmath computes within milliseconds.
CHECKED = (1e-30, 1e4)
# PyTorch's float64 has few digits of these far from zero, so mpmath computes all, of fewer numbers.
FEWER = 500
STEPS = -100
ONLY_MPMATH = {f"special_bessel_{kind}" for kind in ("j0", "j1", "y0", "y1")} | {"special_airy_ai"}
CHECKED_ROWS = {torch.float16: 16, torch.bfloat16: 16, torch.float32: 64}


def called(name):
    case = Case(name)
    return lambda *tensors: case.call(tensors)


@functools.cache
def unary_functions():
    """{name: a function of one tensor}"""
    names = [n for n in operators() + special_operators() if n not in EXACT]
    found = {n: called(n) for n in names if Case(n).inputs == 1 and n != "polygamma"}
    for order in (0, 1, 2, 3):
        found[f"polygamma {order}"] = functools.partial(torch.polygamma, order)
    return found | {
        "gelu": F.gelu,
        "gelu tanh": functools.partial(F.gelu, approximate="tanh"),
        "log_sigmoid": F.logsigmoid,
        "square": torch.square,
        "softsign": F.softsign,
        "special_ndtr": torch.special.ndtr,
    }


def step(x, y):
    """nextafter, which float64 would compute with its own steps."""
    if x.dtype != torch.float64:
        return torch.nextafter(x, y)
    raise NotImplementedError


@functools.cache
def binary_functions():
    """{name: a function of two tensors}"""
    found = {name: called(name) for name in BINARY}
    found["div floor"] = functools.partial(torch.div, rounding_mode="floor")
    found["ldexp"] = lambda x, y: torch.ldexp(x, y.clamp(-300, 300).nan_to_num().int())
    found["float_power"] = torch.float_power
    found["nextafter"] = step
    return found


def gelu_by_tanh(x):
    """(1 + tanh(y)) / 2 is sigmoid(2 y), which keeps its digits where tanh is near -1."""
    y = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    return x * torch.sigmoid(2 * y)


def of_scipy(function):
    return lambda *arguments: torch.from_numpy(function(*(x.numpy() for x in arguments)))


# Arguments for which PyTorch's own formula loses digits in float64, too.
REFERENCES = {
    "gelu tanh": gelu_by_tanh,
    "igamma": of_scipy(special.gammainc),
    "igammac": of_scipy(special.gammaincc),
}


def exact_result(function, arguments):
    """In float64 on the CPU; what has its own steps is the CPU's in the type itself."""
    try:
        return function(*(x.double() for x in arguments))
    except NotImplementedError:
        return function(*arguments).double()


def on_the_cpu(function, arguments):
    """In the type of the arguments; in float32 where the CPU does not have the function for it."""
    try:
        return function(*arguments)
    except NotImplementedError:
        return function(*(x.float() for x in arguments)).to(arguments[0].dtype)


def corrected(name, arguments, exact, rows):
    """exact with mpmath's results at these rows, where there is such a function."""
    if name not in MPMATH:
        return exact
    import mpmath

    with mpmath.workdps(60):
        for row in rows:
            numbers = [x[row].item() for x in arguments]
            if all(CHECKED[0] < abs(x) < CHECKED[1] for x in numbers):
                try:
                    result = MPMATH[name](mpmath, *map(mpmath.mpf, numbers))
                    exact[row] = float(mpmath.re(result))
                except (ValueError, ZeroDivisionError, mpmath.libmp.NoConvergence):
                    continue
    return exact


def summary(result, exact, arguments):
    """The greatest finite distance of results, where it is, and how many are infinitely far."""
    steps = distance(result, exact)
    finite = torch.where(steps.isfinite(), steps, -1.0)
    row = int(finite.argmax())
    return {
        "ulp": round(finite[row].item(), 2),
        "at": [x[row].item() for x in arguments],
        "wrong": int((steps == math.inf).sum()),
    }


def kinds_that_differ(actual, expected, exact, arguments, count=6):
    """Arguments whose result is of another kind than on the CPU, which is right.

    Between zero and the least numbers of the type, a rounding decides.
    """
    rounded = exact.to(expected.dtype)
    differs = (kinds(actual) != kinds(expected)) & (kinds(rounded) == kinds(expected))
    info = torch.finfo(expected.dtype)
    little = 4 * info.smallest_normal * info.eps
    is_little = (actual.double().abs() <= little) & (expected.double().abs() <= little)
    differs &= ~(is_little & (exact != 0))
    rows = differs.nonzero().flatten()
    few = (
        rows[torch.linspace(0, len(rows) - 1, min(count, len(rows))).long()] if len(rows) else rows
    )
    examples = [
        [[x[row].item() for x in arguments], actual[row].item(), expected[row].item()]
        for row in few
    ]
    return {"count": len(rows), "examples": examples}


def measure(name, function, arguments, device):
    """One row of the table: the device and the CPU against float64 and mpmath."""
    arguments = not_far_below(name, arguments)
    actual = function(*(x.to(device) for x in arguments)).cpu()
    expected = on_the_cpu(function, arguments)
    if actual.dtype == torch.float64:
        actual, expected = actual.float(), expected.float()
    exact = exact_result(REFERENCES.get(name, function), arguments)
    for _ in range(2):  # what is far at first may only be far from a wrong float64
        far = [distance(x, exact).nan_to_num(posinf=0.0) for x in (actual, expected)]
        limit = FEWER if name in ONLY_MPMATH else CHECKED_ROWS[arguments[0].dtype]
        rows = torch.cat([x.topk(min(limit, x.numel())).indices for x in far]).unique().tolist()
        exact = corrected(name, arguments, exact, rows)
    return {
        "name": name,
        "dtype": str(arguments[0].dtype).removeprefix("torch."),
        "ocl": summary(actual, exact, arguments),
        "cpu": summary(expected, exact, arguments),
        "kinds": kinds_that_differ(actual, expected, exact, arguments),
    }


def unary_arguments(name, dtype, count, seed=0):
    if name in ONLY_MPMATH:
        x = spread(4 * FEWER, dtype, seed)
        return [x[(x.abs() > CHECKED[0]) & (x.abs() < CHECKED[1])][:FEWER]]
    if dtype != torch.float32 and count >= 1 << 16:
        return [every_number(dtype)]
    return [torch.cat([special_numbers(dtype), spread(count, dtype, seed)])]


def not_far_below(name, arguments):
    """On the CPU, zeta takes as many steps as its last argument is below zero."""
    if name.startswith(("polygamma", "special_zeta")):
        arguments[-1] = arguments[-1].clamp(min=STEPS)
    return arguments


def binary_arguments(dtype, count, seed=0):
    """All pairs of special numbers, pairs at random, and as many of similar magnitude."""
    special = special_numbers(dtype)
    pairs = torch.cartesian_prod(special, special)
    x, y = spread(count, dtype, seed), spread(count, dtype, seed + 1)
    factor = torch.rand(count // 2, generator=torch.Generator().manual_seed(seed)) * 8 + 0.0625
    y[count // 2 :] = (x[count // 2 :].float() * factor[: count - count // 2]).to(dtype)
    return [torch.cat([pairs[:, 0], x]), torch.cat([pairs[:, 1], y])]


def measure_unary(device, dtypes, count, names=None):
    for name, function in unary_functions().items():
        if names is None or name in names:
            for dtype in dtypes:
                yield measure(name, function, unary_arguments(name, dtype, count), device)


def measure_binary(device, dtypes, count, names=None):
    for name, function in binary_functions().items():
        if names is None or name in names:
            for dtype in dtypes:
                yield measure(name, function, binary_arguments(dtype, count), device)
