"""Operators that call eager kernels, because generated kernels would compute other numbers, or
would accept arguments that the eager kernels refuse."""

import dataclasses
import functools

import sympy
import torch
from torch._dispatch.python import no_python_dispatcher
from torch._inductor import ir, lowering
from torch.utils._python_dispatch import _disable_current_modes

from .eager import aten

_BOUNDS = {aten.clamp_min.default, aten.clamp_max.default}
_PRODUCTS = {aten.prod.default, aten.prod.dim_int}
_DIVISIONS = {aten.div.Tensor_mode, aten.div.Scalar_mode}
# Operators that check numbers and types in C++ (decompositions and lowerings do not), and accept
# tensors of any size. Element-wise operators do so, too.
_NAMES = """
    addbmm addmm addmv addr baddbmm smooth_l1_loss smooth_l1_loss_backward huber_loss
    huber_loss_backward constant_pad_nd fill fill_ full full_like new_full scalar_tensor
    elu_backward hardtanh_backward leaky_relu_backward softplus_backward isclose isin rsub subtract
    index_fill masked_fill scatter where dist linalg_vector_norm norm renorm
"""
_CHECKED = set(_NAMES.split())
# Their types are checked, because Inductor decomposes products of vectors even for types without
# products.
_MATRIX_PRODUCTS = {"mm", "bmm", "mv", "dot", "vdot"}
_MOST_DIMENSIONS = 8


def eager_only(operator, args, kwargs) -> str | None:
    """The reason why the eager kernel is called, or None."""
    if operator in _DIVISIONS and kwargs.get("rounding_mode") == "floor":
        # Some releases round the quotient: 1.0 // 0.1 would be 10. Others have an operation for it
        # (overrides.py), which works for one type.
        reals = {_real_type(arg) for arg in args} - {None}
        if reals - {torch.float32} or (reals and not hasattr(lowering, "_div_rn")):
            return "a floor division of real numbers"
    if operator is aten.ldexp.Tensor and _real_type(args[1]):
        return "a power of two that has the type of the exponent"
    if operator in _PRODUCTS and _real_type(args[0]):
        return "a product of real numbers, which is computed in double precision"
    if operator in _BOUNDS and str(args[1]) == "-0.0":  # compilers return 0.0
        return "a bound of -0.0"
    return "arguments that it refuses" if is_refused(operator, args, kwargs) else None


def _real_type(value) -> torch.dtype | None:
    if isinstance(value, ir.IRNode):
        dtype = value.get_dtype()
        return dtype if dtype.is_floating_point else None
    return torch.float32 if isinstance(value, float) else None


@dataclasses.dataclass(frozen=True)
class _Tensor:
    dtype: torch.dtype
    dims: int

    def make(self):
        return torch.ones((2,) * self.dims, dtype=self.dtype)


class _Unknown(Exception):
    pass


def is_refused(operator, args, kwargs) -> bool:
    """Whether the eager kernel raises an error for these numbers and types.

    The CPU's kernel is called with small tensors of ones. So an error that depends on the numbers
    in tensors is not found.
    """
    if not has_checks(operator):
        return False
    try:
        args = tuple(map(_small, args))
        kwargs = tuple((name, _small(value)) for name, value in kwargs.items())
    except _Unknown:
        return False
    key = operator, repr((args, kwargs))  # as text, because 1, 1.0 and True are equal
    if key not in _known:
        _known[key] = _raises(operator, args, kwargs)
    return _known[key]


_known: dict[tuple, bool] = {}


@functools.cache
def has_checks(operator) -> bool:
    if not isinstance(operator, torch._ops.OpOverload) or operator.namespace != "aten":
        return False
    arguments = operator._schema.arguments
    kinds = {str(a.type).removeprefix("Optional[").removesuffix("]") for a in arguments}
    name = operator._schema.name.removeprefix("aten::")
    checked = torch.Tag.pointwise in operator.tags or name in _CHECKED
    return name in _MATRIX_PRODUCTS or (checked and bool(kinds & {"number", "float"}))


def _small(value, in_list=False):
    if isinstance(value, (list, tuple)):
        return tuple(_small(item, True) for item in value)
    if isinstance(value, torch.Tensor):
        return _Tensor(value.dtype, value.dim())
    if isinstance(value, ir.IRNode):
        return _Tensor(value.get_dtype(), len(value.get_size()))
    if isinstance(value, torch.device):
        return torch.device("cpu")
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool, sympy.Basic)):
        if not in_list:
            raise _Unknown
        return 2
    is_size = in_list and isinstance(value, int) and value > _MOST_DIMENSIONS
    return 2 if is_size else value


def _made(value):
    if isinstance(value, tuple):
        return [_made(item) for item in value]
    return value.make() if isinstance(value, _Tensor) else value


def _raises(operator, args, kwargs) -> bool:
    with _disable_current_modes(), no_python_dispatcher(), torch.no_grad():
        try:
            operator(*map(_made, args), **{name: _made(value) for name, value in kwargs})
        except NotImplementedError:  # ocl has kernels for types that the CPU's do not know
            tensors = [value for value in args if isinstance(value, _Tensor)]
            return not any(x.dtype.is_floating_point or x.dtype.is_complex for x in tensors)
        except Exception:
            return True
    return False
