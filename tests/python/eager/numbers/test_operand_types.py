"""Operands of another type than the operator's kernels have: refused as on the CPU, never read as
if they were of the first one's type."""

import pytest
import torch
import torch.nn.functional as F
from support import assert_agrees, has_fp64, result_of

aten = torch.ops.aten


def image(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


def places(*shape):
    return torch.zeros(shape, dtype=torch.int64)


def corners(dimensions):
    """The first elements of three windows of two elements in each dimension, for two planes. Large
    GPUs look for an element's gradient in the windows that contain it only."""
    steps = torch.arange(0, 6, 2)
    indices = steps
    for _ in range(dimensions - 1):
        indices = indices[..., None] * 6 + steps
    return indices.repeat(1, 2, *[1] * dimensions)


# Functions and their arguments; each in turn has another type.
CALLS = {
    "cdist": (lambda x, y: torch.cdist(x, y, p=1.5), image(3, 4), image(5, 4)),
    "softmax_backward": (
        lambda g, y: aten._softmax_backward_data(g, y, 1, torch.float32),
        image(3, 4),
        image(3, 4).softmax(1),
    ),
    "log_softmax_backward": (
        lambda g, y: aten._log_softmax_backward_data(g, y, 1, torch.float32),
        image(3, 4),
        image(3, 4).log_softmax(1),
    ),
    "multi_margin_loss": (
        lambda x, t, w: F.multi_margin_loss(x, t, weight=w),
        image(3, 4),
        places(3),
        image(4),
    ),
    "multi_margin_loss_backward": (
        lambda g, x, t: aten.multi_margin_loss_backward(g, x, t, 1, 1),
        image(1)[0],
        image(3, 4),
        places(3),
    ),
    "multilabel_margin_loss_backward": (
        lambda g, x, t, m: aten.multilabel_margin_loss_backward(g, x, t, 1, m),
        image(1)[0],
        image(3, 4),
        places(3, 4),
        image(3, 4).ge(0).float(),
    ),
    "nll_loss_backward": (
        lambda g, x, t, w: aten.nll_loss_backward(g, x, t, None, 1, -100, w),
        image(1)[0],
        image(3, 4),
        places(3),
        torch.tensor(3.0),
    ),
    "binary_cross_entropy": (
        F.binary_cross_entropy,
        image(3).sigmoid(),
        image(3).sigmoid(),
    ),
    "binary_cross_entropy_backward": (
        lambda g, x, y: aten.binary_cross_entropy_backward(g, x, y),
        image(1)[0],
        image(3).sigmoid(),
        image(3).sigmoid(),
    ),
    "nll_loss2d": (
        lambda x, t: F.nll_loss(x, t),
        image(2, 3, 4, 5),
        places(2, 4, 5),
    ),
    "max_pool2d_backward": (
        lambda g, x, i: aten.max_pool2d_with_indices_backward(
            g, x, [2, 2], [2, 2], [0, 0], [1, 1], False, i
        ),
        image(1, 2, 3, 3),
        image(1, 2, 6, 6),
        corners(2),
    ),
    "adaptive_max_pool2d_backward": (
        aten.adaptive_max_pool2d_backward,
        image(1, 2, 3, 3),
        image(1, 2, 6, 6),
        corners(2),
    ),
    "max_pool3d_backward": (
        lambda g, x, i: aten.max_pool3d_with_indices_backward(
            g, x, [2, 2, 2], [2, 2, 2], [0, 0, 0], [1, 1, 1], False, i
        ),
        image(1, 2, 3, 3, 3),
        image(1, 2, 6, 6, 6),
        corners(3),
    ),
    "avg_pool2d_backward": (
        lambda g, x: aten.avg_pool2d_backward(g, x, [2, 2], [2, 2], [0, 0], False, True, None),
        image(1, 2, 3, 3),
        image(1, 2, 6, 6),
    ),
    "avg_pool3d_backward": (
        lambda g, x: aten.avg_pool3d_backward(
            g, x, [2, 2, 2], [2, 2, 2], [0, 0, 0], False, True, None
        ),
        image(1, 2, 3, 3, 3),
        image(1, 2, 6, 6, 6),
    ),
    "fractional_max_pool2d_backward": (
        lambda g, x, i: aten.fractional_max_pool2d_backward(g, x, [2, 2], [3, 3], i),
        image(1, 2, 3, 3),
        image(1, 2, 6, 6),
        places(1, 2, 3, 3),
    ),
    "grid_sampler_2d_backward": (
        lambda g, x, p: aten.grid_sampler_2d_backward(g, x, p, 0, 0, False, [True, True]),
        image(1, 2, 3, 3),
        image(1, 2, 6, 6),
        image(1, 3, 3, 2),
    ),
    "reflection_pad1d_backward": (
        lambda g, x: aten.reflection_pad1d_backward(g, x, [1, 1]),
        image(1, 2, 8),
        image(1, 2, 6),
    ),
    "replication_pad2d_backward": (
        lambda g, x: aten.replication_pad2d_backward(g, x, [1, 1, 1, 1]),
        image(1, 2, 8, 8),
        image(1, 2, 6, 6),
    ),
    "segment_reduce_backward": (
        lambda g, y, x, n: aten._segment_reduce_backward(g, y, x, "max", lengths=n),
        image(2),
        torch.tensor([1.0, 3]),
        torch.tensor([1.0, 2, 3]),
        torch.tensor([1, 2]),
    ),
    "batch_norm": (
        lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
        image(2, 3, 4),
        image(3),
        image(3),
    ),
    "batch_norm, running": (F.batch_norm, image(2, 3, 4), image(3), image(3).abs()),
}
PLACES = [(name, place) for name, (_, *tensors) in CALLS.items() for place in range(len(tensors))]


@pytest.mark.parametrize("name, place", PLACES)
def test_refused_as_on_the_cpu(device, name, place):
    function, *tensors = CALLS[name]
    assert_agrees(function, device, *tensors, exact=False)
    integer = tensors[place].dtype == torch.int64
    if not integer and not has_fp64(device):
        pytest.skip("the device has no float64")
    tensors[place] = tensors[place].to(torch.int32 if integer else torch.float64)
    assert_agrees(function, device, *tensors, exact=False)


def statistics(function):
    """Gradients with the statistics of the CPU, which have the type of its input."""

    def run(x):
        like = torch.randn(3, generator=torch.Generator().manual_seed(1)).to(x.dtype).to(x.device)
        return function(x, like, like.abs() + 0.5)

    return run


# The CPU keeps the statistics of 16-bit tensors in 16 bits, the device in float32.
GIVEN = {
    "batch_norm": lambda x, m, r: aten.native_batch_norm_backward(
        x, x, None, None, None, m, r, True, 1e-5, [True, True, True]
    ),
    "batch_norm, eval": lambda x, m, r: aten.native_batch_norm_backward(
        x, x, None, m, r, None, None, False, 1e-5, [True, True, True]
    ),
    "layer_norm": lambda x, m, r: aten.native_layer_norm_backward(
        x.reshape(3, -1),
        x.reshape(3, -1),
        [8],
        m[:, None],
        r[:, None],
        None,
        None,
        [True, False, False],
    ),
}


@pytest.mark.parametrize("name", GIVEN)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_statistics_of_the_type_of_the_input(device, name, dtype):
    x = image(2, 3, 4).to(dtype)
    run = statistics(GIVEN[name])
    expected, actual = run(x.double()), run(x.to(device))
    for a, b in zip(actual, expected, strict=True):
        if b is not None and a is not None:
            torch.testing.assert_close(a.double().cpu(), b, rtol=3e-2, atol=3e-2)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bool], ids=str)
def test_lstm_cell_with_a_state_of_another_type(device, dtype):
    cell = torch.nn.LSTMCell(4, 3)
    on_device = torch.nn.LSTMCell(4, 3)
    on_device.load_state_dict(cell.state_dict())
    on_device.to(device)
    x, h, c = image(2, 4), image(2, 3), image(2, 3).to(dtype)
    results = []
    for module, where in ((cell, "cpu"), (on_device, device)):
        leaf = c.clone().to(where).requires_grad_(dtype.is_floating_point)
        hy, cy = module(x.to(where), (h.to(where), leaf))
        (hy.sum() + cy.sum()).backward()
        results.append([hy, cy, leaf.grad, *(p.grad for p in module.parameters())])
    for a, b in zip(*results, strict=True):
        if a is not None:
            assert a.dtype == b.dtype
            torch.testing.assert_close(b.cpu(), a, rtol=2e-3, atol=2e-3)


MATRICES = {
    "lu_factor": torch.linalg.lu_factor,
    "cholesky": torch.linalg.cholesky,
    "qr": torch.linalg.qr,
    "svd": torch.linalg.svd,
    "eigh": torch.linalg.eigh,
    "solve_triangular": lambda a: torch.triangular_solve(a, a),
    "ldl_factor": torch.linalg.ldl_factor,
}


@pytest.mark.parametrize("dtype", [torch.bool, torch.int32], ids=str)
@pytest.mark.parametrize("name", MATRICES)
def test_factors_of_integers(device, name, dtype):
    a = torch.eye(3).to(dtype)
    assert result_of(MATRICES[name], a)[1]
    assert_agrees(MATRICES[name], device, a)


@pytest.mark.parametrize("dtype", [torch.bool, torch.int32], ids=str)
def test_norms_and_losses_of_integers(device, dtype):
    x = torch.ones(2, 4, 3, dtype=dtype)
    for function in (F.instance_norm, lambda x: F.layer_norm(x, (3,))):
        assert_agrees(function, device, x)
    assert_agrees(F.nll_loss, device, x[:, :, 0], places(2))


def test_places_of_complex_numbers(device):
    x = torch.tensor([1j, 2])
    assert_agrees(torch.bucketize, device, x, x)
    assert_agrees(torch.searchsorted, device, torch.arange(3.0), x)


MIXED = {
    "eq": lambda x, y: x == y,
    "lt": lambda x, y: x < y,
    "sub": lambda x, y: x - y,
    "add_": lambda x, y: x.clone().add_(y),
    "fmod": lambda x, y: torch.fmod(x, y),
    "floor_divide": lambda x, y: torch.floor_divide(x, y),
    "isin": lambda x, y: torch.isin(x, y),
}


@pytest.mark.parametrize("name", MIXED)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("count", [1, 37])
def test_operands_are_rounded_to_their_common_type(device, name, dtype, count):
    """2049 and 257 are no numbers of float16 and bfloat16."""
    base = 2048 if dtype == torch.float16 else 256
    x = torch.full((count,), base).to(dtype)
    for y in (torch.arange(base + 1, base + 1 + count), torch.full((2, count), base + 1).T):
        assert_agrees(MIXED[name], device, x if y.dim() == 1 else x[:, None], y)


@pytest.mark.parametrize("count", [5, 100])
def test_bools_of_other_bytes_than_0_and_1(device, count):
    mask = torch.arange(count).mul(85).to(torch.uint8)  # 0, 85, 170, 255, 84, ..
    for function in (
        lambda x: x.view(torch.bool).sum(),
        lambda x: x.view(torch.bool).float(),
        lambda x: x.view(torch.bool).cumsum(0),
        lambda x: x.view(torch.bool) ^ x.view(torch.bool).clone(),
        lambda x: x.view(torch.bool) == (x > 0),
        lambda x: x.view(torch.bool).sort()[0].int(),
        lambda x: torch.ones_like(x, dtype=torch.float32) * x.view(torch.bool),
        lambda x: torch.where(x.view(torch.bool), 1, 2),
        lambda x: torch.arange(x.numel(), device=x.device)[x.view(torch.bool)],
    ):
        assert_agrees(function, device, mask)
