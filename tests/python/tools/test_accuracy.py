"""Distance of float32 results from the correctly rounded ones, in units of the last place."""

import pytest
import torch

COUNT = 1 << 16
GREATEST_DISTANCE = 2
# The errors that OpenCL allows. Intel's runtime (2026.2) is off by 4 on CPUs without AVX-512.
GREATEST_DISTANCE_OF_TANH = 5
# Function: (least, greatest) magnitude of the arguments, and whether they have both signs.
RANGES = {
    torch.exp: (1e-10, 87.0, True),
    torch.log: (1e-37, 3e38, False),
    torch.tanh: (1e-30, 20.0, True),
    torch.erf: (1e-30, 5.0, True),
    torch.sin: (1e-30, 3e38, True),
    torch.cos: (1e-30, 3e38, True),
    torch.log1p: (1e-30, 1e38, False),
    torch.expm1: (1e-30, 88.0, True),
    torch.sqrt: (1e-37, 3e38, False),
}


def spread_over(low, high, signs):
    """Numbers of all magnitudes: bit patterns between the bit patterns of the limits."""
    first, last = torch.tensor([low, high]).view(torch.int32).tolist()
    x = torch.randint(first, last, (COUNT,), dtype=torch.int32).view(torch.float32)
    return torch.where(torch.rand(COUNT) < 0.5, -x, x) if signs else x


def distance(actual, exact):
    """The greatest number of steps between the results and the rounded exact ones."""
    expected = exact.float()
    assert torch.equal(actual.isfinite(), expected.isfinite())
    assert torch.equal(actual.sign(), expected.sign())
    ordered = [x.abs().view(torch.int32).long() for x in (actual, expected)]
    return (ordered[0] - ordered[1]).abs().max().item()


@pytest.mark.sample
@pytest.mark.parametrize("function", RANGES, ids=lambda f: f.__name__)
def test_distance(device, function):
    x = spread_over(*RANGES[function])
    actual = function(x.to(device)).cpu()
    greatest = GREATEST_DISTANCE_OF_TANH if function is torch.tanh else GREATEST_DISTANCE
    assert distance(actual, function(x.double())) <= greatest


@pytest.mark.sample
@pytest.mark.parametrize("function", [torch.sin, torch.cos, torch.erf], ids=lambda f: f.__name__)
def test_distance_of_neighbours(device, function):
    """Arguments in vectors of similar numbers, which kernels may treat in another way."""
    x = torch.cat([spread_over(1e-6, 1e4, True), torch.tensor([0.0, -0.0])]).sort().values
    actual = function(x.to(device)).cpu()
    assert distance(actual, function(x.double())) <= GREATEST_DISTANCE
    zeros = torch.full((32,), -0.0)
    assert torch.equal(function(zeros.to(device)).cpu().signbit(), function(zeros).signbit())


@pytest.mark.sample
def test_pow(device):
    x, y = spread_over(1e-3, 1e3, False), torch.rand(COUNT) * 20 - 10
    actual = (x.to(device) ** y.to(device)).cpu()
    exact = x.double() ** y.double()
    normal = exact.abs() > 1.2e-38
    assert distance(actual[normal], exact[normal]) <= GREATEST_DISTANCE
