"""Reductions against the CPU, over each dimension, several, and all."""

import pytest
import torch
from support import name_of, random_tensor

NAMES = [
    "sum",
    "mean",
    "prod",
    "all",
    "any",
    "amax",
    "amin",
    "argmax",
    "argmin",
    "max",
    "min",
    "nansum",
    "norm",
]
SHAPES = [(5,), (33, 65), (7, 30), (4, 5, 6), (2000, 64), ()]
DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool]


@pytest.mark.parametrize("dtype", DTYPES, ids=name_of)
@pytest.mark.parametrize("name", NAMES)
def test_reduction(device, name, dtype):
    compared = 0
    for shape in SHAPES:
        x = random_tensor(shape, dtype, low=-2, high=2)
        for tensor in (x, x.mT.contiguous().mT if x.dim() > 1 else x):
            for arguments in [(), *((d, k) for d in range(x.dim()) for k in (False, True))]:
                if name == "norm" and arguments:
                    arguments = (2, *arguments)
                try:
                    expected = getattr(tensor, name)(*arguments)
                except (RuntimeError, NotImplementedError):
                    continue  # the CPU refuses this type
                actual = getattr(tensor.to(device), name)(*arguments)
                if isinstance(expected, torch.Tensor):
                    expected, actual = (expected,), (actual,)
                for e, a in zip(expected, actual):
                    assert (a.dtype, a.shape) == (e.dtype, e.shape)
                    # The CPU rounds partial products to bfloat16, eight bits, on the way.
                    loose = 5e-2 if dtype == torch.bfloat16 else 1e-4
                    torch.testing.assert_close(a.cpu(), e, rtol=loose, atol=loose)
                    compared += 1
    assert compared or dtype in (torch.int64, torch.bool)


@pytest.mark.sample
@pytest.mark.parametrize("name", ["sum", "amax", "any", "argmax", "max", "norm"])
def test_sample(device, name):
    test_reduction(device, name, torch.float32)


def test_equal(operator_device):
    """torch.equal: one answer; NaN differs from itself unless it is the same tensor."""
    x = torch.randn(300, 7)
    on_device = x.to(operator_device)
    assert torch.equal(on_device, x.to(operator_device))
    assert torch.equal(on_device.t(), x.to(operator_device).t())
    assert not torch.equal(on_device, on_device[:299])
    x[299, 6] = float("nan")
    assert not torch.equal(on_device, x.to(operator_device))
    assert not torch.equal(x.to(operator_device), x.to(operator_device))
    assert torch.equal(
        torch.empty(0, device=operator_device), torch.empty(0, device=operator_device)
    )
    assert torch.equal(on_device[:1, :1] * 0, torch.zeros(1, 1, device=operator_device).long())
