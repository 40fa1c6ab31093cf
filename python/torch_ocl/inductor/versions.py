"""Differences between the supported releases of PyTorch in Inductor's interfaces."""

import functools

from torch._inductor import config


@functools.cache
def known(*names: str) -> tuple[str, ...]:
    """The settings whose names this version of Inductor has."""
    return tuple(name for name in names if name in config._config)


def patch(**values):
    """Changes Inductor's configuration in a with statement; __ in a name is a dot."""
    names = {name.replace("__", "."): value for name, value in values.items()}
    return config.patch({name: names[name] for name in known(*names)})
