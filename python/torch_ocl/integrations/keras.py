"""keras with the backend torch: its default device, and "gpu" as the name of a device."""

import os

import torch

from . import local_device, replace


def choose_device(module) -> None:
    """keras.src.backend.torch.core: KERAS_TORCH_DEVICE comes first."""
    if module.DEFAULT_DEVICE == "cpu" and "KERAS_TORCH_DEVICE" not in os.environ:
        module.DEFAULT_DEVICE = str(local_device())

    def make(original):
        def _parse_device_input(device_name):
            name = original(device_name)
            missing = name.split(":")[0] == "cuda" and not torch.cuda.is_available()
            return name.replace("cuda", "ocl") if missing else name

        return _parse_device_input

    replace(module, "_parse_device_input", make, ("keras",))
