"""softmax, log_softmax and their gradients against the CPU."""

import pytest
import torch
from support import skip_in_a_simulator

from torch_ocl import _C

SHAPES = [
    ((5, 3), -1), ((4, 17), 1), ((2, 3, 100), 2), ((3, 1000), -1), ((7, 33, 5), 1),
    ((2, 10, 40), 1), ((6, 2), 0), ((1,), 0), ((), 0), ((0, 4), 1), ((2, 0), 1), ((130, 64), 0),
    ((1500, 3), 0), ((2, 1100, 5), 1),
]  # fmt: skip
TOLERANCE = {
    torch.float32: 1e-5,
    torch.float64: 1e-12,
    torch.float16: 2e-3,
    torch.bfloat16: 2e-2,
}


def compare(device, function, shape, dim, dtype):
    x = torch.randn(shape).to(dtype)
    grad = torch.randn(shape).to(dtype)
    results = []
    for where in ("cpu", device):
        leaf = x.detach().clone().to(where).requires_grad_()
        y = function(leaf, dim)
        y.backward(grad.to(where))
        results.append((y.detach().cpu(), leaf.grad.cpu()))
    # The gradient is computed from the rounded result: where that is -8, float16 is 2^-7 apart, and
    # exp() makes of it as much relative to a term that may be a few units large.
    for (expected, actual), scale in zip(zip(*results, strict=True), (1, 8), strict=True):
        tolerance = scale * TOLERANCE[dtype]
        torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)
        assert actual.stride() == expected.stride()


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("shape, dim", SHAPES)
@pytest.mark.parametrize("function", [torch.softmax, torch.log_softmax])
def test_values_and_gradients(device, function, shape, dim, dtype):
    compare(device, function, shape, dim, dtype)


@pytest.mark.sample
def test_rows_and_columns(device):
    compare(device, torch.softmax, (3, 70), 1, torch.float32)
    compare(device, torch.log_softmax, (70, 3), 0, torch.float32)


@pytest.mark.parametrize("function", [torch.softmax, torch.log_softmax])
def test_row_lengths(device, function):
    """The more work-items of GPUs take a row the longer it is. They keep it in registers or not."""
    for size in (2, 7, 8, 9, 31, 33, 64, 255, 257, 2048, 2049, 4096, 4097):
        compare(device, function, (5, size), 1, torch.float32)
    compare(device, function, (1001, 9), 1, torch.float32)


@pytest.mark.parametrize("special", [float("inf"), float("-inf"), float("nan")])
@pytest.mark.parametrize("dim", [0, 1])
def test_special_values(device, special, dim):
    x = torch.randn(20, 20)
    x[3, 4] = special
    x[7] = float("-inf")
    x[:, 9] = -1e30
    for function in (torch.softmax, torch.log_softmax):
        actual = function(x.to(device), dim).cpu()
        torch.testing.assert_close(actual, function(x, dim), equal_nan=True)


def test_strided_input_and_output(device):
    x = torch.randn(6, 8, 10)
    out = torch.empty(10, 6, 8, device=device).permute(1, 2, 0)
    torch.softmax(x.to(device).transpose(0, 1), 2, out=out.transpose(0, 1))
    torch.testing.assert_close(out.cpu(), torch.softmax(x, 2))


def test_half_to_float(device):
    x = torch.randn(4, 50).half()
    y = torch._softmax(x.to(device), 1, True)
    assert y.dtype == torch.float32
    torch.testing.assert_close(y.cpu(), torch.softmax(x.float(), 1))
    g = torch.randn(4, 50)
    actual = torch._softmax_backward_data(g.to(device), y, 1, torch.float16)
    expected = torch._softmax_backward_data(g, y.cpu(), 1, torch.float32)
    assert actual.dtype == torch.float16
    torch.testing.assert_close(actual.cpu().float(), expected, rtol=1e-3, atol=1e-4)


@pytest.mark.sample
def test_long_rows(device):
    """More iterations of a work-item's loop than Mesa's llvmpipe executes."""
    skip_in_a_simulator(device)
    rows = torch.rand(2, 2**20, device=device)
    torch.testing.assert_close(torch.softmax(rows, 1).sum(1).cpu(), torch.ones(2))


@pytest.mark.sample
def test_long_columns(device):
    """A work-item that takes a whole column would work for seconds."""
    result = torch.rand(2**17, 3).to(device).softmax(0)
    assert _C.last_kernel() != "softmax_item"
    torch.testing.assert_close(result.sum(0).cpu(), torch.ones(3))
