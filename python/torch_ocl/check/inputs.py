"""Inputs and comparisons for the cases of `python -m torch_ocl.check`.

A case is a function of Inputs. It runs on the CPU and on the device, and both results must agree.
A case without results makes its own assertions on each.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch


class Skip(Exception):
    """The device cannot run a case; the text has the reason."""


@dataclass
class Family:
    """Cases by name, the folders of kernels/ that they run, and settings that may help."""

    folders: tuple[str, ...]
    cases: dict[str, Callable]
    settings: list[str] = field(default_factory=list)


class Inputs:
    """Makes the same tensors on every device."""

    def __init__(self, device):
        self.device = device
        self.on_cpu = torch.device(device).type == "cpu"
        self.numbers = torch.Generator().manual_seed(0)

    def x(self, *shape, dtype=torch.float32):
        """Normally distributed numbers."""
        return torch.randn(shape, generator=self.numbers).to(dtype).to(self.device)

    def i(self, shape, most):
        """Integers from 0 to `most` - 1."""
        return torch.randint(most, shape, generator=self.numbers).to(self.device)

    def weight(self, *shape):
        """A leaf with numbers of moderate size that needs a gradient."""
        return (self.x(*shape) / max(shape[-1], 1) ** 0.5).requires_grad_()

    def double(self, *shape):
        """Normally distributed float64 numbers; skips the case if the device lacks float64."""
        if not self.on_cpu and not torch.ocl.get_device_properties(self.device).has_fp64:
            raise Skip("the device has no float64")
        return self.x(*shape, dtype=torch.float64)


def gradients(result, *inputs):
    """The result and the gradients of the inputs, for gradients of the result from -1 to 1."""
    count = result.numel()
    of_result = torch.linspace(-1, 1, count).reshape(result.shape).to(result)
    return [result, *torch.autograd.grad(result, inputs, of_result)]


def differentiated(function, x, *arguments):
    """The result of function(x, *arguments), and the gradient of x."""
    leaf = x.detach().requires_grad_()
    return gradients(function(leaf, *arguments), leaf)


def halves(function):
    return lambda t: [function(t.x(33, 17, dtype=d)) for d in (torch.half, torch.bfloat16)]


# Every family has cases with these names: awkward() makes them from a function, or the family
# defines them.
AWKWARD = ("empty", "one element", "odd sizes", "not contiguous", "many rows")


def awkward(function):
    """Cases of function(t, x) for matrices x that kernels may get wrong."""
    return {
        "empty": lambda t: function(t, t.x(0, 7)),
        "one element": lambda t: function(t, t.x(1, 1)),
        "odd sizes": lambda t: function(t, t.x(33, 13)),
        "not contiguous": lambda t: function(t, t.x(21, 46).t()[1::2, ::3]),
        "many rows": lambda t: function(t, t.x(5003, 3)),
    }


# Tolerances relative to an element, and to the largest element if that is below 1; a hundredth if
# all of a result may be sums that cancel. Other types have torch.testing's.
TOLERANCE = {torch.float32: 2e-4, torch.float16: 4e-3, torch.bfloat16: 3e-2}


def compare(function, device):
    """Raises an error that says what differs between the CPU and the device, or Skip."""

    def results(where):
        found = function(Inputs(where))
        found = [found] if isinstance(found, torch.Tensor) else (found or [])
        for number, x in enumerate(found):
            there = x.device.type
            assert there == torch.device(where).type, f"result {number} is on {there}"
        return [x.detach().cpu() for x in found]

    expected, actual = results("cpu"), results(device)
    for number, (a, e) in enumerate(zip(actual, expected, strict=True)):
        tolerance = TOLERANCE.get(a.dtype)
        largest = e[e.isfinite()].abs().max().item() if tolerance and e.isfinite().any() else 1
        absolute = tolerance and tolerance * min(max(largest, 0.01), 1)
        torch.testing.assert_close(
            a, e, rtol=tolerance, atol=absolute, equal_nan=True, msg=f"result {number}: {{}}".format
        )
