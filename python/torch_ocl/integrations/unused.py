"""Warns at the end of a process that should have used ocl, but made no tensor on it."""

import atexit
import functools
import multiprocessing
import pathlib
import sys
import warnings

import torch


@functools.cache
def warn_at_exit() -> None:
    atexit.register(_warn)


def _warn() -> None:
    # Processes of multiprocessing, such as those of data loaders, may well have no tensor.
    is_worker = multiprocessing.parent_process() is not None
    if is_worker or _is_used() or _is_of_pytorch() or not torch.ocl.is_available():
        return
    warnings.warn(
        "this process made no tensor on ocl: its program computed on the CPU, or nothing. Give it "
        'the device "ocl", or, where it knows only CUDA, python -m torch_ocl.run --cuda; '
        "docs/clients.md has recipes for libraries",
        stacklevel=2,
    )


def _is_used() -> bool:
    devices = range(torch.ocl.device_count()) if torch.ocl.is_initialized() else ()
    return any(torch.ocl.memory_stats(i).get("allocation.all.allocated", 0) for i in devices)


def _is_of_pytorch() -> bool:
    """Whether this is a helper process of PyTorch, such as torchrun's."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    name = spec.name if spec else pathlib.Path(sys.argv[0]).name
    return name == "torchrun" or name.startswith("torch.")
