"""Activations and losses that have no row in a table, and rows whose shapes are their own."""

import pytest
import torch
from support import assert_same, generator
from torch.nn import functional

TYPES = [torch.float32, torch.bfloat16]
TOLERANCE = {
    torch.float32: {"rtol": 1e-4, "atol": 1e-6},
    torch.bfloat16: {"rtol": 2e-2, "atol": 1e-2},
}

FUNCTIONS = {
    "gelu": functional.gelu,
    "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "glu": functional.glu,
    "glu_dim0": lambda x: functional.glu(x, 0),
    "logsigmoid": functional.logsigmoid,
    "celu": lambda x: functional.celu(x, 0.7),
    "selu": functional.selu,
    "elu": functional.elu,
    "relu6": functional.relu6,
    "hardtanh": functional.hardtanh,
    "hardswish": functional.hardswish,
    "hardsigmoid": functional.hardsigmoid,
    "hardshrink": functional.hardshrink,
    "softshrink": functional.softshrink,
    "softplus": functional.softplus,
    "mish": functional.mish,
    "silu": functional.silu,
    "logit": lambda x: torch.logit(x, 0.125),
}
LOSSES = {
    "smooth_l1": functional.smooth_l1_loss,
    "huber": functional.huber_loss,
    "mse": functional.mse_loss,
    "binary_cross_entropy": functional.binary_cross_entropy,
    "binary_cross_entropy_with_logits": functional.binary_cross_entropy_with_logits,
}


def leaf(shape, dtype, device="cpu", seed=0, scale=6):
    numbers = (torch.rand(shape, generator=generator(seed)) - 0.5) * scale
    return numbers.to(dtype).to(device).requires_grad_()


def check(actual, expected):
    assert_same(actual.detach(), expected.detach(), exact=False, **TOLERANCE[expected.dtype])


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_function_and_gradient(device, name, dtype):
    x, y = leaf((6, 44), dtype), leaf((6, 44), dtype, device)
    expected, actual = FUNCTIONS[name](x), FUNCTIONS[name](y)
    check(actual, expected)
    (expected * expected).sum().backward()
    (actual * actual).sum().backward()
    check(y.grad, x.grad)


@pytest.mark.parametrize("shape", [(2, 1, 5), (2, 3, 5), (7,)])
def test_prelu(device, shape):
    channels = shape[1] if len(shape) > 1 else 1
    x, y = leaf(shape, torch.float32), leaf(shape, torch.float32, device)
    v, w = leaf((channels,), torch.float32, seed=1), leaf((channels,), torch.float32, device, 1)
    expected, actual = functional.prelu(x, v), functional.prelu(y, w)
    check(actual, expected)
    expected.square().sum().backward()
    actual.square().sum().backward()
    check(y.grad, x.grad)
    check(w.grad, v.grad)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("name", LOSSES)
def test_loss(device, name, reduction):
    x, y = leaf((5, 9), torch.float32, scale=0.99), leaf((5, 9), torch.float32, device, scale=0.99)
    target = torch.rand((5, 9), generator=generator(1))
    expected = LOSSES[name](x + 0.5, target, reduction=reduction)
    actual = LOSSES[name](y + 0.5, target.to(device), reduction=reduction)
    check(actual, expected)
    expected.square().sum().backward()
    actual.square().sum().backward()
    check(y.grad, x.grad)


def test_weighted_binary_cross_entropy(device):
    x, target, weight = (torch.rand((4, 7), generator=generator(i)) for i in range(3))
    y = x.to(device).requires_grad_()
    x.requires_grad_()
    expected = functional.binary_cross_entropy(x, target, weight)
    actual = functional.binary_cross_entropy(y, target.to(device), weight.to(device))
    check(actual, expected)
    expected.backward()
    actual.backward()
    check(y.grad, x.grad)


@pytest.mark.sample
def test_two_outputs(device):
    x = torch.tensor([0.0, 1.0, -3.7, 1e-3, 1e20, 8.0])
    mantissa, exponent = torch.frexp(x.to(device))
    expected = torch.frexp(x)
    assert_same(mantissa, expected.mantissa)
    assert_same(exponent, expected.exponent)


@pytest.mark.sample
def test_others(device):
    x = torch.tensor([0.0, -0.0, 1.25, -3.757, 120.5, float("inf"), -float("inf"), float("nan")])
    y = x.to(device)
    for decimals in (0, 1, 2, -1):
        assert_same(torch.round(y, decimals=decimals), torch.round(x, decimals=decimals))
    assert_same(torch.nan_to_num(y), torch.nan_to_num(x))
    assert_same(torch.nan_to_num(y, 1, 2, 3), torch.nan_to_num(x, 1, 2, 3))
    for dtype in (torch.float32, torch.bfloat16):
        b = x[2:].to(dtype)  # not from zero: its neighbours are denormals
        a = b[:, None]
        assert_same(torch.nextafter(a.to(device), b.to(device)), torch.nextafter(a, b))
    v, w = torch.arange(3.0), torch.arange(4.0)
    m = torch.ones(3, 4)
    expected = torch.addr(m, v, w, beta=0.5, alpha=2)
    assert_same(torch.addr(m.to(device), v.to(device), w.to(device), beta=0.5, alpha=2), expected)


def test_flags_as_numbers(device):
    """Comparisons that are stored into floats are 1, whatever a vector's mask is."""
    x = torch.arange(20.0)
    out = torch.empty(20).to(device)
    torch.lt(x.to(device), 7, out=out)
    assert_same(out, (x < 7).float())
    assert_same(x.to(device).logical_not_(), x.clone().logical_not_())
