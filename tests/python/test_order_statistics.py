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
    """Of rows that are all NaN, nanmedian may give the place of any."""
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
