"""transformers: what does not go through accelerate."""

import torch

from . import replace


def allow_bfloat16(module) -> None:
    """transformers.training_args: TrainingArguments(bf16=True)."""

    def make(original):
        return lambda: original() or torch.ocl.is_bf16_supported()

    replace(module, "is_torch_bf16_gpu_available", make, ("transformers",))


def choose_device_of_pipelines(module) -> None:
    """transformers.pipelines.base: pipeline() and pipeline(device=0)."""

    def make(original):
        def __init__(self, *args, device=None, **kwargs):
            model = kwargs.get("model", args[0] if args else None)
            if device is None and getattr(model, "hf_device_map", None) is None:
                placed = getattr(model, "device", None)
                device = placed if placed is not None and placed.type == "ocl" else 0
            numbered = isinstance(device, int) and device >= 0
            if numbered and torch.accelerator.current_accelerator().type == "ocl":
                device = torch.device("ocl", device)
            original(self, *args, device=device, **kwargs)

        return __init__

    replace(module.Pipeline, "__init__", make)


def find_default_stream(module) -> None:
    """transformers.cache_utils: offloaded caches ask torch.cuda for the stream of their device."""

    def make(original):
        def default_stream(device=None):
            if isinstance(device, torch.device) and device.type == "ocl":
                return torch.ocl.default_stream(device)
            return original(device)

        return default_stream

    replace(torch.cuda, "default_stream", make)
