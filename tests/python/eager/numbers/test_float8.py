"""Floating-point types of 8 bits: conversions by kernels, with the CPU's bits."""

import pytest
import torch
from support import assert_same

KINDS = [torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz]
BYTES = torch.arange(256, dtype=torch.uint8)
TO = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.bool,
    torch.complex64,
    *KINDS,
]


def bits(tensor):
    return tensor.cpu().view(torch.uint8)


@pytest.mark.sample
@pytest.mark.parametrize("dtype", KINDS)
def test_from_float8(device, dtype):
    x = BYTES.view(dtype)
    for other in TO:
        for arrange in (lambda t: t, lambda t: t.view(16, 16).t(), lambda t: t[1::3]):
            actual, expected = arrange(x.to(device)).to(other), arrange(x).to(other)
            if other in KINDS:
                assert torch.equal(bits(actual), bits(expected)), other
            else:
                assert_same(actual, expected)


@pytest.mark.filterwarnings("ignore:Casting complex values to real")
@pytest.mark.sample
@pytest.mark.parametrize("dtype", KINDS)
def test_to_float8(device, dtype):
    every_half = torch.arange(1 << 16, dtype=torch.int32).to(torch.uint16).view(torch.float16)
    # All exponents of float32 with mantissas around ties.
    near = torch.arange(0, 1 << 32, 1 << 19, dtype=torch.int64)
    words = torch.cat([near + offset for offset in (0, 1, -1)]) & 0xFFFFFFFF
    numbers = words.to(torch.uint32).view(torch.float32)
    numbers = torch.where(numbers.isnan(), torch.full_like(numbers, torch.nan), numbers)
    integers = torch.tensor([0, 1, -1, 17, 449, -464, 465, 2**15, -(2**31)])
    sources = [every_half, numbers, numbers.double(), integers, integers > 0]
    for source in (*sources, every_half.bfloat16(), torch.complex(numbers, numbers)):
        for arrange in (lambda t: t, lambda t: t[1::3]):
            expected = arrange(source).to(dtype)
            actual = arrange(source.to(device)).to(dtype)
            assert torch.equal(bits(actual), bits(expected)), source.dtype


def test_conversions_are_no_fallback_and_other_operators_are_refused(device):
    x = BYTES.view(torch.float8_e4m3fn).to(device)
    torch.ocl.reset_fallback_stats()
    with torch.ocl.graph(graph := torch.ocl.Graph()):
        y = x.to(torch.bfloat16)
    graph.replay()
    assert_same(y, BYTES.view(torch.float8_e4m3fn).to(torch.bfloat16))
    assert not torch.ocl.fallback_stats()
    for operator in (torch.add, torch.mul):
        with pytest.raises(NotImplementedError):
            operator(x, x)
