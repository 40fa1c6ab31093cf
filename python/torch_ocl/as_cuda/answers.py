"""Functions of torch.cuda that torch.ocl lacks, or has with another meaning."""

import functools
import warnings

import torch

from . import visible
from .words import asked_by_program

# The lowest compute capability with bfloat16, which ocl has. From 8.9 on, programs choose float8
# products, and from 9.0 on, kernels that are written for one model of GPU.
CAPABILITY = (8, 0)


@functools.cache
def _warn_of_nothing() -> None:
    if not visible.hides_all():
        try:
            torch.ocl.init()
        except Exception as error:
            warnings.warn(f"OCL_AS_CUDA=1, but there is no device: {error}", stacklevel=4)


def is_available() -> bool:
    """For programs: whether there is an OpenCL device; warns if there is none.

    PyTorch's own code asks for CUDA itself, so that Inductor does not choose Triton.
    """
    if not asked_by_program():
        return False
    visible.apply()
    found = torch.ocl.is_available()
    if not found:
        _warn_of_nothing()
    return found


def device_count() -> int:
    """The number of OpenCL devices that CUDA_VISIBLE_DEVICES shows."""
    visible.apply()
    return torch.ocl.device_count()


def get_device_capability(device=None) -> tuple[int, int]:
    """(8, 0), for each device."""
    torch.ocl.get_device_properties(device)  # raises where there is no such device
    return CAPABILITY


def get_arch_list() -> list[str]:
    """Empty: no kernel was compiled for a GPU of CUDA."""
    return []


def get_gencode_flags() -> str:
    """Empty: no kernel was compiled for a GPU of CUDA."""
    return ""


class DeviceProperties:
    """The properties of an ocl device, with the names of CUDA's."""

    def __init__(self, properties):
        self._properties = properties
        self.major, self.minor = CAPABILITY
        self.gcnArchName = ""
        self.is_integrated = int(properties.host_unified_memory)
        self.is_multi_gpu_board = 0
        self.max_threads_per_block = properties.max_work_group_size
        self.max_threads_per_multi_processor = properties.max_work_group_size
        self.shared_memory_per_block = properties.local_memory
        self.shared_memory_per_block_optin = properties.local_memory
        self.shared_memory_per_multiprocessor = properties.local_memory
        self.warp_size = 32

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return getattr(self._properties, name)
        except AttributeError:
            raise AttributeError(
                f'get_device_properties().{name}: here "cuda" means ocl, whose devices do not tell '
                "it; see torch.ocl.get_device_properties()"
            ) from None

    def __repr__(self):
        return repr(self._properties)


def get_device_properties(device=None) -> DeviceProperties:
    """The same attributes as torch.ocl's, with CUDA's names."""
    return DeviceProperties(torch.ocl.get_device_properties(device))


class graph(torch.ocl.graph):
    """torch.ocl.graph, with the name of CUDA's argument."""

    def __init__(self, cuda_graph, pool=None, stream=None, capture_error_mode: str = "global"):
        super().__init__(cuda_graph, pool, stream, capture_error_mode)
        self.cuda_graph = cuda_graph


def caching_allocator_enable(value: bool = True) -> None:
    """Does nothing; False is an error: OCL_MEMORY_CACHING=0 turns the allocator off."""
    if not value:
        raise NotImplementedError(
            'torch.cuda.memory.caching_allocator_enable(False): here "cuda" means ocl, whose '
            "allocator is turned off by OCL_MEMORY_CACHING=0 before Python starts"
        )


def caching_allocator_disabled():
    """Raises the same error as caching_allocator_enable(False)."""
    caching_allocator_enable(False)


def amp_definitely_not_available() -> bool:
    """False."""
    return False


# NVTX marks ranges for NVIDIA's profilers, which cannot profile ocl.
_depth = 0


def range_push(msg, *args, **kwargs) -> int:
    """Returns the depth of the range that begins; marks nothing."""
    global _depth
    _depth += 1
    return _depth - 1


def range_pop() -> int:
    """Returns the depth of the range that ends."""
    global _depth
    _depth = max(0, _depth - 1)
    return _depth


def range_start(msg, *args, **kwargs) -> int:
    """0: does nothing."""
    return 0


def range_end(range_id) -> None:
    """Does nothing."""


def mark(msg, *args, **kwargs) -> None:
    """Does nothing."""


# torch.cuda.profiler tells NVIDIA's profilers what to record.
def start() -> None:
    """Does nothing."""


def stop() -> None:
    """Does nothing."""


def _lazy_init() -> None:
    """Does nothing: the first use lists the devices. PyTorch calls it for tensors on "cuda"."""
    visible.apply()


def _lazy_call(callable, **kwargs) -> None:
    """Calls the function at once: there is no CUDA whose start it could wait for."""
    callable()


def _is_in_bad_fork() -> bool:
    return torch.ocl._is_in_bad_fork()


def _get_device_index(device, optional: bool = False, allow_cpu: bool = False) -> int:
    """The device's number; -1 for the CPU with allow_cpu."""
    if isinstance(device, torch.ocl.device):
        return device.idx
    if isinstance(device, int):
        return device
    if device is None and not optional:
        raise ValueError("a device is needed, as in 'cuda:0' or 0")
    if device is not None and allow_cpu and torch.device(device).type == "cpu":
        return -1
    return torch.ocl.devices._index(device)


def _get_generator(device) -> torch.Generator:
    return torch.ocl.default_generators[_get_device_index(device, optional=True)]


def _exchange_device(device: int) -> int:
    """Makes the device current, and returns the one before; -1 does nothing."""
    if device < 0:
        return -1
    before = torch.ocl.current_device()
    torch.ocl.set_device(device)
    return before


def _maybe_exchange_device(device: int) -> int:
    """The same as _exchange_device(); Dynamo needs two different functions."""
    return _exchange_device(device)


def _set_allocator_settings(env: str) -> None:
    """Does nothing: the settings are those of CUDA's allocator."""
