"""Runs a function on the CPU and on a device, and compares results and gradients."""

import torch
from support import TOLERANCE


def run(where, function, tensors, differentiate, seed):
    moved = [t.detach().clone().to(where) for t in tensors]
    leaves = [t.requires_grad_() for t in moved if differentiate and t.is_floating_point()]
    results = function(*moved)
    results = [r for r in (results if isinstance(results, (tuple, list)) else [results])]
    if leaves:
        outputs = [r for r in results if r.is_floating_point() and r.requires_grad]
        numbers = torch.Generator().manual_seed(seed)
        gradients = [
            torch.randn(r.shape, generator=numbers, dtype=torch.float64).to(r.dtype).to(where)
            for r in outputs
        ]
        results += torch.autograd.grad(outputs, leaves, gradients, allow_unused=True)
    return results


def assert_agreement(device, function, *tensors, differentiate=True, tolerance=None, seed=1):
    """function(*tensors) and its gradients are the same on the device as on the CPU."""
    expected = run("cpu", function, tensors, differentiate, seed)
    actual = run(device, function, tensors, differentiate, seed)
    for a, b in zip(actual, expected, strict=True):
        if b is None:
            assert a is None
            continue
        assert a.device.type == "ocl" and a.shape == b.shape and a.stride() == b.stride()
        assert a.dtype == b.dtype
        near = TOLERANCE.get(b.dtype, 0) if tolerance is None else tolerance
        torch.testing.assert_close(
            a.detach().cpu(), b.detach(), rtol=near, atol=near, equal_nan=True
        )
