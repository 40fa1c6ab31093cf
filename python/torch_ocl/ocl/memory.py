"""Memory of the caching allocator: statistics and limits. All sizes are bytes."""

import torch

from torch_ocl import _C

from .devices import _index


def _accelerator_device(device) -> torch.device:
    return torch.device("ocl", _index(device))


def memory_stats(device=None) -> dict[str, int]:
    """Statistics with the keys of torch.cuda.memory_stats, "allocated_bytes.all.current" say."""
    return torch.accelerator.memory.memory_stats(_accelerator_device(device))


def memory_stats_as_nested_dict(device=None) -> dict:
    """memory_stats() as dictionaries in dictionaries: ["allocated_bytes"]["all"]["current"]."""
    nested: dict = {}
    for key, value in memory_stats(device).items():
        *path, last = key.split(".")
        place = nested
        for name in path:
            place = place.setdefault(name, {})
        place[last] = value
    return nested


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


def mem_get_info(device=None) -> tuple[int, int]:
    """(free, total) bytes. Free means not reserved by this process: OpenCL tells no more."""
    return _C.memory_info(_index(device))


def empty_cache() -> None:
    """Gives cached memory that no tensor uses back to the driver, on all devices."""
    _C.empty_cache()


def set_per_process_memory_fraction(fraction: float, device=None) -> None:
    """Limits what this process reserves to a fraction, in (0, 1], of the device's memory.

    Raises ValueError for a fraction outside of that; beyond the limit, allocations raise
    torch.OutOfMemoryError.
    """
    _C.set_memory_fraction(fraction, _index(device))


def memory_summary(device=None) -> str:
    """A table of the statistics, for people."""
    stats = memory_stats(device)
    rows = [
        ("allocated", "allocated_bytes"),
        ("active", "active_bytes"),
        ("requested", "requested_bytes"),
        ("reserved", "reserved_bytes"),
        ("inactive split", "inactive_split_bytes"),
    ]
    lines = [f"{'MiB on ocl:' + str(_index(device)):<20}{'now':>12}{'peak':>12}{'total':>14}"]
    for title, key in rows:
        values = (stats.get(f"{key}.all.{kind}", 0) / 2**20 for kind in _KINDS)
        now, peak, total = values
        lines.append(f"{title:<20}{now:>12.2f}{peak:>12.2f}{total:>14.2f}")
    counts = (stats.get("num_device_alloc", 0), stats.get("num_alloc_retries", 0))
    lines.append(f"buffers created: {counts[0]}, retries: {counts[1]}")
    lines.append(f"out of memory: {stats.get('num_ooms', 0)}")
    return "\n".join(lines)


_KINDS = ("current", "peak", "allocated")
