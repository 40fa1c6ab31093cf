"""Sums of many numbers and normalisations of extreme ones are as exact as the CPU's."""

import math

import pytest
import reductions
import torch
import torch.nn.functional as F

COUNT = 1_000_000


@pytest.mark.parametrize("name", reductions.REDUCTIONS)
def test_many_numbers(device, name):
    """Sums in blocks lose few digits, as the CPU's do."""
    limit = 5e-4 if name == "prod" else 2e-6
    for row in reductions.measure_reductions(device, {torch.float32: COUNT}, [name]):
        assert row["ocl"] <= max(limit, 2 * row["cpu"]), row


# The condition number of a variance: mean / deviation.
CONDITIONS = {"offset 1e4": 1e4, "offset 1e6": 1e6}


# The error of zeros in place of the numbers, in units of eps: what an infinite variance gives.
ZEROS = 1e7


@pytest.mark.parametrize("kind", reductions.EXTREMES)
def test_normalisations(device, kind):
    """No more than a few times the CPU's error, and NaN and infinities where they are there.

    Where the CPU has NaN in place of numbers, the device has at most zeros, or NaN, too.
    """
    for row in reductions.measure_normalisations(device, [torch.float32], [kind]):
        condition = CONDITIONS.get(kind, 0) if row["name"] == "var" else 0
        if kind == "1e38" and row["name"] in ("layer_norm", "group_norm"):
            assert row["ocl"] == row["cpu"] == math.inf, row
            continue
        cpu = row["cpu"] if math.isfinite(row["cpu"]) else ZEROS
        assert row["ocl"] <= max(8, 3 * cpu, condition), row


@pytest.mark.parametrize("number", [3.7, 1000.1, -1e6])
def test_group_norm_of_equal_numbers(device, number):
    """The results are exact: zeros, or the bias alone."""
    x, weight, bias = torch.full((2, 4, 8, 8), number), torch.rand(4) * 9, torch.randn(4)
    alone = F.group_norm(x.to(device), 2)
    affine = F.group_norm(x.to(device), 2, weight.to(device), bias.to(device))
    assert torch.equal(alone.cpu(), torch.zeros_like(x))
    assert torch.equal(affine.cpu(), bias[:, None, None].expand_as(x))


@pytest.mark.parametrize("scale", [1e20, 0.5e38])
@pytest.mark.parametrize("order", [torch.contiguous_format, torch.channels_last])
def test_normalisations_whose_variance_is_infinite(device, scale, order):
    """NaN or zeros, as the CPU gives, though squares and sums overflow, too."""
    x = (torch.randn(8, 8, 8, 8, generator=torch.Generator().manual_seed(0)) + 2) * scale
    x = x.to(device, memory_format=order)
    assert not F.batch_norm(x, None, None, training=True).any()
    assert not F.instance_norm(x).any()
    assert F.group_norm(x, 4).isnan().all()
    assert F.layer_norm(x, x.shape[1:]).isnan().all()


@pytest.mark.parametrize("scale", [2e19, 1e20, 1e38])
def test_large_numbers_that_are_alike(device, scale):
    """Their deviations are in range, so the results are numbers. Those of the CPU are NaN."""
    x = torch.full((4, 8, 8), scale, device=device)
    assert not F.group_norm(x, 2).any()
    assert scale > 1e37 or not F.layer_norm(x, (8,)).any()
