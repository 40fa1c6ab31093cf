"""Memory of the caching allocator: statistics and limits. All sizes are bytes."""

import torch

from torch_ocl import _C

from .devices import _index
from .memory_history import _snapshot  # noqa: F401 (as torch.cuda.memory has them)
from .memory_history import dump_memory_snapshot as _dump_snapshot  # noqa: F401
from .memory_history import record_memory_history as _record_memory_history  # noqa: F401


def _accelerator_device(device) -> torch.device:
    return torch.device("ocl", _index(device))


def memory_stats(device=None) -> dict[str, int]:
    """Statistics with the keys of torch.cuda.memory_stats: "allocated_bytes.all.current", ..."""
    return torch.accelerator.memory.memory_stats(_accelerator_device(device))


def memory_stats_as_nested_dict(device=None) -> dict:
    """memory_stats() as dictionaries in dictionaries, `["allocated_bytes"]["all"]["current"]`."""
    nested: dict = {}
    for key, value in memory_stats(device).items():
        *path, last = key.split(".")
        place = nested
        for name in path:
            place = place.setdefault(name, {})
        place[last] = value
    return nested


def host_memory_stats() -> dict[str, int]:
    """Statistics of pinned host memory, with the keys of torch.cuda.host_memory_stats."""
    stats = host_memory_stats_as_nested_dict()
    flat = {key: value for key, value in stats.items() if not isinstance(value, dict)}
    for key, group in stats.items():
        if isinstance(group, dict):
            flat |= {f"{key}.{name}": value for name, value in group.items()}
    return dict(sorted(flat.items()))


def host_memory_stats_as_nested_dict() -> dict:
    """host_memory_stats() as dictionaries in a dictionary, `["active_bytes"]["current"]`."""
    return _C.host_memory_stats() if _C.is_initialized() else {}


def reset_peak_host_memory_stats() -> None:
    """Resets the peaks of host_memory_stats()."""
    _C.reset_host_memory_stats(True)


def reset_accumulated_host_memory_stats() -> None:
    """Resets the sums "allocated" and "freed" of host_memory_stats()."""
    _C.reset_host_memory_stats(False)


def _stat(device, key) -> int:
    return memory_stats(device).get(key, 0)


def memory_allocated(device=None) -> int:
    """Bytes in use by tensors."""
    return _stat(device, "allocated_bytes.all.current")


def max_memory_allocated(device=None) -> int:
    """Highest memory_allocated() since reset_peak_memory_stats()."""
    return _stat(device, "allocated_bytes.all.peak")


def memory_reserved(device=None) -> int:
    """Bytes that the allocator holds, in use or cached."""
    return _stat(device, "reserved_bytes.all.current")


def max_memory_reserved(device=None) -> int:
    """Highest memory_reserved() since reset_peak_memory_stats()."""
    return _stat(device, "reserved_bytes.all.peak")


def reset_peak_memory_stats(device=None) -> None:
    torch.accelerator.memory.reset_peak_memory_stats(_accelerator_device(device))


def reset_accumulated_memory_stats(device=None) -> None:
    torch.accelerator.memory.reset_accumulated_memory_stats(_accelerator_device(device))


def reset_max_memory_allocated(device=None) -> None:
    """The older name of reset_peak_memory_stats()."""
    reset_peak_memory_stats(device)


def reset_max_memory_reserved(device=None) -> None:
    """The older name of reset_peak_memory_stats()."""
    reset_peak_memory_stats(device)


def memory_cached(device=None) -> int:
    """The older name of memory_reserved()."""
    return memory_reserved(device)


def max_memory_cached(device=None) -> int:
    """The older name of max_memory_reserved()."""
    return max_memory_reserved(device)


def reset_max_memory_cached(device=None) -> None:
    """The older name of reset_peak_memory_stats()."""
    reset_peak_memory_stats(device)


def get_allocator_backend() -> str:
    """The name of the allocator: always "native", the caching allocator."""
    return "native"


def mem_get_info(device=None) -> tuple[int, int]:
    """(free, total) bytes. Free means not reserved by this process: OpenCL reports no more."""
    return _C.memory_info(_index(device))


def empty_cache() -> None:
    """Releases cached memory that no tensor uses to the driver, on all devices."""
    _C.empty_cache()


def set_per_process_memory_fraction(fraction: float, device=None) -> None:
    """Limits this process to a fraction, from 0 to 1, of the device's memory.

    Raises ValueError for a fraction outside of that; beyond the limit, allocations raise
    torch.OutOfMemoryError.
    """
    _C.set_memory_fraction(fraction, _index(device))


def get_per_process_memory_fraction(device=None) -> float:
    """The fraction set by set_per_process_memory_fraction(); 1.0 by default."""
    return _C.memory_fraction(_index(device))


def memory_summary(device=None, abbreviated: bool = False) -> str:
    """A readable table of the statistics; abbreviated: without a row for each pool."""
    stats = memory_stats(device)
    title = f"memory of ocl:{_index(device)}"
    heads = [title, "now", "peak", "total", "freed"]
    lines = ["{:<26}{:>14}{:>14}{:>14}{:>14}".format(*heads)]
    pools = ["all"] if abbreviated else ["all", "large_pool", "small_pool"]
    for key, name, show in _SUMMARY:
        for pool in pools:
            values = [show(stats.get(f"{key}.{pool}.{kind}", 0)) for kind in _KINDS]
            row = name if pool == "all" else f"    {pool.replace('_', ' ')}"
            lines.append("{:<26}{:>14}{:>14}{:>14}{:>14}".format(row, *values))
    failures, retries = stats.get("num_ooms", 0), stats.get("num_alloc_retries", 0)
    lines.append(f"out of memory: {failures}, retries with an empty cache: {retries}")
    return "\n".join(lines)


def _mebibytes(size) -> str:
    return f"{size / 2**20:.2f} MiB"


_KINDS = ("current", "peak", "allocated", "freed")
_SUMMARY = [
    ("allocated_bytes", "allocated", _mebibytes),
    ("active_bytes", "active", _mebibytes),
    ("requested_bytes", "requested", _mebibytes),
    ("reserved_bytes", "reserved", _mebibytes),
    ("inactive_split_bytes", "cached next to used", _mebibytes),
    ("allocation", "allocations", str),
    ("active", "active allocations", str),
    ("segment", "buffers", str),
    ("inactive_split", "parts cached next to used", str),
]
