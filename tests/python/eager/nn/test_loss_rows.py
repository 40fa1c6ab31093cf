"""Losses of rows: margins, and connectionist temporal classification; against the CPU."""

import pytest
import torch
import torch.nn.functional as F
from agreement import assert_agreement
from support import FLOATS

REDUCTIONS = ["none", "mean", "sum"]


def scores(*shape, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(7)).to(dtype)


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("shape", [(4, 5), (5,)])
def test_multi_margin(device, shape, reduction, weighted, p):
    target = torch.tensor([0, 3, 4, 1])[: shape[0]] if len(shape) == 2 else torch.tensor(2)
    weight = torch.tensor([0.5, 1, 2, 1, 0.25]) if weighted else None

    def loss(x):
        here = None if weight is None else weight.to(x.device)
        return F.multi_margin_loss(
            x, target.to(x.device), p, 0.75, weight=here, reduction=reduction
        )

    assert_agreement(device, loss, scores(*shape))


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("shape", [(2, 5), (5,)])
def test_multilabel_margin(device, shape, reduction):
    target = torch.tensor([[3, 0, -1, 2, 1], [4, 4, 1, -1, 0]])
    target = target if len(shape) == 2 else target[0]
    assert_agreement(
        device,
        lambda x: F.multilabel_margin_loss(x, target.to(x.device), reduction=reduction),
        scores(*shape),
    )


@pytest.mark.parametrize("dtype", FLOATS)
def test_margins_of_types(device, dtype):
    x, target = scores(3, 6, dtype=dtype), torch.tensor([5, 0, 2])
    actual = F.multi_margin_loss(x.to(device), target.to(device))
    expected = F.multi_margin_loss(x.double(), target)
    torch.testing.assert_close(actual.cpu().double(), expected, rtol=1e-2, atol=1e-2)
    labels = torch.tensor([[1, -1, 0, 0, 0, 0]] * 3)
    actual = F.multilabel_margin_loss(x.to(device), labels.to(device))
    expected = F.multilabel_margin_loss(x.double(), labels)
    torch.testing.assert_close(actual.cpu().double(), expected, rtol=1e-2, atol=1e-2)


def test_margins_of_empty_batches(device):
    x, target = torch.ones(0, 4), torch.ones(0, dtype=torch.long)
    assert_agreement(
        device,
        lambda x: F.multi_margin_loss(x, target.to(x.device), reduction="none"),
        x,
        differentiate=False,
    )


def test_a_target_out_of_range(device):
    with pytest.raises(RuntimeError, match="target"):
        F.multi_margin_loss(
            torch.ones(1, 3, device=device), torch.tensor([3], device=device)
        ).item()


def test_a_negative_target_of_several(device):
    """-1 ends the list; other negative numbers are no targets."""
    x = torch.ones(1, 3, device=device)
    with pytest.raises(RuntimeError, match="target"):
        F.multilabel_margin_loss(x, torch.tensor([[-7, 0, 0]], device=device)).item()


def test_results_of_another_type(device):
    x, target = torch.ones(2, 3, device=device), torch.zeros(2, dtype=torch.long, device=device)
    out = torch.empty((), dtype=torch.float16, device=device)
    with pytest.raises(RuntimeError, match=r"Half|Float"):
        torch.ops.aten.multi_margin_loss.out(x, target, out=out)
    with pytest.raises(RuntimeError, match=r"Half|Float"):
        torch.ops.aten.multilabel_margin_loss.out(x, target[:, None].expand(2, 3), out=out)


def ctc(x, targets, inputs, lengths, **options):
    return F.ctc_loss(x.log_softmax(-1), targets.to(x.device), inputs, lengths, **options)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_ctc(device, dtype, joined, reduction):
    inputs, lengths = [9, 5, 9], [4, 2, 0]
    targets = torch.tensor([[1, 1, 2, 3], [3, 2, 1, 1], [1, 1, 1, 1]])
    if joined:
        targets = torch.cat([row[:n] for row, n in zip(targets, lengths)])
    assert_agreement(
        device,
        lambda x: ctc(x, targets, inputs, lengths, reduction=reduction),
        scores(9, 3, 5, dtype=dtype),
        tolerance=3e-5 if dtype == torch.float32 else 1e-10,
    )


@pytest.mark.parametrize("zero_infinity", [False, True])
def test_ctc_that_is_impossible(device, zero_infinity):
    targets = torch.tensor([[1, 1, 2], [1, 2, 3]])
    assert_agreement(
        device,
        lambda x: ctc(x, targets, [3, 4], [3, 3], zero_infinity=zero_infinity, reduction="none"),
        scores(4, 2, 4),
        tolerance=3e-5,
        differentiate=zero_infinity,
    )


@pytest.mark.parametrize("where", ["cpu", None])
def test_ctc_lengths_in_tensors(device, where):
    x, targets = scores(6, 2, 4), torch.tensor([[1, 2], [3, 3]])
    expected = ctc(x, targets, [6, 5], [2, 2])
    lengths = [torch.tensor(n).to(where or device) for n in ([6, 5], [2, 2])]
    torch.testing.assert_close(ctc(x.to(device), targets, *lengths).cpu(), expected)


@pytest.mark.sample
def test_small(device):
    assert_agreement(
        device, lambda x: ctc(x, torch.tensor([[1, 2], [2, 2]]), [4, 3], [2, 1]), scores(4, 2, 3)
    )
    target = torch.tensor([1, 0])
    assert_agreement(device, lambda x: F.multi_margin_loss(x, target.to(x.device), 2), scores(2, 3))
    labels = torch.tensor([[2, 0, -1], [1, -1, 0]])
    assert_agreement(
        device, lambda x: F.multilabel_margin_loss(x, labels.to(x.device)), scores(2, 3)
    )
