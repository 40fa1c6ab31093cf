"""Calls a function once, right after a module was imported."""

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable


class _Loader(importlib.abc.Loader):
    """Loads as the wrapped loader does, then calls the function."""

    def __init__(self, loader, function):
        self._loader, self._function = loader, function

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._function()


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, module, function):
        self._module, self._function = module, function

    def find_spec(self, fullname, path=None, target=None):
        if fullname != self._module:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None:
            sys.meta_path.remove(self)
            spec.loader = _Loader(spec.loader, self._function)
        return spec


def after_import(module: str, function: Callable[[], None]) -> None:
    """Calls the function after the module was imported; at once if it is already there."""
    if module in sys.modules:
        function()
    else:
        sys.meta_path.insert(0, _Finder(module, function))
