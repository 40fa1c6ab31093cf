"""Negative log-likelihood losses against the CPU."""

import pytest
import torch
import torch.nn.functional as F
from support import FLOATS, TOLERANCE, generator


def compare(device, shape, target_shape, dtype=torch.float32, weighted=False, **options):
    x = torch.randn(shape, dtype=torch.float32).to(dtype)
    target = torch.randint(0, shape[1] if len(shape) > 1 else shape[0], target_shape)
    if target.numel() > 3:
        target.view(-1)[1] = options.get("ignore_index", -100)
    weight = torch.rand(shape[1] if len(shape) > 1 else shape[0]).to(dtype) if weighted else None
    results = []
    # The CPU adds in float64, and rounds once.
    for options_of_tensor in ({"dtype": torch.float64}, {"device": device}):
        leaf = x.detach().clone().to(**options_of_tensor).requires_grad_()
        loss = F.nll_loss(
            leaf,
            target.to(leaf.device),
            weight=weight.to(**options_of_tensor) if weighted else None,
            **options,
        )
        loss.backward(torch.ones_like(loss) * 0.5)
        results.append((loss.detach().cpu().to(dtype), leaf.grad.cpu().to(dtype)))
    for expected, actual in zip(*results):
        tolerance = TOLERANCE[dtype]
        torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance, equal_nan=True)
        assert actual.stride() == expected.stride()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "shape, target_shape",
    [((7, 5), (7,)), ((5,), ()), ((1000, 11), (1000,)), ((2, 3, 4, 5), (2, 4, 5)), ((0, 3), (0,))],
)
def test_nll_loss(device, shape, target_shape, dtype, reduction, weighted):
    compare(device, shape, target_shape, dtype, weighted, reduction=reduction)


@pytest.mark.sample
def test_ignored_class(device):
    compare(device, (9, 4), (9,), ignore_index=2)
    compare(device, (2, 4, 3, 3), (2, 3, 3), weighted=True, ignore_index=1)


def test_every_target_ignored(device):
    target = torch.full((4,), -100, device=device)
    assert F.nll_loss(torch.randn(4, 3, device=device), target).cpu().isnan()


def test_sum_of_many_samples(device):
    x = torch.rand(100_000, 2)
    target = torch.randint(0, 2, (100_000,))
    actual = F.nll_loss(x.to(device), target.to(device), reduction="sum")
    exact = F.nll_loss(x.double(), target, reduction="sum").float()
    torch.testing.assert_close(actual.cpu(), exact, rtol=1e-6, atol=0)


@pytest.mark.parametrize("reduction", ["none", "sum"])
@pytest.mark.parametrize("wrong", [3, 7, -1])
def test_target_out_of_range(device, wrong, reduction):
    target = torch.tensor([0, wrong, 1], device=device)
    with pytest.raises(IndexError, match=f"Target {wrong} is out of bounds"):
        F.nll_loss(torch.randn(3, 3, device=device), target, reduction=reduction).cpu()


def test_infinite_losses(device):
    x, target = torch.zeros(5, 2), torch.zeros(5, dtype=torch.int64)
    x[1, 0] = -torch.inf
    actual = F.nll_loss(x.to(device), target.to(device), reduction="sum")
    assert actual.item() == F.nll_loss(x, target, reduction="sum").item() == torch.inf


def test_cross_entropy(device):
    x = torch.randn(6, 9)
    target = torch.randint(0, 9, (6,))
    for options in ({}, {"label_smoothing": 0.1}, {"reduction": "sum"}):
        actual = F.cross_entropy(x.to(device), target.to(device), **options)
        torch.testing.assert_close(actual.cpu(), F.cross_entropy(x, target, **options))


@pytest.mark.parametrize("label", [7, -3, 2**62])
def test_ctc_labels_out_of_range(device, label):
    """The CPU reads beyond the probabilities for them."""
    probabilities = torch.randn(5, 1, 3, device=device).log_softmax(2)
    lengths = torch.tensor([5]), torch.tensor([2])
    targets = torch.tensor([[1, 2, label]], device=device)
    loss = F.ctc_loss(probabilities, targets, *lengths)  # the loss of the first two
    assert loss == F.ctc_loss(probabilities, targets[:, :2], *lengths)
    with pytest.raises(RuntimeError, match=f"_ctc_loss.* target.* {label}"):
        F.ctc_loss(probabilities, targets[:, 1:], *lengths).item()


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("infinite", [float("inf"), -float("inf")])
def test_infinite_terms(device, infinite, reduction):
    x = torch.randn(500, 3)
    x[[1, 7], 0] = infinite
    target = torch.zeros(500, dtype=torch.long)
    actual = F.nll_loss(x.to(device), target.to(device), reduction=reduction)
    assert actual.item() == F.nll_loss(x, target, reduction=reduction).item() == -infinite
    weight = torch.tensor([float("inf"), 1, 1])
    weights = {"weight": weight, "reduction": reduction}
    expected = F.nll_loss(x.abs(), target, **weights)
    weights["weight"] = weight.to(device)
    actual = F.nll_loss(x.abs().to(device), target.to(device), **weights)
    torch.testing.assert_close(actual.cpu(), expected, equal_nan=True)


@pytest.mark.parametrize("zero_infinity", [False, True])
@pytest.mark.parametrize("where", [(0, 0, 0), (0, 0, 1), (3, 0, 1), (4, 0, 2), slice(None)])
def test_ctc_of_nan(device, where, zero_infinity):
    probabilities = torch.randn(5, 2, 3, generator=generator()).log_softmax(2)
    probabilities[where] = float("nan")
    lengths = torch.tensor([5, 4]), torch.tensor([2, 1])
    targets = torch.tensor([[1, 2], [1, 0]])
    results = []
    for on in ("cpu", device):
        leaf = probabilities.clone().to(on).detach().requires_grad_()
        loss = F.ctc_loss(
            leaf, targets.to(on), *lengths, reduction="none", zero_infinity=zero_infinity
        )
        loss.sum().backward()
        results.append((loss.detach().cpu(), leaf.grad.cpu()))
    assert results[0][0].isnan().any()
    torch.testing.assert_close(*results[::-1], equal_nan=True)


@pytest.mark.parametrize("bad", [7, -2])
def test_multilabel_targets_after_the_end(device, bad):
    """All targets are checked, also those after the first -1, which ends the list."""
    x = torch.zeros(1, 4, device=device)
    target = torch.tensor([[1, -1, bad, 0]], device=device)
    with pytest.raises(RuntimeError, match="target"):
        F.multilabel_margin_loss(x, target)
        torch.ocl.synchronize()
    good = torch.tensor([[1, -1, 3, 0]])
    expected = F.multilabel_margin_loss(x.cpu(), good)
    torch.testing.assert_close(F.multilabel_margin_loss(x, good.to(device)).cpu(), expected)
