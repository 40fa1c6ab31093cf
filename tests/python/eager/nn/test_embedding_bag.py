"""Bags of an embedding's rows and their gradients."""

import re

import pytest
import torch
import torch.nn.functional as F
from support import has_fp64

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
    with pytest.raises(RuntimeError, match="but found idx to be 7"):
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
        with pytest.raises(RuntimeError, match="Expected idx >= 0 && idx < num_embeddings"):
            bag(index)
    for offsets in ([1, 2], [0, 5]):
        with pytest.raises(RuntimeError, match="embedding_bag: offset"):
            bag([1, 1], offsets)


def integers(*shape, dtype=torch.int64, value=0):
    return torch.full(shape, value, dtype=dtype)


# weight, indices, offsets, and other arguments
WRONG = {
    "indices of five dimensions": ((2, 6), integers(2, 0, 0, 6, 6), integers(2), {}),
    "offsets of two": ((2, 6), integers(2), integers(2, 2), {}),
    "rows of three": ((2, 2, 2), integers(2), integers(2), {}),
    "indices of float32": ((2, 6), torch.zeros(2), integers(2), {}),
    "a mode that there is not": ((2, 6), integers(2), integers(2), {"mode": 7}),
    "no last offset": ((2, 6), integers(2), integers(0), {"include_last_offset": True}),
    "weights of another type": (
        (2, 6),
        integers(2),
        integers(1),
        {"per_sample_weights": torch.ones(2, dtype=torch.float64)},
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments(device, name):
    shape, indices, offsets, others = WRONG[name]
    if name == "weights of another type" and not has_fp64(device):
        pytest.skip("the other type is float64, which the device refuses first")
    messages = []
    for where in ("cpu", device):
        move = {k: v.to(where) if isinstance(v, torch.Tensor) else v for k, v in others.items()}
        with pytest.raises(RuntimeError) as error:
            torch.embedding_bag(
                torch.ones(shape, device=where), indices.to(where), offsets.to(where), **move
            )
        messages.append(re.sub(r"ocl(\w+)Type", r"torch.\1Tensor", str(error.value)))
    assert messages[0] == messages[1]


@pytest.mark.parametrize(
    "types",
    [(torch.int32, torch.int64), (torch.int8, torch.int64), (torch.int64, torch.int32)],
    ids=str,
)
@pytest.mark.parametrize("mode", [0, 1, 2])
def test_indices_and_offsets_of_different_types(device, mode, types):
    weight, weights = torch.randn(5, 3), torch.randn(4) if mode == 0 else None
    index = torch.tensor([1, 4, 0, 2], dtype=types[0])
    offsets = torch.tensor([0, 3], dtype=types[1])
    results = []
    for where in ("cpu", device):
        rows, factors = (
            x if x is None else x.clone().to(where).requires_grad_() for x in (weight, weights)
        )
        out, *others = torch.embedding_bag(
            rows, index.to(where), offsets.to(where), mode=mode, per_sample_weights=factors
        )
        out.sum().backward()
        used = others[1 : 1 + mode]  # the CPU leaves the rest as it was
        grads = [rows.grad] if factors is None else [rows.grad, factors.grad]
        results.append([x.detach().cpu() for x in (out, *used, *grads)])
    for actual, expected in zip(results[1], results[0]):
        torch.testing.assert_close(actual, expected)
