"""Records the use of device memory, with stacks of the allocations, for PyTorch's memory viewer.

`torch.ocl.memory` has the same names with an underscore as `torch.cuda.memory`.
"""

import pathlib
import pickle
import sys
from collections import OrderedDict

from torch.utils.hooks import RemovableHandle

from torch_ocl import _C


def record_memory_history(
    enabled: str | None = "all",
    context: str | None = "all",
    stacks: str = "all",
    max_entries: int = sys.maxsize,
    device=None,
    clear_history: bool = False,
    skip_actions: list[str] | None = None,
) -> None:
    """Records stacks of allocations on all devices; None ends the recording and deletes them.

    enabled: "state" keeps the stacks of memory in use, "all" also each event of the allocator.
    context: the stacks to record: "state" for memory in use, "alloc" also for allocations in the
        history, "all" also for releases; None for none.
    stacks: "python", or "all" with C++ functions, which takes longer.
    max_entries: the events kept per device; the oldest are forgotten.
    device: ignored, as in torch.cuda.memory.
    clear_history: forget earlier events.
    skip_actions: actions ("free_completed", say) that are not recorded.

    Raises ValueError for other values.

        torch.ocl.record_memory_history(stacks="python", max_entries=100_000)
        model(x).sum().backward()
        torch.ocl.dump_memory_snapshot("memory.pickle")  # for https://pytorch.org/memory_viz
        torch.ocl.record_memory_history(None)
    """
    _check("enabled", enabled, (None, "state", "all"))
    _check("context", context, (None, "state", "alloc", "all"))
    _check("stacks", stacks, ("python", "all"))
    if enabled is None:
        _C.stop_memory_history()
        return
    _C.start_memory_history(
        stacks=getattr(_C.KeepStacks, context or "never"),
        cpp=stacks == "all",
        max_events=1 if enabled == "state" else max_entries,
        forget=clear_history,
        skipped=skip_actions or [],
    )


def _check(name, value, known) -> None:
    if value not in known:
        raise ValueError(f"{name} must be one of {known}, not {value!r}")


def memory_snapshot(mempool_id=None, include_traces: bool = True) -> list[dict]:
    """The allocator's segments (buffers) and their blocks, as torch.cuda.memory_snapshot().

    mempool_id: only segments of this pool: a MemPool's id, a graph's pool(), or (0, 0).
    include_traces: ignored, because only segments are returned.
    """
    segments = _C.memory_snapshot()["segments"]
    return [s for s in segments if mempool_id in (None, s["segment_pool_id"])]


def _snapshot(device=None) -> dict:
    """memory_snapshot(), and the history: as torch.cuda.memory._snapshot()."""
    return _C.memory_snapshot()


def dump_memory_snapshot(filename="dump_snapshot.pickle") -> None:
    """Writes snapshot and history to a file that https://pytorch.org/memory_viz shows."""
    with pathlib.Path(filename).open("wb") as file:
        pickle.dump(_snapshot(), file)


_observers: OrderedDict = OrderedDict()


def attach_out_of_memory_observer(observer) -> RemovableHandle:
    """Calls observer(device, requested, total, free) before each torch.OutOfMemoryError.

    device: its index; requested: bytes asked for; total: bytes that the process may use; free: of
    these, bytes that it has not reserved. An observer's exception is printed, and the
    OutOfMemoryError is raised anyway. `remove()` of the result ends it.

        torch.ocl.attach_out_of_memory_observer(
            lambda *sizes: torch.ocl.dump_memory_snapshot("out_of_memory.pickle"))
    """
    if not callable(observer):
        raise TypeError(f"an observer must be callable, not {type(observer).__name__}")
    handle = RemovableHandle(_observers)
    _observers[handle.id] = observer
    _C.set_out_of_memory_observer(_notify)
    return handle


def _notify(*sizes) -> None:
    for observer in list(_observers.values()):
        try:
            observer(*sizes)
        except Exception:
            sys.excepthook(*sys.exc_info())
