"""Functions of complex numbers at zero, infinity, NaN and the ends of the type, as on the CPU."""

import itertools
import math
from fractions import Fraction

import pytest
import torch
from support import COMPLEX, assert_agrees, has_fp64, name_of, random_tensor

PARTS = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -2.0, 60.0, -60.0]
FUNCTIONS = [
    "exp",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "sqrt",
    "rsqrt",
    "sin",
    "cos",
    "tan",
    "sinh",
    "cosh",
    "tanh",
    "asin",
    "acos",
    "atan",
    "asinh",
    "acosh",
    "atanh",
    "sigmoid",
    "reciprocal",
]


@pytest.fixture(params=COMPLEX, ids=name_of)
def dtype(request):
    return request.param


def pairs(dtype, parts=PARTS):
    real = dtype.to_real()
    found = torch.tensor(list(itertools.product(parts, parts)), dtype=real)
    return torch.view_as_complex(found)


def assert_parts_agree(actual, expected, rtol, signs=None):
    """NaN, infinities and zeros are in the same places; where `signs`, their signs are the same."""
    got, want = (torch.view_as_real(x) for x in (actual.cpu(), expected))
    number = want.isfinite() & (want != 0)
    other = ~number & ~want.isnan()
    assert torch.equal(got.isnan(), want.isnan())
    assert torch.equal(got[other], want[other])
    other &= True if signs is None else signs.unsqueeze(-1)
    assert torch.equal(got[other].signbit(), want[other].signbit())
    length = torch.where(expected.isfinite(), expected.abs(), 0).unsqueeze(-1)
    error = (got - want).abs() / torch.maximum(length, want.abs())
    assert error[number].max() < rtol


@pytest.mark.parametrize("name", FUNCTIONS)
def test_special_values(device, name, dtype):
    x, function = pairs(dtype), getattr(torch, name)
    # With a NaN the C standard does not say the sign. The CPU's acos of complex128 has other signs.
    signs = ~x.isnan() & ~torch.tensor(name == "acos" and dtype == torch.complex128)
    assert_parts_agree(function(x.to(device)), function(x), 1e-5, signs)


@pytest.mark.parametrize("order", [2, 1, 0, 3, math.inf, -math.inf])
def test_norms_of_special_values(device, order, dtype):
    """A number with an infinite and a NaN part is infinite."""
    x = pairs(dtype)
    rows = torch.stack([x, torch.full_like(x, 0.5)], 1)

    def function(x):
        return torch.linalg.vector_norm(x, order, 1)

    assert_agrees(function, device, rows, exact=False)


@pytest.mark.parametrize("name", ["log", "log10", "log1p", "asin", "acosh", "asinh", "sinh", "exp"])
def test_large_numbers(device, name, dtype):
    limits = torch.finfo(dtype)
    steep = math.log(limits.max) + 1
    parts = [limits.max, -limits.max / 2] if name not in ("sinh", "exp") else [steep, 1e-3]
    x, function = pairs(dtype, parts), getattr(torch, name)
    assert_parts_agree(function(x.to(device)), function(x), 1e-4)


def test_next_to_the_poles_of_atanh(device):
    x = torch.tensor([1 + 1e-30j, -1 - 1e-25j, 1 + 1e-16j])
    assert_parts_agree(torch.atanh(x.to(device)), torch.atanh(x), 1e-5)


def test_a_number_times_its_conjugate_is_real(device, dtype):
    x = random_tensor((1000,), dtype).to(device)
    assert torch.equal((x * x.conj_physical()).imag.cpu(), torch.zeros(1000, dtype=dtype.to_real()))


@pytest.mark.parametrize("exponent", [0, 0.5, 1, 2, 3, -1, -2, -0.5, 2.5, 1 + 2j])
def test_powers(device, exponent, dtype):
    x = torch.cat([pairs(dtype, [0.0, -0.0, 1.0, -2.0, 0.5]), random_tensor((40,), dtype)])
    assert_agrees(lambda t: t**exponent, device, x, exact=False, rtol=1e-5, atol=1e-6)
    other = torch.full_like(x, exponent)
    assert_agrees(lambda t, e: t**e, device, x, other, exact=False, rtol=1e-5, atol=1e-6)


def test_exponents_beyond_the_type(device):
    x = torch.tensor([1.5, 0.5, 2, 0], dtype=torch.complex64)
    for exponent in (1e300, -1e300, 1e39):
        assert_agrees(lambda t, e=exponent: t**e, device, x)


def test_order_of_products(device, dtype):
    big = torch.finfo(dtype).max / 2
    x = torch.tensor([1 + 1j, 0j, -2 + 1j], dtype=dtype)
    y = torch.tensor([math.inf, 3, complex(-math.inf, 0)], dtype=dtype)
    assert_agrees(torch.addcmul, device, x, x, y)
    assert_agrees(torch.addr, device, x.expand(3, 3), x, y)
    assert_agrees(torch.addcdiv, device, x, x, torch.tensor([0, -0.0, 1j], dtype=dtype))
    real = torch.tensor([big, 1.0], dtype=dtype.to_real())
    four = torch.full_like(real, 4)
    assert_agrees(lambda t, d: torch.addcdiv(t, t, d, value=3), device, real, four)
    assert_agrees(lambda t, d: torch.addcdiv(t, t, d, value=3), device, x.real, four[:1])


def test_mean(device, dtype):
    x = torch.stack([pairs(dtype), torch.full((len(PARTS) ** 2,), 2 + 3j, dtype=dtype)])
    assert_parts_agree(x.to(device).mean(0), x.mean(0), 1e-6)
    whole = [
        torch.stack([y[:, i].mean() for i in range(0, y.size(1), 7)]) for y in (x.to(device), x)
    ]
    assert_parts_agree(*whole, 1e-6)


def test_a_real_number_times_infinite_ones(device):
    """The real number's imaginary part is 0, and 0 times infinity is NaN."""
    real = torch.tensor([math.inf, 0.0, 2.0, math.nan]).repeat_interleave(4)
    other = torch.tensor(
        [complex(math.inf, 0), complex(0, math.inf), complex(math.nan, math.inf), 1 + 2j]
    ).repeat(4)
    actual = torch.view_as_real(real.to(device) * other.to(device)).cpu()
    # One at a time: the CPU's vectors may differ from its remainder loop.
    expected = torch.stack([torch.view_as_real(a * b) for a, b in zip(real, other, strict=True)])
    torch.testing.assert_close(actual, expected, rtol=0, atol=0, equal_nan=True)


def test_tangent_beside_its_poles(device, dtype):
    """Squares of the tangent and the hyperbolic sine overflow together, but not the result."""
    real = torch.tensor([8, 9.9, 10.1, 14, 19.9, 20.1, 41.96, 340], dtype=dtype.to_real())
    for imag in (math.pi / 2, -math.pi / 2 + 1e-5, 14.177446365356445):
        x = torch.complex(real, torch.full_like(real, imag))
        assert_parts_agree(torch.tanh(x.to(device)), torch.tanh(x), 1e-6)
        assert_parts_agree(torch.tan((x * 1j).to(device)), torch.tan(x * 1j), 1e-6)


def test_roots_and_logarithms_of_the_least_numbers(device, dtype):
    """Half of them is 0, and their length has few digits."""
    least = torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps
    x = pairs(dtype, [0.0, -0.0, least, -least, 3 * least])
    for function in (torch.sqrt, torch.log, torch.log10):
        assert_parts_agree(function(x.to(device)), function(x), 1e-6)
    near = 1 + x[x.imag != 0]
    assert torch.asin(near.to(device)).isfinite().all()
    assert torch.acosh(-near.to(device)).isfinite().all()


def test_hyperbolic_functions_where_the_exponential_overflows(device, dtype):
    limit, eps = math.log(torch.finfo(dtype).max), torch.finfo(dtype).eps
    x = pairs(dtype, [limit + 0.3, -limit - 0.2, limit - 1.7, 0.7])
    for function in (torch.sinh, torch.cosh):
        y = function(x.to(device))
        error = (y.cpu() - function(x)).abs() / function(x).abs()
        assert error[x.real.abs() > 1].max() < 6 * eps


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_division_at_the_ends_of_the_range(device, dtype):
    """In the top octave the sum of two parts overflows, and reciprocals of small numbers do."""
    if dtype == torch.complex128 and not has_fp64(device):
        pytest.skip("the device has no float64")
    limits = torch.finfo(dtype)
    parts = torch.tensor(
        [limits.max, -limits.max * 0.75, limits.max / 3, limits.tiny, -limits.tiny * 3, 1.0, 0.0],
        dtype=torch.float64,
    )
    real, imaginary = torch.cartesian_prod(parts, parts).unbind(1)
    numbers = torch.complex(real, imaginary).to(dtype)
    numbers = numbers[numbers != 0]
    x, y = torch.cartesian_prod(numbers, numbers).unbind(1)
    # Python's integers do not overflow.
    exact = [exact_quotient(a, b) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    actual = (x.to(device) / y.to(device)).cpu()
    for z, w, quotient, got in zip(x.tolist(), y.tolist(), exact, actual.tolist(), strict=True):
        size = max(abs(part) for part in quotient)
        if size > limits.max or size < limits.tiny:
            continue
        for part, mine in zip(quotient, (got.real, got.imag), strict=True):
            assert abs(Fraction(mine) - part) <= 8 * Fraction(limits.eps) * size, (z, w, got)


def exact_quotient(z, w):
    a, b, c, d = (Fraction(part) for part in (z.real, z.imag, w.real, w.imag))
    length = c * c + d * d
    return (a * c + b * d) / length, (b * c - a * d) / length
