"""Graphs: work of a device that is captured once and replayed with one call (docs/graphs.md)."""

import gc
import pathlib
import typing

import torch

from torch_ocl import _C

from .memory import empty_cache
from .streams import Stream
from .streams import stream as stream_context

_MODES = ("default", "global", "thread_local", "relaxed")


def is_current_stream_capturing() -> bool:
    """Whether work on the current stream is being captured. Starts no OpenCL."""
    return _C.capturing()


def graph_pool_handle() -> tuple[int, int]:
    """A new memory pool, for the argument `pool` of graphs that should share it."""
    return (0, _C.new_pool())


class Graph:
    """Captured work, as torch.cuda.CUDAGraph.

    Args:
        keep_graph: capture_end() does not instantiate; the caller or the first replay() does.
    """

    def __init__(self, keep_graph: bool = False):
        self._graph = _C.Graph(keep_graph)

    def capture_begin(self, pool=None, capture_error_mode: str = "global") -> None:
        """Captures the current stream from now on; torch.ocl.graph() is more convenient.

        Args:
            pool: from graph_pool_handle() or another graph's pool(); by default a new one.
            capture_error_mode: ignored. CUDA's modes forbid calls that are unsafe during a capture;
                OpenCL has no such calls.
        """
        if capture_error_mode not in _MODES:
            raise ValueError(f"capture_error_mode must be one of {_MODES}")
        self._graph.capture_begin(0 if pool is None else max(pool))

    def capture_end(self) -> None:
        """Ends the capture. Raises RuntimeError when something in it could not be captured."""
        self._graph.capture_end()

    def instantiate(self) -> None:
        self._graph.instantiate()

    def replay(self) -> None:
        """Runs the captured work again, on the current stream."""
        self._graph.replay()

    def reset(self) -> None:
        """Forgets the captured work and leaves the pool. The graph can be captured again."""
        self._graph.reset()

    def pool(self) -> tuple[int, int]:
        """The memory pool, for graphs that should share it."""
        return (0, self._graph.pool())

    def enable_debug_mode(self) -> None:
        """Does nothing: debug_dump() always works."""

    def debug_dump(self, debug_path: str) -> None:
        """Writes a line for each command."""
        pathlib.Path(debug_path).write_text(self._graph.describe())

    def __len__(self) -> int:
        """The number of commands."""
        return len(self._graph)


class graph:
    """Context manager that captures the work inside of it.

        g = torch.ocl.Graph()
        with torch.ocl.graph(g):
            y = model(x)
        x.copy_(new)
        g.replay()  # y has the new result

    Args:
        ocl_graph: the Graph.
        pool: from graph_pool_handle() or another graph's pool(), to share memory.
        stream: the stream to capture; by default one that all captures share.
        capture_error_mode: see Graph.capture_begin().
    """

    default_capture_streams: typing.ClassVar[dict] = {}  # by device

    def __init__(self, ocl_graph, pool=None, stream=None, capture_error_mode: str = "global"):
        if stream is None:
            index = _C.current_device()
            stream = self.default_capture_streams.get(index)
            if stream is None:
                stream = self.default_capture_streams[index] = Stream(index)
        self.graph, self.pool, self.mode = ocl_graph, pool, capture_error_mode
        self.stream = stream_context(stream)

    def __enter__(self):
        _C.synchronize_quietly(_C.current_device())  # leaves the faults of other threads to them
        if torch.compiler.config.force_cudagraph_gc:
            gc.collect()
        empty_cache()
        self.stream.__enter__()
        try:
            self.graph.capture_begin(pool=self.pool, capture_error_mode=self.mode)
        except BaseException:
            self.stream.__exit__(None, None, None)
            raise

    def __exit__(self, kind, *rest):
        try:
            if kind is None:
                self.graph.capture_end()
            else:
                self.graph.reset()  # captures only a part of the work
        finally:
            self.stream.__exit__(kind, *rest)
