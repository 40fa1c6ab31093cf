"""Operators of tensors without elements, which have no memory."""

import pytest
import torch
from support import assert_same

F = torch.nn.functional
LONG = torch.int64


def same(function, device, *tensors):
    expected, actual = function(*tensors), function(*(x.to(device) for x in tensors))
    assert_same(actual, expected)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("last", [False, True])
def test_bags_without_indices(device, mode, last):
    def function(index, weight, offsets):
        return F.embedding_bag(index, weight, offsets, mode=mode, include_last_offset=last)

    tensors = torch.zeros(0, dtype=LONG), torch.randn(5, 3), torch.zeros(4, dtype=LONG)
    same(function, device, *tensors)
    gradients = []
    for where in ("cpu", device):
        index, weight, offsets = (x.detach().clone().to(where) for x in tensors)
        weight.requires_grad_()
        function(index, weight, offsets).sum().backward()
        gradients.append(weight.grad)
    assert_same(gradients[1], gradients[0])


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("sizes", [((0,), (3, 2)), ((2, 0), (2, 3)), ((0, 3), (0, 2))], ids=str)
def test_search_in_nothing(device, sizes, right):
    bounds, values = (torch.ones(size) for size in sizes)
    same(lambda x, y: torch.searchsorted(x, y, right=right), device, bounds, values)
    if bounds.dim() == 1:
        same(lambda x, y: torch.bucketize(y, x, right=right), device, bounds, values)
        same(lambda x: torch.bucketize(1.5, x, right=right), device, bounds)


@pytest.mark.parametrize("shape", [(0,), (2, 0)], ids=str)
def test_ctc_loss_without_labels(device, shape):
    scores = torch.randn(6, 2, 5, generator=torch.Generator().manual_seed(0))
    results = []
    for where in ("cpu", device):
        x = scores.detach().clone().to(where).requires_grad_()
        targets = torch.zeros(shape, dtype=LONG, device=where)
        loss = F.ctc_loss(x.log_softmax(2), targets, (6, 6), (0, 0), reduction="none")
        loss.sum().backward()
        results.append([loss.detach(), x.grad])
    for expected, actual in zip(*results, strict=True):
        assert_same(actual, expected, rtol=1e-4, atol=1e-5, exact=False)


def test_ctc_loss_of_nothing(device):
    scores = torch.zeros(6, 0, 5, device=device)
    with pytest.raises(RuntimeError, match="log_probs tensor must not be empty"):
        F.ctc_loss(scores, torch.zeros(0, 0, dtype=LONG, device=device), (), ())


@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min", "prod"])
@pytest.mark.parametrize("initial", [None, 0.5])
@pytest.mark.parametrize("shape", [(0,), (0, 2)], ids=str)
def test_segments_of_nothing(device, reduce, initial, shape):
    same(
        lambda x, y: torch.segment_reduce(x, reduce, lengths=y, initial=initial),
        device,
        torch.zeros(shape),
        torch.zeros(3, dtype=LONG),
    )


@pytest.mark.parametrize("shape", [(0,), (2, 0)], ids=str)
def test_number_of_nothing(device, shape):
    with pytest.raises(RuntimeError, match="_local_scalar_dense: Empty tensor not supported"):
        torch.ops.aten._local_scalar_dense(torch.ones(shape, device=device))
    with pytest.raises(
        RuntimeError, match="a Tensor with 0 elements cannot be converted to Scalar"
    ):
        torch.ones(shape, device=device).item()


def test_selections_of_nothing(device):
    with pytest.raises(IndexError, match="non-zero size"):
        torch.kthvalue(torch.ones(2, 0, device=device), 1)
    index = torch.zeros(2, dtype=LONG, device=device)
    with pytest.raises(RuntimeError, match="axis dim should be positive"):
        torch.index_select(torch.ones(0, 3, device=device), 0, index)
    with pytest.raises(IndexError):
        torch.index_select(torch.ones(0, device=device), 0, index)
    for accumulate in (False, True):
        with pytest.raises(IndexError, match="size 0"):
            torch.ones(0, device=device).index_put_(
                [index], torch.ones(2, device=device), accumulate=accumulate
            )


@pytest.mark.parametrize("accumulate", [False, True])
def test_index_put_without_an_index(device, accumulate):
    x = torch.ones(3, device=device)
    with pytest.raises(RuntimeError):
        x.index_put_([], torch.ones(3, device=device), accumulate=accumulate)
    assert torch.equal(x.cpu(), torch.ones(3))


def test_index_add_into_nothing(device):
    """The CPU does not look at the index then."""
    for place in ("cpu", device):
        index, source = torch.tensor([0, 1], device=place), torch.ones(5, 2, device=place)
        assert torch.zeros(5, 0, device=place).index_add(1, index, source).shape == (5, 0)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_multilabel_margin_loss_of_nothing(device, reduction):
    """0: on the CPU the result is whatever the memory held."""
    x, target = torch.ones(0, 3, device=device), torch.ones(0, 3, dtype=torch.int64, device=device)
    loss = torch.nn.functional.multilabel_margin_loss(x, target, reduction=reduction)
    assert loss.item() == 0


def test_fractional_pools_of_no_windows(device):
    x, samples = torch.ones(1, 2, 1, 6), torch.full((1, 2, 2), 0.25)
    for size in ((0, 1), (0, 0)):
        same(
            lambda x, r, size=size: F.fractional_max_pool2d(
                x, 2, output_size=size, _random_samples=r
            ),
            device,
            x,
            samples,
        )
