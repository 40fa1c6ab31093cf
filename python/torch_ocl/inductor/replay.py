"""mode="reduce-overhead": programs of Inductor as graphs (docs/graphs.md).

The second call with the same sizes is captured; later calls replay it. Inputs whose address has not
changed are read in place; others are copied to the graph's own memory. Results are in the graph's
memory: while the results of an earlier call are in use, a second graph is used. While the results
of both graphs are in use, a call runs without a graph.

Threads replay one after the other. A replay waits for the stream of the last one, which may still
use the memory.
"""

import logging
import sys
import threading

import torch

from torch_ocl import ocl

log = logging.getLogger("torch._inductor.ocl")

_MOST_SIZES = 8  # per program with dynamic shapes
_MOST_GRAPHS = 2  # per set of sizes
_MOST_CAPTURES = 6  # per set of sizes, if addresses of inputs change


def replayed_attribute(call, changed):
    """A module's `__getattr__`, whose attribute `call` is a new Replayed each time.

    The memory of the graphs is freed with the compiled function that got the attribute.
    """

    def get(name):
        if name == "call":
            return Replayed(call, changed)
        raise AttributeError(f"a compiled program has no attribute {name!r}")

    return get


class Replayed:
    """Replaces a program's function `call`.

    Args:
        call: takes a list of tensors and sizes, which it may clear, and returns a tuple.
        changed: the positions of the inputs that it writes.
    """

    def __init__(self, call, changed: tuple[int, ...]):
        self._call, self._changed = call, changed
        self._programs: dict[tuple, _Program] = {}

    def __call__(self, args):
        sizes = tuple(arg for arg in args if not isinstance(arg, torch.Tensor))
        program = self._programs.get(sizes)
        if program is None:
            if len(self._programs) == _MOST_SIZES:
                return self._call(args)
            program = self._programs.setdefault(sizes, _Program(self._call, self._changed))
        return program.run(args)


class _Program:
    """A compiled program for one set of sizes."""

    def __init__(self, call, changed):
        self._call, self._changed = call, changed
        self._addresses = None  # addresses of the inputs; None if they change, and for sizes
        self._graphs: list[_Recorded] = []
        self._captures = 0
        self._obstacle = None
        # Held until a replay's results exist: from the results, other threads see that the graph is
        # in use.
        self._lock = threading.Lock()

    def run(self, args):
        if not ocl.is_current_stream_capturing():
            with self._lock:
                graph = None if self._obstacle else self._graph_for(args)
                if graph:
                    return graph.replay(args)
        return self._call(args)

    def _graph_for(self, args):
        """A graph whose memory is free, or None."""
        now = [arg.data_ptr() if isinstance(arg, torch.Tensor) else None for arg in args]
        if self._addresses is None:
            self._addresses = now
            self._obstacle = _obstacle_of(args)
            return None
        if any(a is not None and a != b for a, b in zip(self._addresses, now)):
            self._addresses = [a if a == b else None for a, b in zip(self._addresses, now)]
            self._graphs.clear()
        self._graphs = [graph for graph in self._graphs if graph.is_intact()]
        graph = next((graph for graph in self._graphs if not graph.in_use()), None)
        if graph is None and len(self._graphs) < _MOST_GRAPHS:
            graph = self._capture(args)
        return graph

    def _capture(self, args):
        tensors = [place for place, arg in enumerate(args) if isinstance(arg, torch.Tensor)]
        moving = [place for place in tensors if self._addresses[place] is None]
        self._captures += 1
        if self._captures > _MOST_CAPTURES:
            self._obstacle = "inputs whose addresses change"
        elif any(place in self._changed for place in moving):
            self._obstacle = "changes of an input whose address changes"
        elif any(_overlaps(args[place]) for place in moving):
            self._obstacle = "an input with elements at the same address"
        else:
            try:
                graph = _Recorded(self._call, args, moving)
                graph.settle()
                self._graphs.append(graph)
                return graph
            except (RuntimeError, NotImplementedError) as error:
                self._obstacle = str(error)
        log.info("a program runs without a graph, because of %s", self._obstacle)
        self._graphs.clear()
        return None


class _Recorded:
    """A graph, its copies of inputs that move, and its results."""

    def __init__(self, call, args, moving):
        given = list(args)
        for place in moving:
            arg = args[place]
            given[place] = torch.empty_strided(
                arg.size(), arg.stride(), dtype=arg.dtype, device=arg.device
            )
        self._copies = [(place, given[place]) for place in moving]
        self._graph = ocl.Graph()
        self._device = next(arg.device for arg in args if isinstance(arg, torch.Tensor))
        # The copies belong to the stream of the capture.
        self._home = self._last = ocl.current_stream(self._device)
        with ocl.device(self._device), ocl.graph(self._graph):
            results = call(list(given))
        places = {id(value): place for place, value in enumerate(given)}
        # Either the position among the inputs, or the result.
        self._results = [
            (places.get(id(result)), None if id(result) in places else result) for result in results
        ]
        own = [result for _, result in self._results if isinstance(result, torch.Tensor)]
        tensors = [value for value in given if isinstance(value, torch.Tensor)]
        memory = {tensor.untyped_storage()._cdata for tensor in tensors}
        self._storages = [tensor.untyped_storage() for tensor in own]
        if any(storage._cdata in memory for storage in self._storages):
            raise NotImplementedError("a result that is a view of an input")

    def settle(self):
        """Records the reference counts of the results' memory while only this object holds it."""
        self._places, self._unused = self._memory(), self._references()

    def _memory(self):
        return [(storage.data_ptr(), storage.nbytes()) for storage in self._storages]

    def _references(self):
        """The references to each storage, from tensors and from the storage's Python object."""
        return [
            (torch._C._storage_Use_Count(storage._cdata), sys.getrefcount(storage))
            for storage in self._storages
        ]

    def is_intact(self):
        """Whether no user has resized a result, which moves it out of the graph's memory."""
        return self._memory() == self._places

    def in_use(self):
        return any(
            tensors > unused_tensors or objects > unused_objects
            for (tensors, objects), (unused_tensors, unused_objects) in zip(
                self._references(), self._unused
            )
        )

    def replay(self, args):
        self._follow(ocl.current_stream(self._device))
        for place, copy in self._copies:
            copy.copy_(args[place])
        self._graph.replay()
        results = tuple(self._result(args, *result) for result in self._results)
        args.clear()
        return results

    def _follow(self, stream):
        """Makes `stream` wait for the last replay and for users of its results on that stream."""
        if stream == self._last:
            return
        stream.wait_stream(self._last)
        self._last = stream
        if stream != self._home:
            for _, copy in self._copies:
                copy.record_stream(stream)

    def _result(self, args, place, result):
        if place is not None:
            return args[place]
        return result.detach() if isinstance(result, torch.Tensor) else result


def _overlaps(tensor):
    return any(stride == 0 and size > 1 for size, stride in zip(tensor.size(), tensor.stride()))


def _obstacle_of(args):
    tensors = [arg for arg in args if isinstance(arg, torch.Tensor)]
    if not tensors:
        return "a program without tensors"
    if len({tensor.device for tensor in tensors}) > 1 or tensors[0].device.type != "ocl":
        return "tensors on several devices"
    return None
