"""Python kernels that programs register for CUDA are registered for ocl.

PyTorch's own kernels for CUDA are left alone, because they are written in Triton or CuTe.
"""

import functools

import torch
from torch._library import custom_ops

from .words import asked_by_program, to_ocl

KEYS = {
    "CUDA": "PrivateUse1",
    "AutogradCUDA": "AutogradPrivateUse1",
    "AutocastCUDA": "AutocastPrivateUse1",
    "SparseCUDA": "SparsePrivateUse1",
    "SparseCsrCUDA": "SparseCsrPrivateUse1",
    "NestedTensorCUDA": "NestedTensorPrivateUse1",
    "QuantizedCUDA": "QuantizedPrivateUse1",
}


def _names(types):
    """Translates a device type, a dispatch key, or a sequence of them; leaves other values."""
    if isinstance(types, str):
        return KEYS.get(types) or to_ocl(types)
    return [_names(each) for each in types] if isinstance(types, (list, tuple)) else types


def _of_types(original):
    """Wraps a function or method that has device types, or a key, in any argument except the
    first."""

    def call(first, *args, **kwargs):
        if asked_by_program():
            args = [_names(each) for each in args]
            kwargs = {name: _names(each) for name, each in kwargs.items()}
        return original(first, *args, **kwargs)

    return functools.wraps(original)(call)


FUNCTIONS = (
    (torch.library, "impl"),
    (torch.library, "register_kernel"),
    (torch.library, "register_autocast"),
    (torch.library, "custom_op"),
    (torch.library.Library, "__init__"),
    (torch.library.Library, "impl"),
    (torch.library.Library, "fallback"),
    (custom_ops.CustomOpDef, "register_kernel"),
    (custom_ops.CustomOpDef, "register_autocast"),
    (custom_ops.CustomOpDef, "set_kernel_enabled"),
)


def _place_on_ocl(operator, *args, **kwargs):
    """Operators that make a tensor on CUDA make it on ocl; C++ and TorchScript call them."""
    args, changed = [_device(each) for each in args], dict(kwargs)
    for name, each in kwargs.items():
        changed[name] = _device(each)
    if changed == kwargs:
        raise NotImplementedError(f"{operator} was called for CUDA without a device of CUDA")
    return operator(*args, **changed)


def _device(value):
    return to_ocl(value) if isinstance(value, torch.device) else value


_fallback = torch.library.Library("_", "IMPL")


def install() -> None:
    _fallback.fallback(_place_on_ocl, "CUDA")
    for owner, name in FUNCTIONS:
        setattr(owner, name, _of_types(getattr(owner, name)))
