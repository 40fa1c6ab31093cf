"""Differences between the supported releases of PyTorch in Inductor's interfaces."""

import functools

import torch
from torch._inductor import config

RELEASE = torch.torch_version.TorchVersion(torch.__version__)
IS_BEFORE_2_13 = RELEASE < "2.13"
IS_BEFORE_2_15 = RELEASE < "2.15"


@functools.cache
def known(*names: str) -> tuple[str, ...]:
    """The settings whose names this version of Inductor has, without old names."""
    entries = config._config
    found = (name for name in names if name in entries)
    return tuple(name for name in found if not getattr(entries[name], "deprecated", False))


def patch(**values):
    """Changes Inductor's configuration in a with statement; __ in a name means a dot."""
    names = {name.replace("__", "."): value for name, value in values.items()}
    return config.patch({name: names[name] for name in known(*names)})
