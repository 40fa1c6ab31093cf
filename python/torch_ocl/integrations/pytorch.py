"""Functions of PyTorch that have their own lists of devices, or "cuda" as default."""

import inspect

import torch

from . import replace


def tell_dlpack_device(module) -> None:
    """torch.utils.dlpack: torch.from_dlpack(x), and from_dlpack(x) of other libraries."""

    def make(original):
        def __dlpack_device__(self):
            if self.device.type == "ocl":
                return module.DLDeviceType.kDLExtDev, self.device.index
            return original(self)

        return __dlpack_device__

    replace(torch.Tensor, "__dlpack_device__", make)


def scale_losses(module) -> None:
    """torch.amp.grad_scaler: a scaler for CUDA scales for ocl, instead of nothing, without CUDA."""
    _read_cuda_as_ocl(module.GradScaler, "device")


def cast_automatically(module) -> None:
    """torch.amp.autocast_mode: autocast("cuda") is for ocl, instead of nothing, without CUDA."""
    _read_cuda_as_ocl(module.autocast, "device_type")


def _read_cuda_as_ocl(owner, argument) -> None:
    def make(original):
        signature = inspect.signature(original)

        def __init__(self, *args, **kwargs):
            call = signature.bind(self, *args, **kwargs)
            call.apply_defaults()
            if call.arguments[argument] == "cuda" and not torch.cuda.is_available():
                call.arguments[argument] = "ocl"
            original(*call.args, **call.kwargs)

        return __init__

    replace(owner, "__init__", make)
