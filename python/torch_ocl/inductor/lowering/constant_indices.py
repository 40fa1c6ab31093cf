"""Values and indices that are known while a program is compiled, such as those of torch.arange().

Inductor computes with them as with numbers without a type. Here a value that its type may not hold
is computed by the kernel, which wraps or rounds it. So is what SymPy refuses to compute.

Inductor puts indices into the address, and leaves it to the device to check them. Here those that
are not proved to be inside are read like indices of a tensor: the kernel reports one that is
outside, and takes one that is inside instead (kernel.py).
"""

import functools

import sympy
import torch
from torch._inductor import index_propagation
from torch._inductor.index_propagation import IndexPropagation, IndexPropVar

from .eager import graph_has_ocl


def register() -> None:
    fold, propagate = IndexPropagation.indirect_indexing, IndexPropagation.propagate_sympy

    def indirect_indexing(self, index, size, check=True, wrap_neg=True):
        if (
            index_propagation.generate_assert(check)
            and graph_has_ocl()
            and isinstance(index, IndexPropVar)
            and index.is_symbolic
            and not _is_inside(self, sympy.sympify(index.value.expr), size, wrap_neg)
        ):
            arguments = (index, size, check, wrap_neg)
            return self.fallback("indirect_indexing", arguments, {}).value
        return fold(self, index, size, check, wrap_neg)

    def propagate_sympy(self, name, args, kwargs):
        try:
            result = propagate(self, name, args, kwargs)
        except ValueError:  # SymPy cannot compare nan
            if not graph_has_ocl():
                raise
            return self.fallback(name, args, kwargs)
        if graph_has_ocl() and result.is_symbolic and not _is_held(self, result.value):
            return self.fallback(name, args, kwargs)
        return result

    IndexPropagation.indirect_indexing = indirect_indexing
    IndexPropagation.propagate_sympy = propagate_sympy


def _is_inside(propagation, index, size, wrap_neg) -> bool:
    least = -size if wrap_neg else 0
    return propagation.statically_true(index < size) and propagation.statically_true(least <= index)


def _is_held(propagation, value) -> bool:
    if value.is_constant() or value.dtype == torch.int64:
        return True
    least, most = _whole_numbers(value.dtype)
    return propagation.statically_true(value.expr <= most) and propagation.statically_true(
        least <= value.expr
    )


@functools.cache
def _whole_numbers(dtype) -> tuple[int, int]:
    """The range in which the type represents all integers."""
    if dtype == torch.bool:
        return 0, -1
    if not dtype.is_floating_point:
        return torch.iinfo(dtype).min, torch.iinfo(dtype).max
    most = round(2 / torch.finfo(dtype).eps)
    return -most, most
