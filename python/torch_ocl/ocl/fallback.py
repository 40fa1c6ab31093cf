"""Counts of operators that ran on the CPU because they have no kernel."""

from torch_ocl import _C


def fallback_stats() -> dict[str, int]:
    """Calls that ran on the CPU since the last reset, as {"aten::foo": count}."""
    return _C.fallback_stats()


def reset_fallback_stats() -> None:
    """Resets fallback_stats() to zero."""
    _C.reset_fallback_stats()
