"""Operators that Inductor decomposes, but that on ocl are faster as one eager kernel."""

import torch
from torch._inductor import config
from torch._prims_common import is_contiguous_or_false
from torch.utils import _pytree as pytree

from torch_ocl import _C

from ..tracing.fake_convolution import has_known_shape
from .dropout import native_dropout
from .eager import aten, stays_eager
from .numbers import has_checks, is_refused


def _not_decomposed(*args, **kwargs):
    return NotImplemented


# Inductor replaces rand() and the like by kernels with its own generator, for all devices. Here
# they become in-place filling of a tensor, which it leaves alone, so that the numbers are the eager
# ones.


def _rand(size, *, generator=None, **options):
    return aten.uniform(aten.empty(size, **options), generator=generator)


def _randn(size, *, generator=None, **options):
    return aten.normal_functional(aten.empty(size, **options), generator=generator)


def _randint(low, high, size, *, dtype=torch.int64, **options):
    return aten.randint_like.low_dtype(aten.empty(size, dtype=dtype, **options), low, high)


# The kernels for contiguous convolutions are faster, and those with an epilogue have contiguous
# results. Generated kernels convert anyway when they load and store.


def _convolution(x, weight, *args):
    if all(map(is_contiguous_or_false, (x, weight))):
        return NotImplemented
    result = aten.convolution(x.contiguous(), weight.contiguous(), *args)
    return _in_eager_format(x, weight, result)


def _convolution_backward(*args):
    tensors, rest = args[:3], args[3:]
    if all(map(is_contiguous_or_false, tensors)):
        return NotImplemented
    grads = aten.convolution_backward(*(tensor.contiguous() for tensor in tensors), *rest)
    _, x, weight = tensors
    of_x, of_weight = (_in_eager_format(x, weight, grad) for grad in grads[:2])
    return of_x, of_weight, grads[2]


def _in_eager_format(x, weight, result):
    has_epilogues = config.max_autotune or config.max_autotune_gemm
    if result is None or has_epilogues or not has_known_shape(x, weight) or x.dim() < 4:
        return result
    return result.contiguous(memory_format=_C.convolution_format(x, weight))


def _max_unpool(operator):
    """The eager kernel's result keeps the argument's format, but PyTorch expects another."""
    contiguous = torch._decomp.decomposition_table[operator]

    def decompose(x, *args):
        result = contiguous(x, *args)
        return result.contiguous(memory_format=torch._prims_common.suggest_memory_format(x))

    return decompose


_add_to_rows = torch._decomp.decomposition_table[aten.index_add.default]


def _index_add(x, dim, index, *args, **kwargs):
    """Negative indices are outside, as they are for the eager kernel."""
    if stays_eager(aten.index_add.default, (x,)):
        return NotImplemented
    size = x.size(dim) if x.dim() else 1
    return _add_to_rows(x, dim, torch.where(index < 0, index - size, index), *args, **kwargs)


_OWN = {
    aten.index_add.default: _index_add,
    aten.convolution.default: _convolution,
    aten.convolution_backward.default: _convolution_backward,
    aten.rand.default: _rand,
    aten.rand.generator: _rand,
    aten.randn.default: _randn,
    aten.randn.generator: _randn,
    aten.randint.low: _randint,
    aten.randint.default: lambda high, size, **options: _randint(0, high, size, **options),
    aten.max_unpool2d.default: _max_unpool(aten.max_unpool2d.default),
    aten.max_unpool3d.default: _max_unpool(aten.max_unpool3d.default),
    aten.native_dropout.default: native_dropout,
}


def _on_ocl(values) -> bool:
    for value in pytree.tree_leaves(values):
        device = value.device if isinstance(value, torch.Tensor) else value
        if isinstance(device, torch.device) and device.type == "ocl":
            return True
    return False


def _unless_eager(operator, decomposition):
    def decompose(*args, **kwargs):
        if stays_eager(operator, args) or is_refused(operator, args, kwargs):
            return NotImplemented
        return decomposition(*args, **kwargs)

    return decompose


def _by_device(on_ocl, elsewhere):
    def decompose(*args, **kwargs):
        return (on_ocl if _on_ocl((args, kwargs)) else elsewhere)(*args, **kwargs)

    return decompose


def keep_operators(*tables) -> list:
    """Changes Inductor's tables, the general one first. Nothing changes for other devices.

    Returns the operators that are replaced by others on ocl.
    """
    changed = []
    for operator in _OWN:
        tables[0].setdefault(operator, _not_decomposed)
    for table in tables:
        for operator, decomposition in list(table.items()):
            own = _OWN.get(operator)
            known = isinstance(operator, torch._ops.OpOverload)
            if own or (known and (stays_eager(operator) or has_checks(operator))):
                table[operator] = _by_device(
                    own or _unless_eager(operator, decomposition), decomposition
                )
                changed.append(operator)
    return changed
