"""On ocl, operators stay as they are: what Inductor would decompose runs as one eager kernel."""

import functools

import torch
from torch.utils import _pytree as pytree

aten = torch.ops.aten


def _on_ocl(values) -> bool:
    for value in pytree.tree_leaves(values):
        device = value if isinstance(value, torch.device) else getattr(value, "device", None)
        if isinstance(device, torch.device) and device.type == "ocl":
            return True
    return False


def _kept_on_ocl(decomposition):
    @functools.wraps(decomposition)
    def decompose(*args, **kwargs):
        if _on_ocl((args, kwargs)):
            return NotImplemented
        return decomposition(*args, **kwargs)

    return decompose


# Inductor replaces rand() and its like by kernels with a generator of their own, whatever the
# device. As filling of a tensor they are left alone, and give the numbers of the eager ones.


def _filled(fill):
    def decompose(*args, device=None, **kwargs):
        if device is None or torch.device(device).type != "ocl":
            return NotImplemented
        return fill(*args, device=device, **kwargs)

    return decompose


@_filled
def _rand(size, *, generator=None, **options):
    return aten.uniform(aten.empty(size, **options), generator=generator)


@_filled
def _randn(size, *, generator=None, **options):
    return aten.normal_functional(aten.empty(size, **options), generator=generator)


@_filled
def _randint(high, size, **options):
    return _randint_between(0, high, size, **options)


@_filled
def _randint_low(low, high, size, **options):
    return _randint_between(low, high, size, **options)


def _randint_between(low, high, size, *, generator=None, dtype=torch.int64, **options):
    if generator is not None:
        return NotImplemented
    return aten.randint_like.low_dtype(aten.empty(size, dtype=dtype, **options), low, high)


def keep_operators(table, random_table) -> None:
    """Changes Inductor's tables: the entries see ocl tensors first, other devices as before."""
    for decompositions in (table, random_table):
        for operator, decomposition in list(decompositions.items()):
            decompositions[operator] = _kept_on_ocl(decomposition)
    table[aten.rand.default] = table[aten.rand.generator] = _rand
    table[aten.randn.default] = table[aten.randn.generator] = _randn
    table[aten.randint.default] = table[aten.randint.generator] = _randint
    table[aten.randint.low] = table[aten.randint.low_generator] = _randint_low
