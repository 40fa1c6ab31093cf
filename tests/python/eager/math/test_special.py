"""Every OCL_SPECIAL row of pointwise_table.h against CPU, over the domain of the function."""

import math

import pytest
import torch
from pointwise_cases import Case, special_operators
from support import assert_same, generator, has_fp64

EVERYWHERE = (-30, 30)
# Arguments in the function's domain, for which it is neither so large nor so near a pole that the
# argument's rounding matters.
DOMAINS = {
    "erfinv": (-1, 1),
    "special_ndtri": (0, 1),
    "special_erfcx": (-2, 40),
    "special_log_ndtr": (-20, 6),
    "digamma": (0.01, 30),
    "polygamma": (0.01, 30),
    "special_airy_ai": (-6, 6),
    "special_bessel_y0": (0.01, 40),
    "special_bessel_y1": (0.01, 40),
}
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 1e-6, 60.0, math.inf, -math.inf, math.nan]
DEGREES = "_polynomial_"
NOT_FINITE = [math.inf, -math.inf]
# Arguments for which PyTorch's CPU results are accidents of its approximations: NaN at infinity,
# numbers at NaN.
UNDEFINED = {
    "i0": NOT_FINITE,
    "special_i1": NOT_FINITE,
    "special_modified_bessel_i0": NOT_FINITE,
    "special_modified_bessel_i1": NOT_FINITE,
    "special_bessel_j0": NOT_FINITE,
    "special_bessel_j1": NOT_FINITE,
    "special_bessel_y0": NOT_FINITE,
    "special_bessel_y1": NOT_FINITE,
    "special_airy_ai": NOT_FINITE,
    "special_zeta": [math.nan],
    "igamma": [math.nan],
    "igammac": [math.nan],
}
# CPU's float64 results have no more digits (compared with mpmath; ours have 12).
IMPRECISE = ["special_bessel_j0", "special_bessel_j1", "special_bessel_y0", "special_bessel_y1"]
IMPRECISE += ["special_airy_ai"]

every_operator = pytest.mark.parametrize("name", special_operators())


def types_of(device):
    return [torch.float32, torch.float64] if has_fp64(device) else [torch.float32]


def uniform(low, high, seed, dtype, count=400):
    numbers = torch.rand(count, generator=generator(seed), dtype=torch.float64)
    return (low + numbers * (high - low)).to(dtype)


def arguments(name, dtype):
    if name in ("gcd", "lcm"):
        return [(uniform(-99, 99, seed, torch.float64)).long() for seed in (0, 1)]
    if name.startswith("igamma"):
        return [uniform(0.01, 60, seed, dtype) for seed in (0, 1)]
    if name == "special_zeta":
        return [uniform(1.1, 20, 0, dtype), uniform(0.1, 20, 1, dtype)]
    if DEGREES in name:
        return [uniform(-1.2, 1.2, 0, dtype), uniform(0, 20, 1, dtype).floor()]
    if "modified_bessel_k" in name:
        return [uniform(0.001, 60, 0, dtype)]
    return [uniform(*DOMAINS.get(name, EVERYWHERE), 0, dtype)]


def check(name, actual, expected):
    if not expected.is_floating_point():
        return assert_same(actual, expected)
    double = expected.dtype == torch.float64
    rtol, atol = (1e-9, 1e-10) if double else (1e-4, 1e-5)
    if name in IMPRECISE:
        rtol, atol = 1e-4, 1e-5
    if DEGREES in name and not double:
        atol = 1e-4  # both are quotients of small numbers at the ends of (-1, 1)
    assert_same(actual, expected, exact=False, rtol=rtol, atol=atol)


@pytest.mark.sample
@every_operator
def test_domain(device, name):
    case = Case(name)
    for dtype in types_of(device):
        tensors = arguments(name, dtype)
        check(name, case.call([t.to(device) for t in tensors]), case.call(tensors))


@every_operator
def test_special_values(device, name):
    case = Case(name)
    undefined = [math.nan] if DEGREES in name else UNDEFINED.get(name, [])
    values = [v for v in SPECIAL if not any(v is u for u in undefined) and v not in undefined]
    if name in ("gcd", "lcm"):
        values = [0, 1, -1, 12, -18, 2**31 - 1]
    numbers = torch.tensor(values)
    columns = torch.cartesian_prod(*[numbers] * case.inputs).view(-1, case.inputs).unbind(1)
    if DEGREES in name:
        columns = [columns[0], columns[1].nan_to_num(3, 3, 3)]
    tensors = [column.contiguous() for column in columns]
    check(name, case.call([t.to(device) for t in tensors]), case.call(tensors))


@pytest.mark.parametrize("name", [name for name in special_operators() if DEGREES in name])
def test_degrees_that_no_integer_holds(device, name):
    """Devices convert them to different integers, some to the largest one."""
    case = Case(name)
    degrees = [math.inf, -math.inf, math.nan, 1e19, -1e19, 2.0**63, -(2.0**63), -1, -0.5, 2.5]
    for dtype in types_of(device):
        x = torch.tensor([-2, -1, -0.5, 0, 0.5, 1, 2], dtype=dtype)
        tensors = [c.contiguous() for c in torch.cartesian_prod(x, x.new_tensor(degrees)).T]
        check(name, case.call([t.to(device) for t in tensors]), case.call(tensors))


def test_other_types(device):
    """Integers become float32, halves are computed in it; layouts are the skeleton's work."""
    for dtype in (torch.float16, torch.bfloat16, torch.int32, torch.bool):
        x = torch.arange(12).reshape(3, 4).to(dtype)
        expected = torch.digamma(x + 1 if dtype != torch.bool else x)[:, ::2]
        actual = torch.digamma(x.to(device) + 1 if dtype != torch.bool else x.to(device))[:, ::2]
        assert_same(actual, expected, exact=False, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("order", [0, 1, 2, 5])
def test_polygamma_orders(device, order):
    x = uniform(0.1, 20, 0, torch.float32)
    check("", torch.polygamma(order, x.to(device)), torch.polygamma(order, x))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_polygamma_at_its_poles_and_far_away(device, dtype):
    numbers = [math.inf, 1e30, 2.0, 0.0, -0.0, 0.5, -0.5, -1.5, 1e-3, math.nan]
    x = torch.tensor(numbers, dtype=dtype)
    for order in (1, 2, 3):
        expected = torch.polygamma(order, x)
        actual = torch.polygamma(order, x.to(device)).cpu()
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=0, equal_nan=True)
    poles = torch.polygamma(1, torch.tensor([-1.0, -2.0], dtype=dtype).to(device))
    assert (poles > 1e13).all()  # infinite, except for the rounding of pi


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", ["igamma", "igammac"])
def test_incomplete_gamma_functions_of_large_numbers(device, name, dtype):
    function = getattr(torch.special, "gammainc" if name == "igamma" else "gammaincc")
    a = torch.tensor([150.0, 9e4, 1.1e5, 4e5, 1e7, 1e8, 1e12]).repeat_interleave(9).to(dtype)
    deviations = torch.tensor([-40, -6, -2, -0.5, 0, 0.5, 2, 6, 40]).repeat(7).to(dtype)
    x = (a + deviations * a.sqrt()).clamp(min=0)
    expected = function(a.double(), x.double())
    actual = function(a.to(device), x.to(device)).cpu().double()
    close = 3e-5 if dtype == torch.float32 else 1e-9
    torch.testing.assert_close(actual, expected, rtol=0, atol=close)


@pytest.mark.parametrize(
    "function, numbers, error",
    [
        (torch.digamma, [-1 + 6e-8, -43.999996, -3.5, -2.0001, -7.9999], 3e-5),
        (torch.special.modified_bessel_k0, [1e-5, 9e-6, 1e-3], 1e-6),
        (torch.special.modified_bessel_k1, [1e-5, 9e-6, 1e-3], 1e-6),
        (torch.special.ndtri, [1e-38, 1e-31, 1e-29, 1e-20, 0.3], 1e-6),
    ],
    ids=["digamma", "k0", "k1", "ndtri"],
)
def test_numbers_next_to_poles(device, function, numbers, error):
    x = torch.tensor(numbers, dtype=torch.float32)
    expected = function(x.double()).float()
    torch.testing.assert_close(function(x.to(device)).cpu(), expected, rtol=error, atol=0)


def test_quantile_of_denormal_numbers(device):
    """-inf where the device takes them for 0."""
    x = torch.tensor([1e-40, 3e-45], dtype=torch.float32)
    actual, expected = torch.special.ndtri(x.to(device)).cpu(), torch.special.ndtri(x.double())
    near = torch.isclose(actual.double(), expected, rtol=1e-5)
    assert (near | (actual == -math.inf)).all(), actual
