"""Pools of memory: memory that was allocated in a pool is reused only there."""

import contextlib
import weakref

from torch_ocl import _C

from .devices import _index, current_device
from .memory_history import memory_snapshot


class MemPool:
    """A pool of the caching allocator, for torch.ocl.use_mem_pool(); as torch.cuda.MemPool.

    While the object lives, its unused memory is kept; later torch.ocl.empty_cache() frees it.

    Args:
        allocator: None; OpenCL's memory comes from the driver.
        use_on_oom, no_split: False; the allocator has neither.
    """

    def __init__(self, allocator=None, use_on_oom: bool = False, no_split: bool = False):
        if allocator is not None or use_on_oom or no_split:
            raise NotImplementedError(
                "torch.ocl.MemPool takes no allocator, use_on_oom or no_split"
            )
        self._number = _C.new_pool()
        self._device = current_device()
        _C.add_pool_user(self._number, self._device)
        weakref.finalize(self, _C.remove_pool_user, self._number, self._device).atexit = False

    @property
    def id(self) -> tuple[int, int]:
        """The name of the pool in memory_snapshot(), and for graphs that share it."""
        return (0, self._number)

    def snapshot(self, include_traces: bool = True) -> list[dict]:
        """The pool's segments, in the form of memory_snapshot()."""
        return memory_snapshot(self.id, include_traces)


@contextlib.contextmanager
def use_mem_pool(pool: MemPool, device=None):
    """Makes this thread allocate from the pool, on the device (the current one by default)."""
    index = _index(device)
    _C.add_pool_user(pool.id[1], index)
    former = _C.exchange_thread_pool(pool.id[1], index)
    try:
        yield
    finally:
        _C.exchange_thread_pool(former, index)
        _C.remove_pool_user(pool.id[1], index)
