"""Differences between PyTorch 2.11 to 2.13 in what is used of Inductor."""

import functools

from torch._inductor import config


@functools.cache
def known(*names: str) -> tuple[str, ...]:
    """Those of the names that Inductor's configuration has."""
    return tuple(name for name in names if name in config._config)


def patch(**values):
    """Changes Inductor's configuration in a with statement; __ in a name is a dot."""
    names = {name.replace("__", "."): value for name, value in values.items()}
    return config.patch({name: names[name] for name in known(*names)})
