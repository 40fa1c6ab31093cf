"""Module.to() keeps the parameters of a module: the same objects, shared by the same modules.

PyTorch moves a parameter by giving it its copy's data, but only between the devices of its own
tree. For others it puts a new parameter in the place of the old one: two modules that shared
theirs, such as the first and the last layer of GPT-2, do so no longer, and an optimizer that was
made before trains what nobody uses. Here the old object gets the new one's tensor.
"""

import warnings

import torch


def _keep(module: torch.nn.Module, name: str, old, new) -> None:
    new.__dict__.update(old.__dict__)
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
    """Wraps torch.nn.Module._apply, which all moves of modules go through."""
    original = torch.nn.Module._apply

    def _apply(self, fn, recurse=True):
        before = list(self._parameters.items())
        try:
            return original(self, fn, recurse)
        finally:  # also for those that were moved before one failed
            for name, old in before:
                new = self._parameters[name]
                if new is not old and "ocl" in (old.device.type, new.device.type):
                    _keep(self, name, old, new)

    _apply.__doc__ = original.__doc__
    torch.nn.Module._apply = _apply
