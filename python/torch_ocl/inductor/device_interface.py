"""Dynamo's and Inductor's interface to ocl devices."""

from types import SimpleNamespace

import torch
from torch._dynamo import device_interface
from torch._dynamo.device_interface import DeviceInterface

from torch_ocl import _C, ocl

# The main process fills it; forked compile workers, which must not use OpenCL, read it.
_properties = device_interface.caching_worker_device_properties
_current = device_interface.caching_worker_current_devices


def _index(device) -> int:
    if isinstance(device, int):
        return device
    device = torch.device("ocl" if device is None else device)
    return OclInterface.Worker.current_device() if device.index is None else device.index


def has_cpu_kernels(device: torch.device) -> bool:
    return ocl.get_device_properties(device.index or 0).kernel_family == "cpu"


def has_fp64(device: torch.device) -> bool:
    return ocl.get_device_properties(device.index or 0).has_fp64


def most_argument_bytes(device: torch.device) -> int:
    """The bytes that a kernel's arguments may have."""
    return ocl.get_device_properties(device.index or 0).max_parameter_size


def _exchange_device(index: int) -> int:
    previous = _C.current_device()
    if index >= 0:
        ocl.set_device(index)
    return previous


class OclInterface(DeviceInterface):
    device = ocl.device
    Event = ocl.Event
    Stream = ocl.Stream

    class Worker:
        @staticmethod
        def set_device(device: int) -> None:
            _current["ocl"] = device

        @staticmethod
        def current_device() -> int:
            return _current["ocl"] if "ocl" in _current else _C.current_device()

        @staticmethod
        def get_device_properties(device=None):
            """A plain Python copy of the properties: compute units, largest work-group, name.

            None if `device` is None and the process has not used OpenCL: Inductor calls this before
            it forks, and then no driver may be started.
            """
            if "ocl" not in _properties:
                if device is None and not ocl.is_initialized():
                    return None
                _properties["ocl"] = [_plain(index) for index in range(ocl.device_count())]
            return _properties["ocl"][_index(device)]

    current_device = staticmethod(_C.current_device)  # starts no driver
    set_device = staticmethod(ocl.set_device)
    exchange_device = staticmethod(_exchange_device)
    maybe_exchange_device = staticmethod(_exchange_device)
    device_count = staticmethod(ocl.device_count)
    is_available = staticmethod(ocl.is_available)
    stream = staticmethod(ocl.stream)
    current_stream = staticmethod(ocl.current_stream)
    set_stream = staticmethod(ocl.set_stream)
    synchronize = staticmethod(ocl.synchronize)
    memory_allocated = staticmethod(ocl.memory_allocated)
    is_bf16_supported = staticmethod(ocl.is_bf16_supported)

    @staticmethod
    def _set_stream_by_id(stream_id: int, device_index: int, device_type: int) -> None:
        ocl.set_stream(torch.Stream(stream_id, device_index, device_type))

    @staticmethod
    def get_raw_stream(device_idx: int) -> int:
        return ocl.current_stream(device_idx).stream_id

    @staticmethod
    def get_compute_capability(device=None) -> str:
        """Part of the key of Inductor's caches."""
        properties = OclInterface.get_device_properties(device)
        return f"opencl-{properties.version}-{properties.family}-{properties.name}"

    @classmethod
    def get_device_properties(cls, device=None):
        index = _C.current_device() if device is None else _index(device)
        return cls.Worker.get_device_properties(index)

    @classmethod
    def is_dtype_supported(cls, dtype, including_emulation: bool = False) -> bool:
        return dtype not in (torch.float64, torch.complex128) or all(
            ocl.get_device_properties(index).has_fp64 for index in range(ocl.device_count())
        )


def _plain(index: int):
    properties = ocl.get_device_properties(index)
    return SimpleNamespace(
        name=properties.name,
        family=properties.kernel_family,  # for generated kernels
        version=f"{properties.version_major}.{properties.version_minor}",
        multi_processor_count=properties.max_compute_units,
        max_threads_per_block=properties.max_work_group_size,
        warp_size=1,
    )


def register() -> None:
    # Registers names with an index, too, as for Dynamo's own devices. Counting devices starts no
    # driver.
    for name in ["ocl", *(f"ocl:{index}" for index in range(ocl.device_count()))]:
        device_interface.register_interface_for_device(name, OclInterface)


get_raw_stream = OclInterface.get_raw_stream
