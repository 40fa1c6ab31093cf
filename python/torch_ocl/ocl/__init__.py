"""torch.ocl: the functions of torch.cuda for OpenCL devices.

Every name that this module imports is one of torch.ocl's; modules are imported whole.
"""

# ruff: noqa: F401

import atexit
from inspect import ismodule as _is_module

from torch import AcceleratorError, OutOfMemoryError

from torch_ocl import _C
from torch_ocl._C import LocalMemory

from . import amp, driver_cache, files, multiprocessing, printing, storages, tensor_types
from .amp import (
    get_amp_supported_dtype,
    get_autocast_dtype,
    is_autocast_enabled,
    set_autocast_dtype,
    set_autocast_enabled,
)
from .compile_kernel import KernelLibrary, UserKernel, compile_kernel
from .devices import (
    can_device_access_peer,
    current_device,
    device,
    device_count,
    device_of,
    get_device_capability,
    get_device_name,
    get_device_properties,
    init,
    ipc_collect,
    is_available,
    is_bf16_supported,
    is_initialized,
    is_tf32_supported,
    set_device,
    synchronize,
)
from .dlpack import from_dlpack, to_dlpack
from .fallback import fallback_stats, reset_fallback_stats
from .graphed_callables import make_graphed_callables
from .graphs import Graph, graph, graph_pool_handle, is_current_stream_capturing
from .interop import (
    Buffer,
    ExternalStream,
    buffer,
    context,
    device_id,
    from_buffer,
    from_host,
    get_stream_from_external,
    host_view,
    queue,
    use_context,
)
from .memory import (
    empty_cache,
    get_allocator_backend,
    get_per_process_memory_fraction,
    host_memory_stats,
    host_memory_stats_as_nested_dict,
    max_memory_allocated,
    max_memory_cached,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_cached,
    memory_reserved,
    memory_stats,
    memory_stats_as_nested_dict,
    memory_summary,
    reset_accumulated_host_memory_stats,
    reset_accumulated_memory_stats,
    reset_max_memory_allocated,
    reset_max_memory_cached,
    reset_max_memory_reserved,
    reset_peak_host_memory_stats,
    reset_peak_memory_stats,
    set_per_process_memory_fraction,
)
from .memory_history import (
    attach_out_of_memory_observer,
    dump_memory_snapshot,
    memory_snapshot,
    record_memory_history,
)
from .pools import MemPool, use_mem_pool
from .random import (
    default_generators,
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from .streams import (
    Event,
    Stream,
    StreamContext,
    current_stream,
    default_stream,
    set_stream,
    stream,
)
from .sync_debug import get_sync_debug_mode, set_sync_debug_mode
from .tensor_types import *  # noqa: F403

__all__ = [
    "amp",
    *(name for name, value in globals().items() if name[0] != "_" and not _is_module(value)),
]


def _lazy_init() -> None:
    """Does nothing: the first use lists the devices. Without this function, torch.accelerator's
    synchronize() does not wait in PyTorch 2.11."""


def _is_in_bad_fork() -> bool:
    """Whether this process is a fork of one that used OpenCL; torch.manual_seed calls this."""
    return _C.is_in_bad_fork()


def __getattr__(name: str):
    # torch.utils.checkpoint reads this, and saves the generators' states only if it is true.
    if name == "_initialized":
        return is_initialized()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _at_start() -> None:
    driver_cache.keep_pocl_private()
    # A synchronisation stores programs; this stores those built after the last one.
    atexit.register(_C.store_programs)
    # Drivers may crash or hang if a process ends while commands run
    # (https://github.com/KhronosGroup/OpenCL-Docs/issues/1238).
    atexit.register(_C.drain_devices)
    if hasattr(_C, "keep_released"):  # PyTorch was built with torch.distributed
        atexit.register(_C.keep_released)
    atexit.register(_C.wait_for_backward_threads)
    printing.print_without_float64()
    tensor_types.take_as_default()
    multiprocessing.refuse_to_send()
    storages.swap_bytes_of_ocl_storages()
    files.fix_storages_of_files()
