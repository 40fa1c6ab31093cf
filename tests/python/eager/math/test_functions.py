"""How far element-wise functions are from the exact results (tests/accuracy), on a few numbers."""

import math

import functions
import pytest
import torch
from bounds import BOUNDS
from ulps import distance, every_number, spread

# Arguments for which float32's functions and formulas lose digits, on the CPU too: near zeros of
# the function, at its poles, and where a step of the formula overflows. docs/accuracy.md has their
# distances.
LOSE_DIGITS = ("sinc", "logit", "sigmoid", "silu", "mish", "softplus", "log_sigmoid", "gelu")
LOSE_DIGITS += ("lgamma", "digamma", "polygamma", "hardswish", "i0", "special_i", "special_airy")
LOSE_DIGITS += ("special_erfcx", "special_log_ndtr", "special_ndtr", "special_bessel")
LOSE_DIGITS += ("special_modified", "special_scaled", "special_spherical")
UNARY = [n for n in functions.unary_functions() if not n.startswith(LOSE_DIGITS)]
LOSING_DIGITS = [n for n in functions.unary_functions() if n.startswith(LOSE_DIGITS)]
# The CPU computes polygamma in float64, which matters near its roots.
LIMITS = {"polygamma 2": 300}
BINARY = ["mul", "div.Tensor", "fmod.Tensor", "atan2", "hypot", "pow.Tensor_Tensor"]
OTHERWISE = 4  # used where OpenCL C has no bound


def bound(name):
    cuda, opencl = BOUNDS.get(name, (None, None))
    return max(cuda or 0, OTHERWISE if opencl is None else opencl, 0.5) + 0.01


@pytest.mark.parametrize("name", UNARY)
def test_unary(device, name):
    arguments = functions.unary_arguments(name, torch.float32, 4000)
    row = functions.measure(name, functions.unary_functions()[name], arguments, device)
    assert row["ocl"]["ulp"] <= bound(name) and row["ocl"]["wrong"] == 0, row


@pytest.mark.parametrize("name", LOSING_DIGITS)
def test_unary_that_loses_digits(device, monkeypatch, name):
    """No more than twice as many as on the CPU."""
    monkeypatch.setattr(functions, "FEWER", 60)  # mpmath takes long for Bessel functions
    monkeypatch.setattr(functions, "CHECKED_ROWS", {torch.float32: 4})
    (x,) = functions.unary_arguments(name, torch.float32, 4000)
    row = functions.measure(name, functions.unary_functions()[name], [x[x.isfinite()]], device)
    assert row["ocl"]["ulp"] <= max(2 * row["cpu"]["ulp"], LIMITS.get(name, 9)), row
    assert row["ocl"]["wrong"] <= row["cpu"]["wrong"], row


@pytest.mark.parametrize("name", BINARY)
def test_binary(device, name):
    arguments = functions.binary_arguments(torch.float32, 4000)
    row = functions.measure(name, functions.binary_functions()[name], arguments, device)
    assert row["ocl"]["ulp"] <= bound(name) and row["ocl"]["wrong"] == 0, row


@pytest.mark.parametrize("name", ["exp", "tanh", "erf", "i0", "special_i1e", "special_erfcx"])
def test_all_numbers_of_16_bits(device, name):
    """The nearest number of the type, or the next where float32 is near the middle."""
    function = functions.unary_functions()[name]
    for dtype in (torch.float16, torch.bfloat16):
        row = functions.measure(name, function, [every_number(dtype)], device)
        assert row["ocl"]["ulp"] < 0.51 and row["ocl"]["wrong"] == 0, row


def test_scaled_error_function_of_large_numbers(device):
    """x * sqrt(pi) would overflow."""
    x = torch.tensor([1e8, 1e30, 1.9e38, 2e38, 3.4e38])
    actual = torch.special.erfcx(x.to(device)).cpu()
    assert distance(actual, torch.special.erfcx(x.double())).max() <= 2


@pytest.mark.parametrize("name", ["i0", "special_i0e", "special_i1", "special_i1e"])
def test_modified_bessel_functions(device, name):
    row = functions.measure(
        name, functions.unary_functions()[name], [torch.linspace(1, 30, 20_000)], device
    )
    assert row["ocl"]["ulp"] < 9, row


@pytest.mark.parametrize("name", ["special_bessel_y0", "special_modified_bessel_k0"])
def test_logarithm_of_the_least_number(device, name):
    """Half of it is 0. -inf, or inf, where the device takes it for 0."""
    function = functions.unary_functions()[name]
    x = torch.tensor([1e-45])
    actual = function(x.to(device)).cpu()
    assert actual.isinf() or distance(actual, function(x.double())) < 2


def test_distance():
    exact = torch.tensor([1.0, 1.0, 3.0, float("inf"), float("nan"), 1e-45], dtype=torch.float64)
    actual = torch.tensor([1.0, 1 + 2**-23, 3 + 2**-21, float("inf"), float("nan"), 0.0])
    expected = torch.tensor([0, 1, 2, 0, 0, 1e-45 * 2**149], dtype=torch.float64)
    torch.testing.assert_close(distance(actual, exact), expected, atol=1e-3, rtol=0)
    wrong = torch.tensor([float("nan"), 3e38, 1.0]), torch.tensor([1, float("inf"), float("nan")])
    assert (distance(wrong[0], wrong[1].double()) == float("inf")).all()


def test_kinds_that_differ():
    exact = torch.tensor([0.0, 0, 1e-46, 1e-45, 1, math.inf, math.nan], dtype=torch.float64)
    actual = torch.tensor([0.0, -0.0, -0.0, 0, 0, 3e38, math.nan])
    found = functions.kinds_that_differ(actual, exact.float(), exact, [torch.arange(7.0)])
    assert [at for (at,), _, _ in found["examples"]] == [1, 4, 5] and found["count"] == 3


def test_numbers_are_of_all_exponents():
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        x = spread(20_000, dtype, 0)
        exponents = torch.frexp(x[x.isfinite() & (x != 0)].float()).exponent.unique()
        assert exponents.numel() > {torch.float16: 38}.get(dtype, 250)
        assert x.isnan().any() and (x < 0).any() and (x > 0).any()


@pytest.mark.parametrize("order", [2, 3, 4])
def test_polygamma_far_below_zero(device, order):
    """Not a step for each unit: the CPU takes seconds for eight numbers like the first one."""
    x = torch.tensor([-8e6 + 0.5]).expand(1 << 16)
    far = torch.polygamma(order, x.to(device)).cpu()
    # Half way between poles, what is on both sides cancels for even orders.
    limit = {2: -1 / 8e6**2, 3: 2 * math.pi**4, 4: -6 / 8e6**4}[order]
    torch.testing.assert_close(far, torch.full_like(far, limit), rtol=1e-5, atol=0)


@pytest.mark.parametrize("order", [2, 3, 4])
def test_polygamma_between_poles(device, order):
    x = torch.tensor([-0.5, -1.25, -2.75, -3.5, -16.5, -17.25, -20.6875, -100.375])
    actual = torch.polygamma(order, x.to(device)).cpu()
    torch.testing.assert_close(
        actual, torch.polygamma(order, x.double()).float(), rtol=2e-6, atol=0
    )


def test_polygamma_far_above_zero(device):
    """For arguments whose x^-3 underflows, but not the result."""
    x = torch.tensor([1e10, 1e13, 1e16])
    actual = torch.polygamma(2, x.to(device)).cpu()
    torch.testing.assert_close(actual, -1 / x.double().pow(2).float(), rtol=1e-5, atol=0)


def test_gelu_by_tanh_of_negative_numbers(device):
    """1 + tanh would be a difference of numbers near 1."""
    x = torch.linspace(-7.5, -3, 2000)
    y = math.sqrt(2 / math.pi) * (x.double() + 0.044715 * x.double() ** 3)
    exact = x.double() * torch.sigmoid(2 * y)  # is the same
    actual = torch.nn.functional.gelu(x.to(device), approximate="tanh").cpu()
    torch.testing.assert_close(actual, exact.float(), rtol=2e-5, atol=0)


def test_gradient_of_gelu_by_tanh_of_negative_numbers(device):
    x = torch.linspace(-7.5, -3, 2000)
    exact = x.double().requires_grad_()
    y = math.sqrt(2 / math.pi) * (exact + 0.044715 * exact**3)
    (exact * torch.sigmoid(2 * y)).sum().backward()
    actual = x.to(device).requires_grad_()
    torch.nn.functional.gelu(actual, approximate="tanh").sum().backward()
    torch.testing.assert_close(actual.grad.cpu(), exact.grad.float(), rtol=5e-5, atol=0)


def test_zeta_of_a_large_exponent(device):
    """The sum from 1 - q on is 0 here, and one of its factors infinite."""
    x, q = torch.tensor([1e20, 1e20]), torch.tensor([-1.5, -7.25])
    actual = torch.special.zeta(x.to(device), q.to(device)).cpu()
    assert torch.equal(actual, torch.special.zeta(x, q))


def test_upper_incomplete_gamma_of_small_numbers(device):
    """1 less the lower function would be 0, and the CPU's float64 has few digits."""
    import mpmath

    a, x = torch.cartesian_prod(
        torch.tensor([1e-30, 1e-22, 1e-9, 3e-3, 0.2, 0.6, 1.1]),
        torch.tensor([1e-30, 1e-12, 0.3, 0.49, 0.9, 1.09]),
    ).unbind(1)
    with mpmath.workdps(60):
        exact = [
            float(mpmath.gammainc(*pair, regularized=True))
            for pair in zip(a.tolist(), x.tolist(), strict=True)
        ]
    actual = torch.special.gammaincc(a.to(device), x.to(device)).cpu()
    assert distance(actual, torch.tensor(exact, dtype=torch.float64)).max() < 8


def test_incomplete_gamma_of_large_numbers(device):
    a = torch.tensor([1.5e35, 2e37, 1e8, 1e6, 3e38])
    x = torch.tensor([1.9e38, 3e38, 3e38, 1e3, 2e5])
    expected = torch.tensor([1.0, 1, 1, 0, 0])
    assert torch.equal(torch.special.gammainc(a.to(device), x.to(device)).cpu(), expected)
    assert torch.equal(torch.special.gammaincc(a.to(device), x.to(device)).cpu(), 1 - expected)


def test_zeta_whose_terms_are_infinite(device):
    """The greatest term has the sign; the others would make NaN of it."""
    x = torch.tensor([231.0, 231, 711, 711, 710, 232, 729])
    q = torch.tensor([-0.46, -0.54, -5.72, -5.28, -5.28, -0.54, -86.5])
    expected = torch.tensor([-math.inf] + [math.inf] * 6)
    expected[[3, 6]] = torch.tensor([-math.inf, 0.0])
    assert torch.equal(torch.special.zeta(x.to(device), q.to(device)).cpu(), expected)

    two_cancel = torch.special.zeta(torch.tensor(201.0, device=device), torch.tensor(-0.5))
    assert two_cancel.item() == pytest.approx(4.0332666e-36, rel=1e-4)
