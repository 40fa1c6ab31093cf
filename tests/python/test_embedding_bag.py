"""Bags of an embedding's rows and their gradients."""

import pytest
import torch
import torch.nn.functional as F

INDICES = [1, 2, 4, 5, 4, 3, 2, 9]
OFFSETS = [0, 4, 4, 6]  # the second bag is empty


def outputs(
    device,
    mode,
    index_type=torch.int64,
    dtype=torch.float32,
    weighted=False,
    offsets=OFFSETS,
    **options,
):
    generator = torch.Generator().manual_seed(1)
    rows = torch.randn(10, 5, generator=generator).to(dtype).to(device).requires_grad_()
    weights = torch.rand(len(INDICES), generator=generator).to(dtype).to(device).requires_grad_()
    bags = F.embedding_bag(
        torch.tensor(INDICES, dtype=index_type, device=device),
        rows,
        torch.tensor(offsets, dtype=index_type, device=device),
        mode=mode,
        per_sample_weights=weights if weighted else None,
        **options,
    )
    bags.sin().sum().backward()
    return [t.detach().cpu() for t in (bags, rows.grad, *([weights.grad] if weighted else []))]


@pytest.mark.sample
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("padding", [None, 2])
def test_modes(operator_device, mode, padding):
    mine = outputs(operator_device, mode, padding_idx=padding)
    torch.testing.assert_close(mine, outputs("cpu", mode, padding_idx=padding))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("index_type", [torch.int64, torch.int32])
def test_weights_and_types(device, dtype, index_type):
    mine = outputs(device, "sum", index_type, dtype, weighted=True, padding_idx=4)
    expected = outputs("cpu", "sum", index_type, dtype, weighted=True, padding_idx=4)
    torch.testing.assert_close(mine, expected, rtol=2e-3, atol=2e-3)


def test_last_offset(device):
    options = {"include_last_offset": True, "offsets": [*OFFSETS, len(INDICES)]}
    for mode in ("sum", "mean", "max"):
        mine, expected = (outputs(place, mode, **options) for place in (device, "cpu"))
        torch.testing.assert_close(mine, expected)


def test_scale_by_frequency(device):
    """The CPU (2.13) divides by the wrong counts, so the expectation is made here."""
    plain = outputs("cpu", "sum")[1]
    counts = torch.bincount(torch.tensor(INDICES), minlength=10).clamp_min(1)
    scaled = outputs(device, "sum", scale_grad_by_freq=True)[1]
    torch.testing.assert_close(scaled, plain / counts[:, None])


def test_index_out_of_range(device):
    rows = torch.randn(4, 2, device=device)
    with pytest.raises(RuntimeError, match="index 7 is out of bounds for rows 4"):
        F.embedding_bag(torch.tensor([[0, 7]], device=device), rows)
        torch.ocl.synchronize()


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_errors_of_bags(device, mode):
    weight = torch.randn(5, 3, device=device)

    def bag(index, *offsets):
        index = torch.tensor(index, device=device)
        offsets = torch.tensor(offsets[0], device=device) if offsets else None
        torch.nn.functional.embedding_bag(index, weight, offsets, mode=mode)
        torch.ocl.synchronize()

    for index in ([[1, 7]], [[1, -1]]):
        with pytest.raises(RuntimeError, match="embedding_bag: index"):
            bag(index)
    for offsets in ([1, 2], [0, 5]):
        with pytest.raises(RuntimeError, match="embedding_bag: offset"):
            bag([1, 1], offsets)
