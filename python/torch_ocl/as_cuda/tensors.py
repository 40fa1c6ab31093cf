"""Attributes of tensors, storages and modules that mention cuda: is_cuda, cuda(), type()."""

import functools

import torch

from .words import asked_by_program, to_ocl


def _is_cuda(on_ocl) -> property:
    """is_cuda is True for programs, but False for PyTorch's own code."""
    return property(lambda self: on_ocl(self) and asked_by_program())


def _cuda(self, device=None, non_blocking=False, memory_format=torch.preserve_format):
    """The tensor on the device, by default the current one."""
    device = "ocl" if device is None else to_ocl(device)
    return self.to(device, non_blocking=non_blocking, memory_format=memory_format)


def _type(original):
    def type(self, dtype=None, non_blocking=False, **kwargs):
        if isinstance(dtype, str):
            dtype = dtype.replace("torch.cuda.", "torch.ocl.")
        if dtype is not None:
            return original(self, dtype, non_blocking, **kwargs)
        name = original(self)
        return name.replace("torch.ocl.", "torch.cuda.") if asked_by_program() else name

    return functools.wraps(original)(type)


def _new(original):
    def __new__(cls, *args, device=None, **kwargs):
        if device is not None:
            kwargs["device"] = to_ocl(device)
        return original(cls, *args, **kwargs)

    return staticmethod(__new__)


def _set_default_tensor_type(original):
    def set_default_tensor_type(t, /):
        original(t.replace("torch.cuda.", "torch.ocl.") if isinstance(t, str) else t)

    return functools.wraps(original)(set_default_tensor_type)


def install() -> None:
    torch.Tensor.cuda = _cuda
    torch.Tensor.is_cuda = _is_cuda(lambda tensor: tensor.is_ocl)
    torch.nn.utils.rnn.PackedSequence.is_cuda = _is_cuda(lambda packed: packed.data.is_ocl)
    for storage in (torch.UntypedStorage, torch.TypedStorage):
        storage.is_cuda = _is_cuda(lambda storage: storage.device.type == "ocl")
    torch.Tensor.type = _type(torch.Tensor.type)
    torch.UntypedStorage.__new__ = _new(torch.UntypedStorage.__new__)
    torch.set_default_tensor_type = _set_default_tensor_type(torch.set_default_tensor_type)
