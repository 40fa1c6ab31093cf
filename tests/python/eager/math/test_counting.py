"""Values that occur, and how often: unique, bincount and histograms, against the CPU."""

import pytest
import torch
from agreement import assert_agreement
from support import DTYPES, INTEGERS, has_fp64, random_tensor, skip_without_buffers_of


def compare(device, function, *tensors, **options):
    assert_agreement(device, function, *tensors, differentiate=False, **options)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(40,), (5, 9), (0,), ()])
def test_unique(device, shape, dtype):
    x = random_tensor(shape, dtype, low=-3, high=3)
    compare(device, lambda x: torch.unique(x, return_inverse=True, return_counts=True), x)
    compare(device, lambda x: torch.unique(x), x)
    compare(
        device, lambda x: torch.unique_consecutive(x, return_inverse=True, return_counts=True), x
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_unique_slices(device, dim, dtype):
    x = random_tensor((4, 5, 3), dtype, low=0, high=2)
    options = {"dim": dim, "return_inverse": True, "return_counts": True}
    compare(device, lambda x: torch.unique(x.repeat(2, 1, 2), **options), x)
    compare(device, lambda x: torch.unique_consecutive(x.repeat_interleave(2, dim), **options), x)


@pytest.mark.parametrize("shape,dim", [((1, 3), 0), ((2, 0), 1)])
def test_unique_of_few_slices(device, shape, dim):
    options = {"dim": dim, "return_inverse": True, "return_counts": True}
    for function in (torch.unique, torch.unique_consecutive):
        compare(device, lambda x, f=function: f(x, **options), torch.ones(shape))


def test_unique_of_not_a_number(device):
    x = torch.tensor([float("nan"), 1, float("nan"), 0, 1])
    compare(device, lambda x: torch.unique(x, return_inverse=True, return_counts=True), x)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_bincount(device, dtype):
    x = random_tensor((50,), dtype, low=0, high=9)
    weights = torch.rand(50)
    compare(device, torch.bincount, x)
    compare(device, lambda x: torch.bincount(x, minlength=20), x)
    compare(device, torch.bincount, x, weights, tolerance=1e-5)
    if has_fp64(device):
        compare(device, torch.bincount, x, weights.double(), tolerance=1e-9)
    compare(device, torch.bincount, x[:0])


def test_bincount_refuses_negative_numbers(device):
    with pytest.raises(RuntimeError, match="non-negative"):
        torch.bincount(torch.tensor([1, -1], device=device))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_histc(device, dtype):
    x = random_tensor((100,), dtype)
    for options in ({}, {"bins": 7}, {"bins": 5, "min": -4, "max": 4.5}):
        compare(device, lambda x, o=options: torch.histc(x, **o), x)
    compare(device, lambda x: torch.histc(x, 4), torch.ones(3, dtype=dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_histc_at_edges(device, dtype):
    """The quotient jumps there: each edge, and the numbers next to it."""
    if dtype == torch.float64 and not has_fp64(device):
        pytest.skip("the device has no float64")
    for bins in (3, 7, 10, 49, 100):
        for low, high in ((-3, 3), (0, 1), (-0.1, 0.7), (1e-3, 3e7), (-1e-30, 2e-30)):
            edges = torch.linspace(low, high, bins + 1, dtype=dtype)
            infinity = torch.full_like(edges, torch.inf)
            x = torch.cat([edges, edges.nextafter(infinity), edges.nextafter(-infinity)])
            places = lambda x, b=bins, r=(low, high): torch.histc(x, b, *r)  # noqa: E731
            compare(device, places, x)
            compare(device, places, x[:, None].expand(-1, 17).contiguous())
            for at in range(0, len(x), max(1, len(x) // 7)):
                compare(device, places, x[at].repeat(5))
    assert torch.histc(torch.zeros(5, dtype=dtype, device=device), 10, -3, 3)[5].item() == 5


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64])
def test_histc_of_integers(device, dtype):
    """The formula of CUDA, in int64; the CPU has no histogram of integers."""
    info = torch.iinfo(dtype)
    low, high = max(info.min, -(2**30)) // 2, min(info.max, 2**30)
    numbers = [low, low, low + 1, (low + high) // 2, high - 1, high, high]
    for bins, first, last in ((100, low, high), (7, low + 1, high - 1)):
        counts = [0] * bins
        for number in numbers:
            if first <= number <= last:
                counts[min((number - first) * bins // (last - first), bins - 1)] += 1
        x = torch.tensor(numbers, dtype=dtype, device=device)
        assert torch.histc(x, bins, first, last).tolist() == counts
        assert torch.histc(x, 4).sum() == len(numbers)


@pytest.mark.parametrize("density", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_histogram(device, dtype, weighted, density):
    x, weight = random_tensor((60,), dtype), torch.rand(60, dtype=dtype)
    edges = torch.tensor([-6.0, -1.5, 0.25, 3, 8], dtype=dtype)
    for bins in (edges, 6):

        def histogram(x, w, bins=bins):
            here = bins.to(x.device) if torch.is_tensor(bins) else bins
            return torch.histogram(x, here, weight=w if weighted else None, density=density)

        compare(device, histogram, x, weight, tolerance=1e-5)


@pytest.mark.parametrize("density", [False, True])
def test_histogram_of_points(device, density):
    x = random_tensor((40, 2), torch.float32)

    def counts(x):
        histogram, edges = torch.histogramdd(x, [3, 4], density=density)
        return [histogram, *edges]

    compare(device, counts, x, tolerance=1e-5)
    edges = [torch.tensor([-5.0, 0, 2]), torch.tensor([-3.0, -1, 5, 9])]
    compare(device, lambda x, a, b: torch.histogramdd(x, [a, b], density=density)[0], x, *edges)


@pytest.mark.sample
def test_small(device):
    x = torch.tensor([3, 1, 3, 0])
    compare(device, lambda x: torch.unique(x, return_inverse=True, return_counts=True), x)
    compare(device, torch.bincount, x)
    compare(device, lambda x: torch.histc(x, 3), x.float())


def test_more_than_floats_count(device):
    """More than 2^24 in a bin."""
    skip_without_buffers_of(8 * (2**24 + 64), device)
    x = torch.full((1,), 0.5, device=device).expand(2**24 + 64)
    assert torch.histc(x, 2, 0, 1).tolist() == [0, 2**24 + 64]
