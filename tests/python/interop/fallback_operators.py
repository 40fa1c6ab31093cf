"""Operators of the tests' own, with a CPU implementation only, so that there are always some that
have no kernel: OPS.double_it(x) and others."""

import torch

LIBRARY = torch.library.Library("ocl_test", "DEF")
SEEN = {}  # the arguments of the CPU implementations


def operator(schema):
    """Defines an operator with only a CPU implementation."""

    def decorate(function):
        LIBRARY.define(schema)
        LIBRARY.impl(schema.split("(")[0], function, "CPU")
        return function

    return decorate


@operator("double_it(Tensor x) -> Tensor")
def double_it(x):
    SEEN["x"] = x
    return x * 2


@operator("double_it_(Tensor(a!) x) -> Tensor(a!)")
def double_it_(x):
    return x.mul_(2)


@operator("double_it.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)")
def double_it_out(x, *, out):
    if out.shape != x.shape:
        channels_last = x.dim() == 4
        out.resize_(x.shape, memory_format=torch.channels_last if channels_last else None)
    return out.copy_(x * 2)


@operator("add_all(Tensor[] xs, Tensor? y, Tensor?[] zs) -> Tensor")
def add_all(xs, y, zs):
    return sum([*xs, *(t for t in (y, *zs) if t is not None)])


@operator("add_all_(Tensor(a!)[] xs, Tensor y) -> ()")
def add_all_(xs, y):
    for x in xs:
        x.add_(y)


@operator("parts(Tensor x) -> (Tensor, Tensor[], int, Tensor?)")
def parts(x):
    return x.clone(), [x[:1].clone(), x[1:].clone()], x.numel(), None


@operator("expanded(Tensor x) -> Tensor")
def expanded(x):
    return x[:1].clone().expand(3, 4)


@operator("new(Tensor x, int n, *, ScalarType? dtype=None, Device? device=None) -> Tensor")
def new(x, n, *, dtype=None, device=None):
    SEEN["device"] = device
    return torch.arange(n, dtype=dtype, device=device)


@operator("swap_(Tensor(a!) x, Tensor(b!) y) -> ()")
def swap_(x, y):
    SEEN["swap"] = x.data_ptr(), y.data_ptr()
    z = x.clone()
    x.copy_(y)
    y.copy_(z)


@operator("fails(Tensor(a!) x) -> ()")
def fails(x):
    x.fill_(5)
    raise KeyError("on purpose")


OPS = torch.ops.ocl_test
