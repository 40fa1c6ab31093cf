"""Lets torch.nn.attention.flex_attention accept ocl tensors: it has its own lists of devices."""

import functools

import torch
from torch._C import DispatchKey, DispatchKeySet, _ExcludeDispatchKeyGuard


def allow() -> None:
    from torch._higher_order_ops.flex_attention import flex_attention as operator
    from torch.nn.attention import flex_attention as module

    original = module._validate_device

    @functools.wraps(original)
    def _validate_device(query, key, value):
        if query.device.type != "ocl":
            original(query, key, value)

    module._validate_device = _validate_device

    @operator.py_impl(DispatchKey.AutocastPrivateUse1)
    def in_autocast_type(query, key, value, *args, **kwargs):
        dtype = torch.get_autocast_dtype("ocl")
        kept = torch.float64, dtype  # casts as autocast does for other operators
        operands = (x if x.dtype in kept else x.to(dtype) for x in (query, key, value))
        with _ExcludeDispatchKeyGuard(DispatchKeySet(DispatchKey.AutocastPrivateUse1)):
            return operator(*operands, *args, **kwargs)
