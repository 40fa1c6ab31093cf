"""Mixed precision: autocast("cuda"), GradScaler("cuda") and the functions of autocast's state."""

import functools

import torch

from .words import asked_by_program, to_ocl

# (owner, name of the function, position and name of its argument with the device type, the default
# of that argument: None if it has none)
DEVICE_TYPES = (
    (torch.amp.autocast_mode.autocast, "__init__", 1, "device_type", None),
    (torch.amp.grad_scaler.GradScaler, "__init__", 1, "device", "ocl"),
    (torch.amp, "custom_fwd", 1, "device_type", None),
    (torch.amp, "custom_bwd", 1, "device_type", None),
    (torch, "get_autocast_dtype", 0, "device_type", None),
    (torch, "set_autocast_dtype", 0, "device_type", None),
    (torch._C, "_is_autocast_available", 0, "device_type", None),
)


def _translate(original, position, name, default):
    def call(*args, **kwargs):
        if len(args) > position:
            args = (*args[:position], to_ocl(args[position]), *args[position + 1 :])
        elif name in kwargs:
            kwargs[name] = to_ocl(kwargs[name])
        elif default is not None:
            kwargs[name] = default
        return original(*args, **kwargs)

    return functools.wraps(original)(call)


def _is_enabled(original):
    def is_autocast_enabled(*device_type):
        if not device_type and asked_by_program():
            return original("ocl")
        return original(*map(to_ocl, device_type))

    return functools.wraps(original)(is_autocast_enabled)


def _set_enabled(original):
    def set_autocast_enabled(*args):
        if len(args) == 1 and asked_by_program():
            return original("ocl", *args)
        return original(*map(to_ocl, args))

    return functools.wraps(original)(set_autocast_enabled)


def _get_gpu_dtype():
    """The type that autocast("cuda") computes in."""
    return torch.get_autocast_dtype("ocl")


def _set_gpu_dtype(dtype):
    """Sets the type that autocast("cuda") computes in."""
    torch.set_autocast_dtype("ocl", dtype)


def install() -> None:
    for owner, name, *argument in DEVICE_TYPES:
        setattr(owner, name, _translate(getattr(owner, name), *argument))
    torch.is_autocast_enabled = _is_enabled(torch.is_autocast_enabled)
    torch.set_autocast_enabled = _set_enabled(torch.set_autocast_enabled)
    torch.get_autocast_gpu_dtype, torch.set_autocast_gpu_dtype = _get_gpu_dtype, _set_gpu_dtype
    torch.amp.autocast_mode.custom_fwd = torch.amp.custom_fwd
    torch.amp.autocast_mode.custom_bwd = torch.amp.custom_bwd
