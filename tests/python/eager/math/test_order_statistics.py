"""mode, kthvalue and median where NaN and equal numbers are among the elements."""

import math

import pytest
import torch

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
ROWS = [
    [math.nan, 1, 1, math.nan],
    [1, math.nan, math.nan, 2],
    [math.nan] * 3,
    [math.nan],
    [1, 2, math.nan],
    [math.nan, 2, 2, 1],
    [2, 1, math.nan, 1, math.nan, math.nan],
]


def rows_of(dtype):
    for row in ROWS:
        yield torch.tensor(row, dtype=torch.float64).to(dtype)
    for shape in ((7, 33), (3, 5, 17), (2, 700)):
        x = torch.randint(0, 5, shape).double()
        x[torch.rand(shape) < 0.2] = math.nan
        yield x.to(dtype)


def same(a, b):
    torch.testing.assert_close(a.cpu(), b, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_median(device, dtype):
    """For rows that are all NaN, nanmedian may give any position."""
    for x in rows_of(dtype):
        for dim in (0, -1):
            expected, actual = torch.median(x, dim), torch.median(x.to(device), dim)
            same(actual.values, expected.values)
            same(actual.indices, expected.indices)
            expected, actual = torch.nanmedian(x, dim), torch.nanmedian(x.to(device), dim)
            same(actual.values, expected.values)
            numbers = ~expected.values.isnan()
            same(actual.indices.cpu()[numbers], expected.indices[numbers])
        same(torch.median(x.to(device)), torch.median(x))
        same(torch.nanmedian(x.to(device)), torch.nanmedian(x))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_kthvalue(device, dtype):
    """The CPU's choice among equal elements comes from its way of sorting."""
    for x in rows_of(dtype):
        for k in {1, 2, x.size(-1)} & set(range(1, x.size(-1) + 1)):
            expected = torch.kthvalue(x, k, keepdim=True)
            actual = torch.kthvalue(x.to(device), k, keepdim=True)
            same(actual.values, expected.values)
            same(x.gather(-1, actual.indices.cpu()), expected.values)


WHOLE = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]


@pytest.mark.parametrize("dtype", [*FLOATS, *WHOLE], ids=str)
@pytest.mark.parametrize("size", [4096, 30001, 100000])
def test_long_rows(device, dtype, size):
    """The position is that of a stable sort."""
    generator = torch.Generator().manual_seed(size)
    bits = torch.randint(-(2**63), 2**63 - 1, (3, size), generator=generator)
    x = bits.view(torch.uint8).flatten().view(dtype)[: 3 * size].view(3, size).clone()
    x[1] = x[1, 0]
    x[1, ::2] = x[1, 1:2] * 0
    sorted_x, places = torch.sort(x, dim=1, stable=True)
    if dtype.is_floating_point:
        assert x.isnan().any()
    for k in (1, size // 3, size):
        for actual in (
            torch.kthvalue(x.to(device), k, dim=1),
            torch.kthvalue(x.T.contiguous().to(device), k, dim=0),
        ):
            same(actual.values, sorted_x[:, k - 1])
            same(actual.indices, places[:, k - 1])
    for function in (torch.median, torch.nanmedian):
        same(function(x.to(device), 1).values, function(x, 1).values)
        same(function(x.to(device)), function(x))


def test_many_rows(device):
    """They are sorted in parts."""
    x = torch.randint(0, 3, (5, 300000, 7), generator=torch.Generator().manual_seed(0))
    for dim in (0, 2):
        y, on_device = x.float().movedim(dim, -1), x.float().to(device).movedim(dim, -1)
        expected, places = torch.sort(y, stable=True)
        actual = torch.kthvalue(on_device, 3)
        same(actual.values, expected[..., 2])
        same(actual.indices, places[..., 2])
        for actual, part in zip(
            torch.topk(on_device, 4, largest=False), (expected, places), strict=True
        ):
            same(actual, part[..., :4])
        same(torch.mode(on_device).values, torch.mode(y).values)
        same(torch.median(on_device, -1).values, torch.median(y, -1).values)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_mode(device, dtype):
    """The CPU sorts by an order that NaN breaks; a NaN is no other's equal and so is rare."""
    for x in rows_of(dtype):
        rows = x.reshape(-1, x.size(-1))
        values, indices = torch.mode(rows.to(device), -1)
        same(rows.gather(-1, indices.cpu()[:, None])[:, 0], values.cpu())
        for row, value in zip(rows, values.cpu(), strict=True):
            numbers = row[~row.isnan()]
            if len(numbers) == 0:
                assert value.isnan()
            else:
                same(value, torch.mode(numbers).values)


def test_mode_of_long_rows(device):
    """Work-items share a long row; among equally frequent numbers the smallest is the mode."""
    x = torch.arange(30000).remainder(10000)  # each number three times
    often = x.clone()
    often[777] = 5
    for rows in torch.stack([x, often]), torch.stack([x.flip(0), x // 7]).float():
        values, indices = torch.mode(rows.to(device), -1)
        same(values, torch.mode(rows, -1).values)
        same(rows.gather(-1, indices.cpu()[:, None])[:, 0], values.cpu())
