"""Operators over lists of tensors whose arguments are out of the ordinary."""

import math

import pytest
import torch

SPECIAL = torch.tensor([-math.inf, -0.0, 4.0, 1e30, -1.0, math.nan])


@pytest.mark.parametrize("numbers", [0.5, -0.5, 0.3, 2, 1e300, [0.5], [-1.0], [1e300]], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_powers_by_numbers(device, numbers, dtype):
    x = SPECIAL.to(dtype)
    try:
        expected = torch._foreach_pow([x], numbers)[0]
    except RuntimeError:
        with pytest.raises(RuntimeError):
            torch._foreach_pow([x.to(device)], numbers)
        return
    actual = torch._foreach_pow([x.to(device)], numbers)[0].cpu()
    torch.testing.assert_close(actual, expected, equal_nan=True)
    assert torch.equal(actual.signbit() & ~actual.isnan(), expected.signbit() & ~expected.isnan())


def test_powers_of_a_large_number(device):
    exponents = torch.tensor([1.0, 2.0, 0.0])
    expected = torch._foreach_pow(1e300, [exponents])[0]
    assert torch.equal(torch._foreach_pow(1e300, [exponents.to(device)])[0].cpu(), expected)


def test_lists_that_share_memory(device):
    """PyTorch's loop over the tensors has an order."""

    def add(device):
        x, y = torch.arange(500_000.0, device=device), torch.ones(500_000, device=device)
        torch._foreach_add_([x, y], [y, x])
        torch._foreach_add_([x, x, x], 1)
        torch._foreach_copy_([x, y], [y, x])
        element = torch.tensor(2.0, device=device)
        torch._foreach_mul_([element, y], element)
        return x.cpu(), y.cpu(), element.cpu()

    torch.testing.assert_close(add(device), add("cpu"), rtol=0, atol=0)


@pytest.mark.parametrize("function", [torch._foreach_add_, torch._foreach_copy_])
def test_overlaps_are_refused(device, function):
    for where in ("cpu", device):
        x = torch.arange(10.0, device=where)
        with pytest.raises(RuntimeError, match="unsupported operation"):
            function([x[1:]], [x[:-1]])
