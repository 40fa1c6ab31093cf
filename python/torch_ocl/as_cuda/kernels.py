"""Kernels in Python that programs register for CUDA, which serve ocl then.

Only those of programs: PyTorch registers kernels of its own for CUDA, which are Triton's or CuTe's.
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
    """A device type, a key or a sequence of them; all else as it is."""
    if isinstance(types, str):
        return KEYS.get(types) or to_ocl(types)
    return [_names(each) for each in types] if isinstance(types, (list, tuple)) else types


def _of_types(original):
    """A function or method with device types, or a key, anywhere in its arguments but the first."""

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
    """An operator that makes a tensor on CUDA, as calls from C++ and TorchScript do: on ocl."""
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
