"""transformers: the choices of a device that do not go through accelerate."""

import contextvars

import torch

from . import replace
from .accelerate import choose_device_of_trainer
from .transformers_layers import fuse_layers as fuse_layers


def adapt_training_arguments(module) -> None:
    """transformers.training_args"""
    allow_bfloat16(module)
    choose_device_of_trainer(module)


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


class _AsOnXpu:
    """A model that reports the device "xpu", for code with a fixed list of devices."""

    device = torch.device("xpu")

    def __init__(self, model):
        self._model = model

    def __getattr__(self, name):
        return getattr(self._model, name)


def compile_generation(module) -> None:
    """transformers.generation.utils: generate() with a static cache compiles the model's steps."""

    def make(original):
        def _valid_auto_compile_criteria(self, *args, **kwargs):
            model = _AsOnXpu(self) if self.device.type == "ocl" else self
            return original(model, *args, **kwargs)

        return _valid_auto_compile_criteria

    replace(module.GenerationMixin, "_valid_auto_compile_criteria", make)


_device_of_cache = contextvars.ContextVar(
    "the device of the paged cache that is made", default=None
)


def size_paged_cache(module) -> None:
    """transformers.generation.continuous_batching.cache: one tensor that takes the free memory."""

    def know_device(original):
        def __init__(self, config, continuous_batching_config, device, *args, **kwargs):
            token = _device_of_cache.set(torch.device(device))
            try:
                original(self, config, continuous_batching_config, device, *args, **kwargs)
            finally:
                _device_of_cache.reset(token)

        return __init__

    def ocl_device():
        device = _device_of_cache.get()
        return device if device is not None and device.type == "ocl" else None

    def ask_device(original):
        def get_available_memory(self):
            if (device := ocl_device()) is None:
                return original(self)
            return int(torch.ocl.mem_get_info(device)[0] * self.cb_config.max_memory_percent)

        return get_available_memory

    def fit_largest_buffer(original):
        def infer_max_batch_tokens_and_num_sectors(self):
            tokens, sectors = original(self)
            if (device := ocl_device()) is None:
                return tokens, sectors
            largest = torch.ocl.get_device_properties(device).max_allocation
            unused = 2  # sectors at the end of the tensor
            return tokens, min(sectors, largest // self.bytes_per_sector - unused)

        return infer_max_batch_tokens_and_num_sectors

    handler = module.PagedAttentionMemoryHandler
    replace(module.PagedAttentionCache, "__init__", know_device)
    replace(handler, "get_available_memory", ask_device)
    replace(handler, "infer_max_batch_tokens_and_num_sectors", fit_largest_buffer)


def leave_shared_memory(module) -> None:
    """transformers.generation.continuous_batching.initialization: the share of a paged cache."""
    of_shared_memory = 0.6  # the same share as transformers takes of the host's memory

    def make(original):
        def resolve_max_memory_percent(cb_config, has_logit_processors, device=None):
            shared = (
                device is not None
                and device.type == "ocl"
                and torch.ocl.get_device_properties(device).host_unified_memory
            )
            if shared and cb_config.max_memory_percent is None:
                cb_config.max_memory_percent = of_shared_memory
            original(cb_config, has_logit_processors, device)

        return resolve_max_memory_percent

    replace(module, "resolve_max_memory_percent", make, ("transformers",))
