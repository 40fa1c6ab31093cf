"""Module.to() keeps the parameters of a module: the same objects, shared by the same modules.

Between the devices of its own tree, PyTorch moves a parameter by giving it the copy's data. For
other devices it replaces the parameter by a new one. Then two modules that shared a parameter, such
as the first and last layer of GPT-2, do not share it any more, and an existing optimizer trains
parameters that nothing uses. Here the old object gets the new one's tensor.
"""

import warnings

import torch


def _keep(module: torch.nn.Module, name: str, old, new) -> None:
    new.__dict__.update(old.__dict__)
    if type(new) is torch.nn.Parameter:
        new.__class__ = type(old)  # UninitializedParameter, say; the swap exchanges the classes
    try:
        torch.utils.swap_tensors(old, new)
    except RuntimeError as error:
        warnings.warn(
            f"{type(module).__name__}.{name} is replaced rather than moved from {old.device} to "
            f"{new.device}, so that optimizers and modules that share it keep the old one: "
            f"{error}",
            stacklevel=4,
        )
    else:
        module._parameters[name] = old


def install() -> None:
    """Wraps torch.nn.Module._apply, which all moves of modules call."""
    original = torch.nn.Module._apply

    def _apply(self, fn, recurse=True):
        before = list(self._parameters.items())
        try:
            return original(self, fn, recurse)
        finally:  # also for the parameters that were moved before an error
            for name, old in before:
                new = self._parameters[name]
                if new is not old and "ocl" in (old.device.type, new.device.type):
                    _keep(self, name, old, new)

    _apply.__doc__ = original.__doc__
    torch.nn.Module._apply = _apply
