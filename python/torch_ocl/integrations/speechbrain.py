"""speechbrain: the loss scaling of a Brain, which finds the device itself."""

import torch

from . import replace


def scale_losses(module) -> None:
    """speechbrain.core scales losses of float16 on CUDA only."""

    def make(original):
        def __init__(self, *args, **kwargs):
            original(self, *args, **kwargs)
            if self.precision == "fp16" and self.device_type == "ocl":
                self.scaler = torch.amp.GradScaler("ocl")
                if self.checkpointer is not None:
                    self.checkpointer.add_recoverable("scaler", self.scaler, optional_load=True)

        return __init__

    replace(module.Brain, "__init__", make)
