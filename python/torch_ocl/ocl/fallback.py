"""Which operators ran on the CPU for want of a kernel."""

from torch_ocl import _C


def fallback_stats() -> dict[str, int]:
    """Calls that ran on the CPU since the last reset, as {"aten::foo": count}."""
    return _C.fallback_stats()


def reset_fallback_stats() -> None:
    """Starts fallback_stats() anew."""
    _C.reset_fallback_stats()
