"""Finding the operations that make the host wait for the device."""

from torch_ocl import _C

_MODES = {"default": 0, "warn": 1, "error": 2}


def set_sync_debug_mode(debug_mode: int | str) -> None:
    """Sets the reaction, in all threads, to operations that wait for the device: item(), cpu(), ...

    debug_mode: "default" or 0: none; "warn" or 1: a warning; "error" or 2: RuntimeError.

    torch.ocl.synchronize() and Event.synchronize() are meant to wait, so they are not reported.
    Collectives of torch.distributed are not reported either.
    """
    mode = _MODES.get(debug_mode, debug_mode)
    if isinstance(mode, bool) or mode not in _MODES.values():
        raise RuntimeError(
            "invalid value of debug_mode, expected one of `default`, `warn`, `error`, "
            f"got {debug_mode!r}"
        )
    _C.set_sync_debug_mode(mode)


def get_sync_debug_mode() -> int:
    """0, 1 or 2: see set_sync_debug_mode()."""
    return _C.sync_debug_mode()
