"""DLPack through an object of our own, because PyTorch's Tensor.__dlpack_device__ does not know
renamed devices."""

import torch
from torch.utils.dlpack import DLDeviceType

from torch_ocl import _C

from .devices import _index
from .interop import _tensor, from_host


class _DLPack:
    """A tensor for other libraries, with __dlpack__ and __dlpack_device__; it keeps the memory."""

    def __init__(self, tensor: torch.Tensor, opencl: bool):
        if tensor.requires_grad:
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
        if tensor.is_neg() or (opencl and tensor.is_conj()):
            raise BufferError("Can't export lazily conjugated or negated tensors")
        self.tensor = tensor.detach()  # an alias, which `tensor.data = other` does not change
        self._kind = DLDeviceType.kDLOpenCL if opencl else DLDeviceType.kDLExtDev

    def __dlpack_device__(self):
        return self._kind, self.tensor.device.index

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        tensor = self.tensor
        if self._kind == DLDeviceType.kDLExtDev:
            return tensor.__dlpack__(max_version=max_version, dl_device=dl_device, copy=copy)
        if dl_device is not None and tuple(dl_device) != tuple(self.__dlpack_device__()):
            if tuple(dl_device) != (DLDeviceType.kDLCPU, 0):
                raise BufferError(f"cannot export to DLPack's device {tuple(dl_device)}")
            return tensor.__dlpack__(max_version=max_version, dl_device=dl_device, copy=copy)
        return _C.dlpack_capsule(tensor.clone() if copy else tensor)


def to_dlpack(tensor: torch.Tensor, opencl: bool = False) -> _DLPack:
    """An object for other libraries' `from_dlpack`, which shares the tensor's memory.

    Args:
        opencl: False, for torch.from_dlpack: DLPack's device kDLExtDev with torch's address.
            True, for other OpenCL code: kDLOpenCL, whose data pointer is the cl_mem; waits for the
            current stream.
    """
    return _DLPack(_tensor(tensor, "torch.ocl.to_dlpack"), opencl)


def from_dlpack(source, *, device=None, copy: bool | None = None) -> torch.Tensor:
    """An ocl tensor from another library's export.

    Args:
        source: an object with __dlpack__ and __dlpack_device__, an ocl tensor, or a capsule.
        device: the ocl device; by default that of the source, or else the current one.
        copy: None copies only if the memory is not the device's. True always copies. False never
            copies: it uses host memory in place as torch.ocl.from_host() does, or raises.
    """
    if isinstance(source, torch.Tensor) and source.device.type == "ocl":
        source = _DLPack(source, opencl=False)
    if hasattr(source, "__dlpack_device__"):
        kind = source.__dlpack_device__()[0]
    elif type(source).__name__ == "PyCapsule":
        kind = _C.dlpack_capsule_device(source)
    else:
        raise TypeError(f"{type(source).__name__} has no __dlpack_device__: it exports no DLPack")
    if kind == DLDeviceType.kDLOpenCL:
        capsule = source.__dlpack__() if hasattr(source, "__dlpack__") else source
        given = None if device is None else _index(device)
        return _placed(_C.from_dlpack_capsule(capsule, given), device, copy)
    return _placed(torch.from_dlpack(source), device, copy)


def _placed(tensor, device, copy):
    if tensor.device.type == "ocl":
        _C.check_foreign(tensor)  # also raises if the address belongs to another library's device
        target = tensor.device if device is None else torch.device("ocl", _index(device))
        if copy or target != tensor.device:
            if copy is False:
                raise ValueError(f"cannot move from {tensor.device} to {target} without a copy")
            return tensor.to(target, copy=True)
        return tensor
    if copy is False:
        if tensor.device.type != "cpu":
            raise ValueError(f"cannot move from {tensor.device} to ocl without a copy")
        return from_host(tensor, device)
    return tensor.to(torch.device("ocl", _index(device)))
