"""Replaces the names in torch.cuda and its modules that names.py lists."""

import functools
import importlib
import sys

import torch

from . import answers, names
from .refusals import refuse, refuse_class


def _ocl(path: str):
    return functools.reduce(getattr, path.split("."), torch.ocl)


@functools.cache
def shared() -> list[str]:
    """The names that torch.cuda and torch.ocl share, without those of the tables of names.py."""
    tables = [names.OWN, *names.RENAMED, *names.KEPT, *names.REFUSED]
    others = {name for table in tables for name in table.split()}
    return sorted({*vars(torch.cuda)} & {*torch.ocl.__all__} - others)


def answer_of(name: str):
    """The replacement for torch.cuda.`name`; None if PyTorch's own is kept."""
    if name in shared():
        return _ocl(name)
    renamed = names.RENAMED.get(name) or names.PRIVATE_OCL.get(name)
    if renamed:
        return _ocl(renamed)
    if name in f"{names.OWN} {names.PRIVATE_OWN}".split():
        return getattr(answers, name.rsplit(".", 1)[-1])
    for table in (names.REFUSED, names.PRIVATE_REFUSED):
        for group, reason in table.items():
            if name in group.split():
                make = refuse_class if isinstance(_own(name), type) else refuse
                return make(f"torch.cuda.{name}", reason)
    return None


def _own(name: str):
    module, _, last = name.rpartition(".")
    module = importlib.import_module(f"torch.cuda.{module}" if module else "torch.cuda")
    return getattr(module, last, None)


def all_names() -> list[str]:
    tables = [*names.REFUSED, *names.PRIVATE_REFUSED]
    refused = [name for group in tables for name in group.split()]
    answered = f"{names.OWN} {names.PRIVATE_OWN}".split()
    return [*shared(), *answered, *names.RENAMED, *names.PRIVATE_OCL, *refused]


def _replace(name: str) -> None:
    """Replaces the name in its module, and in modules of torch.cuda that have imported it."""
    original, answer = _own(name), answer_of(name)
    module, _, last = name.rpartition(".")
    modules = [importlib.import_module(f"torch.cuda.{module}" if module else "torch.cuda")]
    if not module:
        loaded = [key for key in sys.modules if key.startswith("torch.cuda.")]
        modules += [sys.modules[key] for key in loaded]
    for each in modules:
        if each is modules[0] or (hasattr(each, last) and getattr(each, last) is original):
            setattr(each, last, answer)


def install() -> None:
    for name in all_names():
        _replace(name)
    torch.ocl.Stream.cuda_stream = property(_cuda_stream)
    for kind in torch.ocl.tensor_types.__all__:
        getattr(torch.ocl, kind).is_cuda = True


def _cuda_stream(self):
    reason = "whose streams are OpenCL's queues: torch.ocl.queue(stream) has its address"
    refuse("torch.cuda.Stream.cuda_stream", reason)()
