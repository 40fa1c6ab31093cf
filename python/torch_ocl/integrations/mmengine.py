"""mmengine: the device of Runner, and mixed precision (AmpOptimWrapper)."""

import torch

from . import local_device, replace


def choose_device(module) -> None:
    """mmengine.device.utils"""
    if module.DEVICE == "cpu":
        module.DEVICE = str(local_device())


def know_autocast(module) -> None:
    """mmengine.runner.amp refuses devices that are not in its list."""

    def make(original):
        def autocast(device_type=None, dtype=None, enabled=True, cache_enabled=None):
            device = torch.device(device_type or module.get_device())
            if device.type != "ocl":
                return original(device_type, dtype, enabled, cache_enabled)
            return torch.autocast("ocl", dtype, enabled, cache_enabled)

        return autocast

    replace(module, "autocast", make, ("mmengine",))


def allow_mixed_precision(module) -> None:
    """mmengine.optim.optimizer.amp_optimizer_wrapper wants a device of its list."""

    def make(original):
        return lambda: original() or torch.ocl.is_available()

    replace(module, "is_cuda_available", make)
