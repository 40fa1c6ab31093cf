"""torch.ocl: the functions of torch.cuda for OpenCL devices."""

# ruff: noqa: F401

import atexit
import importlib
from inspect import ismodule as _is_module

from torch import AcceleratorError, OutOfMemoryError

from torch_ocl import _C
from torch_ocl._C import LocalMemory

from . import amp, devices, driver_cache, files, multiprocessing, printing, storages, tensor_types
from .amp import (
    get_amp_supported_dtype,
    get_autocast_dtype,
    is_autocast_enabled,
    set_autocast_dtype,
    set_autocast_enabled,
)
from .tensor_types import *  # noqa: F403

# All public functions and classes of these modules are torch.ocl's.
_MODULES = """compile_kernel devices dlpack fallback graphed_callables graphs interop memory
    memory_history pools random streams sync_debug"""
for _name in _MODULES.split():
    _module = importlib.import_module(f"{__name__}.{_name}")
    for _name, _value in list(vars(_module).items()):
        if _name[0] != "_" and getattr(_value, "__module__", None) == _module.__name__:
            globals()[_name] = _value

__all__ = [
    "amp",
    *(name for name, value in globals().items() if name[0] != "_" and not _is_module(value)),
]


def _lazy_init() -> None:
    """Does nothing: the first use lists the devices. Without this function, torch.accelerator's
    synchronize() does not wait in PyTorch 2.11."""


def _is_in_bad_fork() -> bool:
    """Whether this process is a fork of one that used OpenCL; torch.manual_seed calls this."""
    return _C.is_in_bad_fork()


def __getattr__(name: str):
    # torch.utils.checkpoint reads this, and saves the generators' states only if it is true.
    if name == "_initialized":
        return devices.is_initialized()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _at_start() -> None:
    driver_cache.keep_pocl_private()
    # A synchronisation stores programs; this stores those built after the last one.
    atexit.register(_C.store_programs)
    # Drivers may crash or hang if a process ends while commands run
    # (https://github.com/KhronosGroup/OpenCL-Docs/issues/1238).
    atexit.register(_C.drain_devices)
    if hasattr(_C, "keep_released"):  # PyTorch was built with torch.distributed
        atexit.register(_C.keep_released)
    atexit.register(_C.wait_for_backward_threads)
    printing.print_without_float64()
    tensor_types.take_as_default()
    multiprocessing.refuse_to_send()
    storages.swap_bytes_of_ocl_storages()
    files.fix_storages_of_files()
