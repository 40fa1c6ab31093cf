"""Comparisons whose result is reduced."""

import pytest
import torch
from support import assert_same


@pytest.mark.sample
def test_equal(device):
    x = torch.arange(12.0).reshape(3, 4).to(device)
    assert torch.equal(x, x.clone())
    assert torch.equal(x.t(), x.t().contiguous())
    assert not torch.equal(x, x + (x == 5))
    assert not torch.equal(x, x[:2])
    assert torch.equal(x[:0], x[:0])
    assert torch.equal(x * 1j, x * 1j)
    assert not torch.equal(x * torch.nan, x * torch.nan)


def test_equal_of_other_types_and_devices(device):
    x = torch.arange(3).to(device)
    assert torch.equal(x, x.float()) == torch.equal(x.cpu(), x.cpu().float())
    with pytest.raises(RuntimeError, match="device"):
        torch.equal(x, x.cpu())


@pytest.mark.parametrize("invert", [False, True])
def test_isin(device, invert):
    x = torch.arange(200).reshape(10, 20)
    tests = torch.tensor([[3, 150], [7, 1000]])
    expected = torch.isin(x, tests, invert=invert)
    assert_same(torch.isin(x.to(device), tests.to(device), invert=invert), expected)
    assert_same(torch.isin(x.to(device), 5, invert=invert), torch.isin(x, 5, invert=invert))
    empty = tests[:0]
    expected = torch.isin(x, empty, invert=invert)
    assert_same(torch.isin(x.to(device), empty.to(device), invert=invert), expected)


@pytest.mark.sample
@pytest.mark.parametrize("count", [16, 33])
def test_bytes_of_bool(device, count):
    """0 and 1, from vectors and from what they leave over."""
    x = torch.arange(float(count), device=device) > 3
    expected = [0] * 4 + [1] * (count - 4)
    assert x.view(torch.uint8).tolist() == expected
    assert x.logical_not().view(torch.uint8).tolist() == [1 - b for b in expected]
