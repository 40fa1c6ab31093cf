"""mace: device="ocl" of its calculators and commands."""

import torch

from . import replace


def know_device(module) -> None:
    """mace.tools.torch_tools replaces devices that it does not know by the CPU."""

    def make(original):
        def init_device(device_str):
            ours = str(device_str).split(":")[0] == "ocl"
            return torch.device(device_str) if ours else original(device_str)

        return init_device

    replace(module, "init_device", make, ("mace",))
