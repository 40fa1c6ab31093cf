"""Pooling of volumes, pooling at random places and unpooling, against the CPU."""

import math

import pytest
import torch
import torch.nn.functional as F
from agreement import assert_agreement
from support import FLOATS

SHAPES = [(2, 3, 7, 6, 8), (3, 5, 6, 7)]
TOLERANCE = {torch.float16: 1e-2, torch.bfloat16: 8e-2}


def volume(shape=SHAPES[0], dtype=torch.float32):
    # No two numbers are equal in any type.
    numbers = torch.randperm(
        int(torch.tensor(shape).prod()), generator=torch.Generator().manual_seed(3)
    )
    return ((numbers % 251 - 125) / 64).view(shape).to(dtype)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "options",
    [
        {"kernel_size": 2},
        {"kernel_size": 3, "stride": 2, "padding": 1},
        {"kernel_size": (2, 3, 1), "stride": 1, "dilation": 2, "padding": (0, 1, 0)},
        {"kernel_size": 3, "stride": 2, "ceil_mode": True},
    ],
    ids=str,
)
def test_max_pool3d(device, shape, dtype, options):
    assert_agreement(
        device,
        lambda x: F.max_pool3d(x, return_indices=True, **options),
        volume(shape, dtype),
        tolerance=TOLERANCE.get(dtype),
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "options",
    [
        {"kernel_size": 2},
        {"kernel_size": 3, "stride": 2, "padding": 1},
        {"kernel_size": 3, "stride": 2, "padding": 1, "count_include_pad": False},
        {"kernel_size": (2, 3, 2), "stride": 2, "ceil_mode": True},
        {"kernel_size": 2, "divisor_override": 3},
    ],
    ids=str,
)
def test_avg_pool3d(device, shape, dtype, options):
    assert_agreement(
        device,
        lambda x: F.avg_pool3d(x, **options),
        volume(shape, dtype),
        tolerance=TOLERANCE.get(dtype),
    )


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("size", [(2, 3, 4), (7, 5, 9)])
def test_adaptive(device, shape, dtype, size):
    x, tolerance = volume(shape, dtype), TOLERANCE.get(dtype)
    assert_agreement(device, lambda x: F.adaptive_avg_pool3d(x, size), x, tolerance=tolerance)
    assert_agreement(
        device,
        lambda x: F.adaptive_max_pool3d(x, size, return_indices=True),
        x,
        tolerance=tolerance,
    )


@pytest.mark.parametrize("dims", [2, 3])
@pytest.mark.parametrize("dtype", FLOATS)
def test_fractional(device, dims, dtype):
    pool = {2: F.fractional_max_pool2d, 3: F.fractional_max_pool3d}[dims]
    x = volume(SHAPES[0][: dims + 2], dtype)
    numbers = torch.Generator().manual_seed(5)
    samples = torch.rand(2, 3, dims, generator=numbers).to(dtype)
    assert_agreement(
        device,
        lambda x: pool(
            x,
            2,
            output_size=(3, 4, 5)[:dims],
            return_indices=True,
            _random_samples=samples.to(x.device),
        ),
        x,
        tolerance=TOLERANCE.get(dtype),
    )


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("dims", [2, 3])
def test_unpool(device, dims, dtype):
    pool = {2: F.max_pool2d, 3: F.max_pool3d}[dims]
    unpool = {2: F.max_unpool2d, 3: F.max_unpool3d}[dims]
    pooled, indices = pool(volume(SHAPES[0][: dims + 2], dtype), 2, return_indices=True)
    assert_agreement(device, lambda y: unpool(y, indices.to(y.device), 2), pooled)


@pytest.mark.sample
def test_small(device):
    x = volume((1, 2, 4, 4, 5))
    assert_agreement(device, lambda x: F.max_pool3d(x, 3, 2, 1, return_indices=True), x)
    assert_agreement(device, lambda x: F.avg_pool3d(x, 3, 2, 1), x)
    assert_agreement(device, lambda x: F.adaptive_avg_pool3d(x, 3), x)
    assert_agreement(device, lambda x: F.adaptive_max_pool3d(x, 3), x)


def test_not_a_number_is_the_maximum(device):
    x = volume()
    x[0, 1, 1, 1, 1] = float("nan")
    assert_agreement(
        device, lambda x: F.max_pool3d(x, 2, return_indices=True), x, differentiate=False
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int64])
def test_types_of_averages(device, dtype):
    x = (volume() * 8).to(dtype)
    expected = F.avg_pool3d(x.double(), 2)
    expected = expected.trunc() if dtype == torch.int64 else expected
    actual = F.avg_pool3d(x.to(device), 2)
    assert actual.dtype == dtype
    torch.testing.assert_close(actual.cpu().double(), expected, rtol=1e-2, atol=1e-1)


def test_channels_last(device):
    x = volume().contiguous(memory_format=torch.channels_last_3d)
    assert_agreement(device, lambda x: F.max_pool3d(x, 2, return_indices=True), x)
    assert_agreement(device, lambda x: F.avg_pool3d(x, 2), x)


def test_errors(device):
    x = volume().to(device)
    with pytest.raises(RuntimeError, match="at most half of effective kernel size"):
        F.max_pool3d(x, 2, padding=2)
    with pytest.raises(RuntimeError, match="too small"):
        F.max_pool3d(x, 9)
    indices = torch.full((1, 1, 1, 1), 99, device=device)
    with pytest.raises(RuntimeError):
        F.max_unpool2d(torch.ones(1, 1, 1, 1, device=device), indices, 2)
        torch.ocl.synchronize()


def test_channels_last_without_batch(device):
    x = torch.randn(2, 4, 6, 6, 6).to(memory_format=torch.channels_last_3d)[0]
    there = torch.empty_strided(x.shape, x.stride(), device=device).copy_(x)
    expected = F.max_pool3d(x, 2, return_indices=True)
    actual = F.max_pool3d(there, 2, return_indices=True)
    for e, a in zip(expected, actual, strict=True):
        assert a.stride() == e.stride()
        assert torch.equal(a.cpu(), e)


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("name", ["adaptive_avg_pool", "adaptive_max_pool"])
def test_integers_in_adaptive_windows(device, name, dims):
    x = torch.ones((2, 3) + (4,) * dims, dtype=torch.int64, device=device)
    with pytest.raises(NotImplementedError):
        getattr(F, f"{name}{dims}d")(x, 2)


def test_fractional_windows_out_of_range(device):
    """Sizes whose sum with the output's overflows, and samples that are not from 0 to 1, read
    nothing outside of the image."""
    x, samples = torch.randn(1, 2, 6, 6, device=device), torch.rand(1, 2, 2, device=device)
    pool = torch.nn.functional.fractional_max_pool2d
    for size in (2**63 - 1, -(2**31) - 1, 0, 2**31, 7):
        with pytest.raises(RuntimeError):
            pool(x, (size, 2), output_size=(3, 3), _random_samples=samples)
    samples = torch.tensor([[[math.nan, 1e30], [-3.0, -math.inf]]], device=device)
    pooled = pool(x, 2, output_size=(3, 3), _random_samples=samples)
    assert torch.isin(pooled, x).all()


@pytest.mark.parametrize("name", ["stride", "padding", "dilation", "kernel_size"])
@pytest.mark.parametrize("value", [-(2**31) - 1, 2**32 + 1, 2**63 - 1])
def test_numbers_beyond_int(device, name, value):
    options = {"kernel_size": 2, "stride": 1, name: value}
    for where in ("cpu", device):
        with pytest.raises(RuntimeError):
            F.max_pool3d(torch.ones(1, 1, 3, 3, 3, device=where), **options)
