"""accelerate, and through it transformers' Trainer and device_map="auto"."""

import atexit
import os
import warnings

import torch

from . import enabled, local_device, replace

DEVICE = "ACCELERATE_TORCH_DEVICE"  # accelerate prefers it to cpu=True, so enable() leaves it alone
CURE = "call torch_ocl.integrations.enable() first, or start python -m torch_ocl.run script.py"


def refuse_cpu() -> None:
    """Raises where enable() would have no effect."""
    if os.environ.get("ACCELERATE_USE_CPU", "").lower() in ("1", "true", "yes", "on", "y", "t"):
        raise RuntimeError(
            "ACCELERATE_USE_CPU asks accelerate for the CPU, so it cannot choose ocl: unset it, "
            "or leave out --cpu of `accelerate launch`"
        )


def _world_size():
    return int(os.environ.get("WORLD_SIZE", "1")) if "LOCAL_RANK" in os.environ else 1


def choose_device(module) -> None:
    """accelerate.state: processes of torchrun form a group of the backend "occl"."""
    chosen = module.PartialState._shared_state.get("device")
    if chosen is not None and chosen.type != "ocl":
        raise RuntimeError(f"accelerate has already chosen {chosen}: {CURE}")

    def make(original):
        def _prepare_backend(self, cpu=False, sagemaker_dp=False, backend=None):
            if self.device is None and not cpu and self.default_device.type == "cpu":
                self.device = local_device()
            ours = self.device is not None and self.device.type == "ocl"
            if cpu or sagemaker_dp or not ours or "LOCAL_RANK" not in os.environ:
                return original(self, cpu, sagemaker_dp, backend)
            if backend not in (None, "occl"):
                raise ValueError(f"processes on ocl communicate through 'occl', not {backend!r}")
            torch.ocl.set_device(self.device)
            # accelerate has no type for unknown devices. With MULTI_CPU it wraps models in
            # DistributedDataParallel and asks nothing of the device. Only FSDP needs a GPU.
            kind = module.DistributedType
            sharded = os.environ.get("ACCELERATE_USE_FSDP", "false").lower() == "true"
            return "occl", kind.MULTI_GPU if sharded else kind.MULTI_CPU

        return _prepare_backend

    replace(module.PartialState, "_prepare_backend", make)


def allow_float16(module) -> None:
    """accelerate.accelerator: mixed_precision="fp16", refused for devices that are not listed."""

    def make(original):
        def __init__(self, *args, mixed_precision=None, **kwargs):
            state = module.AcceleratorState._shared_state
            asked = mixed_precision or os.environ.get("ACCELERATE_MIXED_PRECISION")
            wanted = state.get("_mixed_precision", asked)  # an earlier Accelerator has set it
            if str(wanted).lower() != "fp16" or not _would_use_ocl(kwargs):
                return original(self, *args, mixed_precision=mixed_precision, **kwargs)
            if str(asked or "fp16").lower() != "fp16":
                return original(self, *args, mixed_precision=mixed_precision, **kwargs)  # raises
            if "_mixed_precision" in state:
                state["_mixed_precision"] = "bf16"
            try:
                original(self, *args, mixed_precision="bf16", **kwargs)
            finally:
                if "_mixed_precision" in state:
                    state["_mixed_precision"] = "fp16"
            handler = self.scaler_handler
            options = handler.to_kwargs() if handler is not None else {}
            self.scaler = torch.amp.GradScaler("ocl", **options)

        return __init__

    replace(module.Accelerator, "__init__", make)

    def _would_use_ocl(kwargs):
        if kwargs.get("cpu"):
            return False
        chosen = module.PartialState._shared_state.get("device") or os.environ.get(DEVICE)
        return torch.device(chosen or local_device()).type == "ocl"


def choose_device_of_trainer(module) -> None:
    """transformers.training_args: the device of the arguments is that of accelerate's state."""

    def make(original):  # a functools.cached_property
        setup = original.func

        def _setup_devices(self):
            device, state = setup(self), self.distributed_state
            ours = state is not None and state.device is not None and state.device.type == "ocl"
            return state.device if ours and device.type == "cpu" else device

        original.func = _setup_devices
        return original

    replace(module.TrainingArguments, "_setup_devices", make)


def count_memory(module) -> None:
    """accelerate.utils.modeling: device_map="auto" counts the memory of the ocl devices."""

    def make(original):
        def get_max_memory(max_memory=None):
            if max_memory is not None:
                return original({_key(key): value for key, value in max_memory.items()})
            found = original()
            if any(key not in ("cpu", "disk") for key in found):
                return found  # another accelerator
            devices = range(torch.ocl.device_count())
            shared = any(torch.ocl.get_device_properties(i).host_unified_memory for i in devices)
            memory = {i: torch.ocl.mem_get_info(i)[0] for i in devices}
            # Memory that a device shares with the host would be counted twice.
            return memory if shared else {**memory, **found}

        return get_max_memory

    replace(module, "get_max_memory", make, ("accelerate", "transformers"))


def _key(key):
    """Converts an ocl device to its number, because device maps treat only numbers as
    accelerators."""
    if isinstance(key, str) and key.split(":")[0] == "ocl":
        return torch.device(key).index or 0
    return key


def watch(module) -> None:
    """Used without enable(): an error if processes would train without each other, and a warning at
    exit."""
    if _world_size() > 1 and os.environ.get(DEVICE, "").startswith("ocl") and not enabled():
        raise RuntimeError(
            f"{DEVICE}={os.environ[DEVICE]} with {_world_size()} processes: accelerate knows no "
            f"backend for ocl, so that each process would train alone: {CURE}"
        )
    atexit.register(_warn_at_exit, module.PartialState)


def _warn_at_exit(partial_state) -> None:
    state = partial_state._shared_state
    device = state.get("device")
    unused = device is not None and device.type == "cpu" and not state.get("_cpu")
    if unused and not enabled() and not torch.ocl.is_initialized() and torch.ocl.is_available():
        warnings.warn(
            f'accelerate ran on the CPU, although there is a device "ocl:0": {CURE}', stacklevel=2
        )
