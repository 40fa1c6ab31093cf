"""torch.distributed: the backend "nccl" is occl, and meshes of "cuda" are of ocl."""

import functools
import sys

import torch

from .words import asked_by_program, to_ocl

# Functions that have a backend or a device as an argument.
FUNCTIONS = """
    init_process_group new_group new_subgroups new_subgroups_by_enumeration split_group
    is_backend_available init_device_mesh"""


def _backend(name: str) -> str:
    """Replaces "nccl" by occl, also for a single device: "cpu:gloo,cuda:nccl"."""
    parts = [part.split(":") for part in name.split(",")]
    if not any("nccl" in part or "cuda" in part for part in parts):
        return name
    words = {"nccl": "occl", "cuda": "ocl"}
    return ",".join(":".join(words.get(word, word) for word in part) for part in parts)


def _argument(value):
    if isinstance(value, torch.distributed.Backend):
        value = str(value)
    if isinstance(value, str):
        return to_ocl(_backend(value)) if "://" not in value else value
    return value


def _translate(original):
    def call(*args, **kwargs):
        kwargs = {name: _argument(each) for name, each in kwargs.items()}
        return original(*map(_argument, args), **kwargs)

    return functools.wraps(original)(call)


def _is_nccl_available(original):
    def is_nccl_available():
        return original() or asked_by_program()

    return functools.wraps(original)(is_nccl_available)


def _get_backend(original):
    def get_backend(*args, **kwargs):
        name = original(*args, **kwargs)
        return "nccl" if name == "occl" and asked_by_program() else name

    return functools.wraps(original)(get_backend)


def _replace_everywhere(name: str, change) -> None:
    """Replaces the function in torch.distributed, and in its modules that have imported it."""
    original = getattr(torch.distributed, name, None)
    if original is None:
        return  # another release of PyTorch has it
    replacement = change(original)
    for module in list(sys.modules.values()):
        if getattr(module, "__name__", "").startswith("torch.distributed"):
            for other, value in list(vars(module).items()):
                if value is original:
                    setattr(module, other, replacement)


def install() -> None:
    if not torch.distributed.is_available():
        return
    for name in FUNCTIONS.split():
        _replace_everywhere(name, _translate)
    _replace_everywhere("is_nccl_available", _is_nccl_available)
    _replace_everywhere("get_backend", _get_backend)
    mesh = torch.distributed.device_mesh.DeviceMesh
    mesh.__init__ = _translate(mesh.__init__)
