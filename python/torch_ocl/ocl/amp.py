"""Automatic mixed precision: torch.autocast("ocl") and torch.amp.GradScaler("ocl"), and their short
forms torch.ocl.amp.autocast() and torch.ocl.amp.GradScaler()."""

import torch

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]

_SUPPORTED = (torch.float16, torch.bfloat16)


def get_amp_supported_dtype() -> list[torch.dtype]:
    """The types that torch.autocast("ocl") can run operators in."""
    return list(_SUPPORTED)


def is_autocast_enabled() -> bool:
    """Whether torch.autocast("ocl") is on in this thread."""
    return torch.is_autocast_enabled("ocl")


def set_autocast_enabled(enabled: bool) -> None:
    """Turns autocast on or off in this thread; torch.autocast("ocl") does it for a block."""
    torch.set_autocast_enabled("ocl", enabled)


def get_autocast_dtype() -> torch.dtype:
    """The default type of torch.autocast("ocl"): torch.float16, unless another was set."""
    return torch.get_autocast_dtype("ocl")


def set_autocast_dtype(dtype: torch.dtype) -> None:
    """Sets the type of get_autocast_dtype() in this thread.

    Raises ValueError for a type that get_amp_supported_dtype() does not list.
    """
    torch.set_autocast_dtype("ocl", _supported(dtype))


def _supported(dtype):
    if dtype not in _SUPPORTED:
        names = " and ".join(map(str, _SUPPORTED))
        raise ValueError(f"autocast on ocl: the dtype is {dtype}, but only {names} are supported")
    return dtype


class autocast(torch.amp.autocast):
    """torch.autocast("ocl", ...); raises ValueError for a type that is not supported."""

    def __init__(self, enabled=True, dtype=None, cache_enabled=None):
        if dtype is not None:
            _supported(dtype)
        super().__init__("ocl", dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


class GradScaler(torch.amp.GradScaler):
    """torch.amp.GradScaler("ocl", ...)."""

    def __init__(
        self,
        init_scale=2.0**16,
        growth_factor=2.0,
        backoff_factor=0.5,
        growth_interval=2000,
        enabled=True,
    ):
        super().__init__("ocl", init_scale, growth_factor, backoff_factor, growth_interval, enabled)


def custom_fwd(fwd=None, *, cast_inputs=None):
    """torch.amp.custom_fwd(..., device_type="ocl")."""
    return torch.amp.custom_fwd(fwd, device_type="ocl", cast_inputs=cast_inputs)


def custom_bwd(bwd=None):
    """torch.amp.custom_bwd(..., device_type="ocl")."""
    return torch.amp.custom_bwd(bwd, device_type="ocl")
