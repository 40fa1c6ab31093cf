"""The devices, and the current device."""

import torch

from torch_ocl import _C

_LAST = 127  # PyTorch stores the number in 8 bits


def _index(device=None, optional=True) -> int:
    """The device's number. None, "ocl" and -1 mean the current device.

    Raises ValueError for a device of another type.
    """
    if device is None:
        if not optional:
            raise ValueError("a device is needed, as in 'ocl:0' or 0")
        return _C.current_device()
    if isinstance(device, int):
        if device > _LAST:
            raise RuntimeError(f"ocl:{device} does not exist: the last possible device is {_LAST}")
        return _C.current_device() if device < 0 else int(device)  # bool is a kind of int
    device = torch.device(device)
    if device.type != "ocl":
        raise ValueError(f"expected an ocl device, got {device}")
    return _C.current_device() if device.index is None else device.index


def is_available() -> bool:
    """Whether there is an OpenCL device. Starts nothing in this process; never raises."""
    return _C.device_count() > 0


def device_count() -> int:
    """Number of OpenCL devices, of all platforms. Starts nothing in this process; never raises."""
    return _C.device_count()


def is_initialized() -> bool:
    """Whether this process has listed its OpenCL devices."""
    return _C.is_initialized()


def init() -> None:
    """Lists the OpenCL devices; done by the first use otherwise.

    Raises RuntimeError with advice what to install when there is none.
    """
    _C.init()


def current_device() -> int:
    """Number of the device that new tensors on "ocl" go to in this thread.

    Lists the OpenCL devices, as torch.cuda's does, and raises what init() raises.
    """
    init()
    return _C.current_device()


def set_device(device) -> None:
    """Makes a device (number, string or torch.device) current; negative numbers do nothing."""
    if isinstance(device, int) and device < 0:
        return
    _C.set_device(_index(device, optional=False))


class device:
    """Context manager that makes a device current: `with torch.ocl.device(1): ...`."""

    def __init__(self, device):
        self._leave_alone = device is None or (isinstance(device, int) and device < 0)
        self.idx = -1 if self._leave_alone else _index(device)
        self.prev_idx = -1

    def __enter__(self):
        if not self._leave_alone:
            self.prev_idx = _C.current_device()
            _C.set_device(self.idx)
        return self

    def __exit__(self, *_):
        if not self._leave_alone:
            _C.set_device(self.prev_idx)
        return False


class device_of(device):
    """Context manager that makes the device of a tensor current; does nothing for other tensors."""

    def __init__(self, obj):
        super().__init__(obj.get_device() if obj.device.type == "ocl" else None)


def get_device_properties(device=None):
    """The device's properties: name, vendor, memory sizes in bytes, has_fp64, kernel_family, ..."""
    return _C.properties(_index(device))


def get_device_name(device=None) -> str:
    return get_device_properties(device).name


def get_device_capability(device=None) -> tuple[int, int]:
    """OpenCL version of the device as (major, minor)."""
    properties = get_device_properties(device)
    return properties.version_major, properties.version_minor


def synchronize(device=None) -> None:
    """Waits for all streams of the device, and raises errors that kernels reported."""
    _C.synchronize(_index(device))


def can_device_access_peer(device, peer_device) -> bool:
    """Whether kernels on one device may read the other's memory: in OpenCL, only its own.

    Copies between any two devices work nevertheless, through the host.
    """
    return _index(device, optional=False) == _index(peer_device, optional=False)


def is_tf32_supported() -> bool:
    """Whether float32 products may be computed in 19 bits: never."""
    return False


def ipc_collect() -> None:
    """Does nothing: OpenCL shares no memory between processes."""


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether bfloat16 tensors work: always, stored in 16 bits and computed in float32.

    With including_emulation=False, whether the arithmetic is native: OpenCL has none.
    """
    return including_emulation
