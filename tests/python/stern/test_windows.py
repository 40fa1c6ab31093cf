"""Windows of images: unfold, fold and their gradients."""

import pytest
import torch
import torch.nn.functional as F
from support import on_cpu_and_device

CASES = [
    {"kernel_size": 3, "padding": 1},
    {"kernel_size": (2, 3), "stride": 2, "dilation": 2},
    {"kernel_size": (3, 2), "stride": (1, 3), "padding": (2, 0)},
]


@pytest.mark.sample
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.complex64], ids=str)
def test_unfold_and_fold(operator_device, case, dtype):
    x = torch.randn(2, 3, 9, 8).to(dtype)
    columns, mine = on_cpu_and_device(lambda x: F.unfold(x, **case), operator_device, x)
    assert torch.equal(mine, columns)
    folded, mine = on_cpu_and_device(lambda x: F.fold(x, (9, 8), **case), operator_device, columns)
    # Sums of float16 are rounded once here, and at every addition on the CPU.
    tolerance = {"rtol": 4e-3, "atol": 4e-3} if dtype == torch.float16 else {}
    torch.testing.assert_close(mine, folded, **tolerance)


def test_unfold_without_batch_and_wrong_sizes(device):
    x = torch.randn(3, 5, 5)
    assert torch.equal(F.unfold(x.to(device), 2).cpu(), F.unfold(x, 2))
    with pytest.raises(RuntimeError, match="blocks"):
        F.fold(torch.randn(1, 8, 7, device=device), (4, 4), 2)
    with pytest.raises(RuntimeError, match="at least one"):
        F.unfold(x.to(device), 7)


@pytest.mark.sample
@pytest.mark.parametrize("dim, size, step", [(0, 3, 1), (1, 4, 2), (1, 2, 3)])
def test_gradient_of_tensor_unfold(operator_device, dim, size, step):
    def gradient(x):
        leaf = x.clone().requires_grad_()
        leaf.unfold(dim, size, step).sin().sum().backward()
        return leaf.grad

    expected, mine = on_cpu_and_device(gradient, operator_device, torch.randn(4, 9, 2))
    torch.testing.assert_close(mine, expected)


@pytest.mark.parametrize("name", ["dilation", "padding", "stride"])
def test_numbers_beyond_the_types(device, name):
    """Sums and products of these overflow on the CPU, which then finds windows."""
    x = torch.randn(1, 1, 8, 8, device=device)
    for number in (2**31, 2**62, 2**63 - 1):
        with pytest.raises(RuntimeError, match=f"{name} is too large"):
            F.unfold(x, 2, **{name: number})
        with pytest.raises(RuntimeError, match=f"{name} is too large"):
            F.fold(F.unfold(x, 2), 8, 2, **{name: number})
