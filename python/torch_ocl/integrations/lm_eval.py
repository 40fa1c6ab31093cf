"""lm-eval: models of transformers (--model hf)."""

import torch

from . import local_device, replace


def choose_device(module) -> None:
    """lm_eval.models.huggingface replaces devices that it does not know by the CPU."""

    def make(original):
        def __init__(self, pretrained, *args, device="cuda", **kwargs):
            wanted = str(device or "cuda")
            lacks = wanted.startswith("cuda") and not torch.cuda.is_available()
            ours = ("ocl" in wanted or lacks) and not kwargs.get("parallelize")
            original(self, pretrained, *args, device="cpu" if ours else device, **kwargs)
            if ours and isinstance(pretrained, str) and self._device.type == "cpu":
                self._device = local_device() if lacks else torch.device(wanted)
                self._model.to(self._device)

        return __init__

    replace(module.HFLM, "__init__", make)
