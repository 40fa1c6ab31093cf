"""Calls that raise on the CPU raise the same class of error."""

import pytest
import torch
import torch.nn.functional as F
from support import assert_agrees, result_of


def ones(*shape, dtype=torch.float32):
    return torch.ones(*shape, dtype=dtype)


REFUSED = {
    "cross of mixed types": (torch.linalg.cross, ones(3), ones(3, dtype=torch.float16)),
    "cross of an integer": (torch.linalg.cross, ones(3, dtype=torch.int64), ones(3)),
    "cross of bool": (torch.linalg.cross, ones(3, dtype=torch.bool), ones(3, dtype=torch.bool)),
    "group_norm, numel": (
        lambda x: torch.native_group_norm(x, None, None, 2, 4, 4, 2, 1e-5),
        ones(2, 4, 3),
    ),
    "group_norm, bias": (
        lambda x, w, b: F.group_norm(x, 2, w, b),
        ones(2, 4, 3),
        ones(4),
        ones(4, dtype=torch.bfloat16),
    ),
    "group_norm, weight": (
        lambda x, w: F.group_norm(x, 2, w),
        ones(2, 4, 3),
        ones(4, dtype=torch.bfloat16),
    ),
    "conv_transpose1d": (
        lambda x, w: F.conv_transpose1d(x, w, padding=1),
        ones(1, 1, 2),
        ones(1, 1, 1),
    ),
    "conv_transpose2d": (
        lambda x, w: F.conv_transpose2d(x, w, padding=1),
        ones(1, 1, 1, 3),
        ones(1, 1, 1, 1),
    ),
    "layer_norm_backward of an integer": (
        lambda g, x, s: torch.ops.aten.native_layer_norm_backward(
            g, x, [3], s, s, None, None, [True] * 3
        ),
        ones(2, 3),
        ones(2, 3, dtype=torch.int32),
        ones(2, 1),
    ),
    "narrow_copy, dim": (lambda x: torch.narrow_copy(x, 1, 0, 1), ones(3)),
    "narrow_copy, dim below": (lambda x: torch.narrow_copy(x, -2, 0, 1), ones(3)),
    "narrow_copy, number": (lambda x: torch.narrow_copy(x, 0, 0, 1), ones(())),
    "narrow_copy, length": (lambda x: torch.narrow_copy(x, 0, 2, 2), ones(3)),
    "narrow_copy, start": (lambda x: torch.narrow_copy(x, 0, -4, 1), ones(3)),
    "no classes": (F.cross_entropy, ones(2, 0), torch.zeros(2, dtype=torch.int64)),
    "no classes for a row": (F.cross_entropy, ones(0), torch.zeros((), dtype=torch.int64)),
    "no classes, nll": (F.nll_loss, ones(2, 0), torch.zeros(2, dtype=torch.int64)),
    "put_ into itself": (
        lambda x, i: x.put_(i, x[:2]),
        ones(6),
        torch.tensor([0, 1]),
    ),
    "put_ of expanded": (
        lambda x, i: x.expand(3).put_(i, x),
        ones(1),
        torch.tensor([0]),
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(device, name):
    function, *tensors = REFUSED[name]
    assert result_of(function, *tensors)[1]
    assert_agrees(function, device, *tensors)


def test_operands_on_the_device_overlap(device):
    """put_ and expand keep their views on the way to the device."""
    x = torch.ones(6, device=device)
    with pytest.raises(RuntimeError, match="single memory location"):
        x.put_(torch.tensor([0, 1], device=device), x[:2])
    with pytest.raises(RuntimeError, match="more than one element"):
        x[:1].expand(3).put_(torch.tensor([0], device=device), torch.ones(1, device=device))
    with pytest.raises(RuntimeError, match="single memory location"):
        torch.bernoulli(x[:-1], out=x[1:])


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.float32], ids=str)
def test_indices_of_other_types(device, dtype, accumulate):
    def function(x, i):
        return x.index_put((i,), x[0], accumulate=accumulate)

    assert_agrees(function, device, ones(3), torch.tensor([1], dtype=dtype))
    assert_agrees(function, device, ones(3), torch.tensor([1], dtype=torch.int32))
    assert_agrees(lambda x, i: x[i], device, ones(3), torch.tensor([1], dtype=dtype))


PRODUCTS = {
    "mm": lambda x: x @ x,
    "bmm": lambda x: torch.bmm(x[None], x[None]),
    "addmm": lambda x: torch.addmm(x, x, x),
    "baddbmm": lambda x: torch.baddbmm(x[None], x[None], x[None]),
    "addbmm": lambda x: torch.addbmm(x, x[None], x[None]),
    "mv": lambda x: torch.mv(x, x[0]),
    "addmv": lambda x: torch.addmv(x[0], x, x[0]),
    "dot": lambda x: torch.dot(x[0], x[0]),
    "linear": lambda x: F.linear(x, x, x[0]),
    "einsum": lambda x: torch.einsum("ij,jk->ik", x, x),
    "conv1d": lambda x: F.conv1d(x[None], x[None]),
    "conv2d": lambda x: F.conv2d(x[None, None], x[None, None]),
    "conv3d": lambda x: F.conv3d(x[None, None, None], x[None, None, None]),
    "depthwise": lambda x: F.conv2d(x[:, None].expand(2, 2, 2)[None], x[:, None, None], groups=2),
    "conv_transpose2d": lambda x: F.conv_transpose2d(x[None, None], x[None, None]),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_of_bool(device, name):
    x = ones(2, 2, dtype=torch.bool)
    assert isinstance(result_of(PRODUCTS[name], x)[1], NotImplementedError)
    assert_agrees(PRODUCTS[name], device, x)


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("name", ["mm", "bmm", "matmul"])
def test_products_with_a_factor_of_bool(device, name, place):
    factors = [ones(2, 2, dtype=torch.bool if i == place else torch.float16) for i in range(2)]
    if name == "bmm":
        factors = [x[None] for x in factors]
    assert_agrees(getattr(torch, name), device, *factors)


@pytest.mark.fallback_allowed
def test_convolutions_of_complex_numbers(device):
    x = torch.randn(1, 2, 5, 5, dtype=torch.complex64)
    assert_agrees(lambda x: F.conv2d(x, x[:, :, :2, :2]), device, x, exact=False)


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("other", [torch.complex64, torch.float16, torch.int64], ids=str)
def test_convolutions_of_mixed_types(device, other, place):
    x, w = (ones(1, 1, 3, 3, dtype=other if i == place else torch.float32) for i in range(2))
    assert_agrees(F.conv2d, device, x, w)


ACTIVATIONS = {
    "leaky_relu": F.leaky_relu,
    "rrelu": F.rrelu,
    "hardshrink": F.hardshrink,
    "softshrink": F.softshrink,
    "hardsigmoid": F.hardsigmoid,
    "hardswish": F.hardswish,
    "elu": F.elu,
    "selu": F.selu,
    "silu": F.silu,
    "gelu": F.gelu,
    "mish": F.mish,
    "glu": F.glu,
    "softplus": F.softplus,
    "logsigmoid": F.logsigmoid,
    "prelu": lambda x: F.prelu(x, x[:1]),
    "mse_loss": lambda x: F.mse_loss(x, x.flip(0)),
    "smooth_l1_loss": lambda x: F.smooth_l1_loss(x, x.flip(0)),
    "huber_loss": lambda x: F.huber_loss(x, x.flip(0)),
    "leaky_relu_backward": lambda x: torch.ops.aten.leaky_relu_backward(x, x, 0.1, False),
    "hardtanh": F.hardtanh,
    "relu6": F.relu6,
    "threshold": lambda x: F.threshold(x, 1, 2),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.bool], ids=str)
def test_activations_of_integers(device, dtype, name):
    assert_agrees(ACTIVATIONS[name], device, torch.tensor([1, 0, 3, 4]).to(dtype))


@pytest.mark.parametrize("name", ["index_reduce", "scatter_reduce"])
def test_means_of_bool(device, name):
    def function(x, i):
        return getattr(x, name)(0, i, x, "mean")

    assert_agrees(function, device, torch.tensor([True, False, True]), torch.tensor([0, 0, 1]))


@pytest.mark.parametrize("value", [True, False])
def test_mask_without_dimensions(device, value):
    mask, one = torch.tensor(value), torch.tensor(2.0)
    for x in (torch.zeros(3), torch.zeros(2, 2)):
        assert_agrees(lambda x, m, v: x.index_put_((m,), v), device, x, mask, one)
        assert_agrees(lambda x, m, v: x.index_put_((m,), v[None]), device, x, mask, one)
        assert_agrees(lambda x, m: x[m], device, x, mask)
    assert_agrees(lambda x, m, v: x.index_put_((m,), v), device, torch.tensor(0.0), mask, one)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (2, 0, 3), (2, 3), ()], ids=str)
def test_strides_of_positions(device, shape):
    for x in (torch.zeros(shape), torch.ones(shape)):
        assert_agrees(torch.nonzero, device, x)
        assert_agrees(torch.argwhere, device, x)
        assert_agrees(lambda x: torch.nonzero(x, as_tuple=True), device, x)


@pytest.mark.parametrize("shape", [(2, 4, 0), (0, 4, 3)], ids=str)
def test_group_norm_of_nothing(device, shape):
    def function(x, weight):
        x, weight = x.requires_grad_(), weight.requires_grad_()
        y = F.group_norm(x, 2, weight, weight * 2)
        y.sum().backward()
        return y.detach(), x.grad, weight.grad

    assert_agrees(function, device, torch.ones(shape), torch.ones(4))

    def statistics(x):
        return torch.native_group_norm(x, None, None, *shape, 2, 1e-5)

    assert_agrees(statistics, device, torch.ones(shape))


@pytest.mark.parametrize("sizes", [(0, 0), (3, 0)], ids=str)
def test_masked_index_put_of_nothing(device, sizes):
    size, count = sizes

    def function(x):
        mask = torch.ones(count, dtype=torch.bool, device=x.device)
        index = torch.zeros(count, dtype=torch.int64, device=x.device)
        values = torch.zeros(count, device=x.device)
        return torch.ops.aten._unsafe_masked_index_put_accumulate(x, mask, [index], values)

    assert_agrees(function, device, torch.zeros(size))
