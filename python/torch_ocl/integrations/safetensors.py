"""safetensors: device="ocl". It knows a list of names, and numbers of the accelerator."""

import torch

from . import replace


def open_on_ocl(module) -> None:
    """safetensors: safe_open(..., device="ocl"), which load_file() of safetensors.torch calls."""

    def make(original):
        def safe_open(filename, framework, device="cpu", **options):
            name = str(device)
            if name.split(":")[0] == "ocl":
                chosen = torch.device(name).index
                device = torch.ocl.current_device() if chosen is None else chosen
            return original(filename, framework, device=device, **options)

        return safe_open

    replace(module, "safe_open", make, ("safetensors", "transformers", "accelerate", "peft"))
