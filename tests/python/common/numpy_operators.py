"""numpy_sin of PyTorch's tutorial on custom operators in Python, in both of its forms.

usage: python numpy_operators.py functional|mutating DEVICE
The forms share a name, so that a process has one of them. Prints "ok".
"""

import sys

import numpy as np
import torch
from torch import Tensor

EXCEPT_AUTOGRAD = ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic")


def functional():
    """Returns its result, has its own kernel for ocl, and a gradient."""

    @torch.library.custom_op("mylib::numpy_sin", mutates_args=(), device_types="cpu")
    def numpy_sin(x: Tensor) -> Tensor:
        return torch.from_numpy(np.sin(x.numpy(force=True)))

    @numpy_sin.register_kernel("ocl")
    def _(x):
        calls.append(x.device.type)
        return torch.sin(x)

    @numpy_sin.register_fake
    def _(x):
        return torch.empty_like(x)

    def remember(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])

    def backward(ctx, gradient):
        return gradient * ctx.saved_tensors[0].cos()

    numpy_sin.register_autograd(backward, setup_context=remember)
    calls = []
    return numpy_sin, calls


def mutating():
    """Writes to its second argument."""

    @torch.library.custom_op("mylib::numpy_sin", mutates_args={"output"}, device_types="cpu")
    def numpy_sin(input: Tensor, output: Tensor) -> None:
        assert input.device == output.device
        np.sin(input.numpy(), out=output.numpy())

    @numpy_sin.register_kernel("ocl")
    def _(input, output):
        calls.append(input.device.type)
        output.copy_(torch.sin(input))

    calls = []
    return numpy_sin, calls


def check_functional(device):
    numpy_sin, calls = functional()
    x = torch.randn(5, device=device, requires_grad=True)
    torch.testing.assert_close(numpy_sin(x).cpu(), x.cpu().sin())
    assert calls == ["ocl"]
    for backend in ("eager", "aot_eager", "inductor"):
        x.grad = None
        y = torch.compile(lambda x: numpy_sin(x * 2), backend=backend, fullgraph=True)(x)
        y.sum().backward()
        torch.testing.assert_close(y, (x * 2).sin())
        torch.testing.assert_close(x.grad, 2 * (x * 2).cos())
    for place in ("cpu", device):
        tests = {} if place == "cpu" else {"test_utils": EXCEPT_AUTOGRAD}
        for shape in [(3,), (0, 3), (1, 2, 3, 4)]:
            x = torch.randn(shape, device=place, requires_grad=True)
            torch.library.opcheck(numpy_sin, (x,), **tests)
        if place == "cpu" or torch.ocl.get_device_properties(device).has_fp64:
            x = torch.randn(3, 4, dtype=torch.double, device=place, requires_grad=True)
            assert torch.autograd.gradcheck(numpy_sin, x)


def check_mutating(device):
    numpy_sin, calls = mutating()

    def function(x):
        out = torch.empty(3, device=x.device)
        numpy_sin(x, out)
        return out + 1

    def into(x, out):
        numpy_sin(x, out)

    x = torch.randn(3, device=device)
    for backend in ("eager", "aot_eager", "inductor"):
        compiled = torch.compile(function, backend=backend, fullgraph=True)
        torch.testing.assert_close(compiled(x), x.sin() + 1)
        out = torch.empty(3, device=device)
        torch.compile(into, backend=backend, fullgraph=True)(x, out)
        torch.testing.assert_close(out, x.sin())
    assert set(calls) == {"ocl"}
    has_fp64 = torch.ocl.get_device_properties(device).has_fp64
    for place in ("cpu", device):
        tests = {} if place == "cpu" else {"test_utils": EXCEPT_AUTOGRAD}
        wide = torch.double if place == "cpu" or has_fp64 else torch.float
        for shape, dtype in [((3,), torch.float), ((0, 3), torch.float), ((1, 2, 3, 4), wide)]:
            x = torch.randn(shape, dtype=dtype, device=place)
            torch.library.opcheck(numpy_sin, (x, torch.empty_like(x)), **tests)


if __name__ == "__main__":
    {"functional": check_functional, "mutating": check_mutating}[sys.argv[1]](sys.argv[2])
    print("ok")
