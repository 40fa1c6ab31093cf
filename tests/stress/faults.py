"""Errors that a thread of threads.py causes, and that nobody but this thread may see.

Each fault gets a device and a number that no other fault has, and raises AssertionError where the
exception is not the one that it caused.
"""

import torch


def caught(kind, mark, function):
    """Asserts that the function raises an exception of just this class whose text has the mark."""
    try:
        function()
    except Exception as error:
        assert type(error) is kind, f"{type(error).__name__} for {mark}: {error}"
        assert mark in str(error), f"another error than that of {mark}: {error}"
        return
    raise AssertionError(f"no {kind.__name__} was raised for {mark}")


def index_out_of_range(device, number):
    stream = torch.ocl.current_stream(device)
    x, bad = torch.zeros(3, device=device), torch.full((1,), 1000 + number, device=device)
    x[bad]
    caught(IndexError, f"index {1000 + number} ", stream.synchronize)
    stream.synchronize()  # raised once


def source_that_does_not_compile(device, number):
    source = f"__kernel void broken(__global float* x) {{ x[0] = missing_{number}_; }}"
    compile_it = torch.ocl.compile_kernel
    caught(RuntimeError, f"missing_{number}_", lambda: compile_it(source, device=device))


def argument_of_another_type(device, number):
    source = "__kernel void take(__global float* x, int n) { x[0] = n; }"
    library = torch.ocl.compile_kernel(source, device=device)
    x = torch.ones(3, device=device)
    wrong = f"argument 1 (int n) must be an integer, not {number + 0.5:g}"
    caught(TypeError, wrong, lambda: library.take(x, number + 0.5))
    wrong = f"argument 1 (int n): {(1 << 40) + number} does not fit int"
    caught(ValueError, wrong, lambda: library.take(x, (1 << 40) + number))


def memory_beyond_the_device(device, number):
    tebibytes = 4096 + number
    size = tebibytes << 38  # float32
    mark = f"cannot allocate {tebibytes}.00 TiB on {device}"
    caught(torch.OutOfMemoryError, mark, lambda: torch.empty(size, device=device))


class Identity(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, number):
        ctx.number = number
        return x * 1


class Raises(Identity):
    """Its gradient raises ValueError."""

    @staticmethod
    def backward(ctx, gradient):
        raise ValueError(f"gradient {ctx.number}.")


class LooksUp(Identity):
    """Its gradient has an index out of range."""

    @staticmethod
    def backward(ctx, gradient):
        return gradient[torch.full_like(gradient, 1000 + ctx.number).long()], None


def index_in_a_gradient(device, number):
    """Found by a kernel that PyTorch's thread of backward passes launches."""
    x = torch.ones(1, device=device, requires_grad=True)
    LooksUp.apply(x, number).backward()
    caught(IndexError, f"index {1000 + number} ", x.grad.cpu)


def backward_that_raises(device, number):
    loss = Raises.apply(torch.ones(8, device=device, requires_grad=True), number).sum()
    caught(ValueError, f"gradient {number}.", loss.backward)


FAULTS = (
    index_out_of_range,
    index_in_a_gradient,
    source_that_does_not_compile,
    argument_of_another_type,
    memory_beyond_the_device,
    backward_that_raises,
)
