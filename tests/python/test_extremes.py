"""Sums of many numbers and normalisations of extreme ones are as exact as the CPU's."""

import pytest
import reductions
import torch

COUNT = 1_000_000


@pytest.mark.parametrize("name", reductions.REDUCTIONS)
def test_many_numbers(device, name):
    """Sums in blocks lose few digits, as the CPU's do."""
    limit = 5e-4 if name == "prod" else 2e-6
    for row in reductions.measure_reductions(device, {torch.float32: COUNT}, [name]):
        assert row["ocl"] <= max(limit, 2 * row["cpu"]), row


# Not "1e38": variances leave float32's range, and batch_norm gives NaN where the CPU gives zeros.
# A group of equal numbers gives group_norm's rounding errors, where the CPU gives zeros.
KINDS = [kind for kind in reductions.EXTREMES if kind not in ("1e38", "all equal", "offset 1e6")]


@pytest.mark.parametrize("kind", KINDS)
def test_normalisations(device, kind):
    """No more than a few times the CPU's error, and NaN and infinities where they are there."""
    for row in reductions.measure_normalisations(device, [torch.float32], [kind]):
        assert row["ocl"] <= max(8, 3 * row["cpu"]), row
