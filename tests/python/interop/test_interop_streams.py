"""Queues that torch shares with other OpenCL code, here pyopencl's, while commands wait in them."""

import contextlib
import faulthandler
import threading
import time

import pytest
import torch
from support import needs_lazy_clones, on_the_stern_device

cl = pytest.importorskip("pyopencl", reason="pyopencl is not installed (make build installs it)")

if on_the_stern_device():
    cl.get_platforms()  # pyopencl's loader loads layers at the first call without an object


@contextlib.contextmanager
def held(queue):
    """The queue's later commands wait; after the body they run."""
    gate = cl.UserEvent(queue.context)
    cl.enqueue_barrier(queue, wait_for=[gate])
    queue.flush()
    release = threading.Timer(30, gate.set_status, [cl.command_execution_status.COMPLETE])
    release.start()
    try:
        yield gate
    finally:
        release.cancel()
        if gate.command_execution_status != cl.command_execution_status.COMPLETE:
            gate.set_status(cl.command_execution_status.COMPLETE)
        queue.finish()


def test_a_stream_knows_the_commands_of_others(device):
    context = cl.Context.from_int_ptr(torch.ocl.context(device))
    outer = torch.ocl.Stream()
    queues = [
        (torch.ocl.ExternalStream(queue := cl.CommandQueue(context)), queue),
        (outer, cl.CommandQueue.from_int_ptr(torch.ocl.queue(outer))),
    ]
    for stream, queue in queues:
        stream.synchronize()
        assert any(stream.query() for _ in range(1000))  # a driver may take a moment to know
        with held(queue):
            assert not stream.query()
        assert any(stream.query() for _ in range(1000))


def test_pinned_memory_does_not_wait_for_a_stream(device):
    queue = cl.CommandQueue.from_int_ptr(torch.ocl.queue(torch.ocl.default_stream(device)))
    with held(queue) as gate:
        memory = torch.empty(12_345_678, dtype=torch.uint8, pin_memory=True)
        assert gate.command_execution_status != cl.command_execution_status.COMPLETE
    assert memory.fill_(3).is_pinned()


@needs_lazy_clones
def test_the_last_owner_of_shared_memory_waits_for_copies_of_it(device):
    """A lazy clone on another stream has not read the memory yet."""
    side = torch.ocl.Stream()
    original = torch.ones(1000, device=device)
    clone = torch._lazy_clone(original)
    torch.ocl.synchronize()
    with held(cl.CommandQueue.from_int_ptr(torch.ocl.queue(side))):
        with torch.ocl.stream(side):
            clone.add_(1)
        original.add_(5)
    torch.ocl.synchronize()
    assert clone.eq(2).all() and original.eq(6).all()


@pytest.fixture
def no_hang():
    """Ends the process, also where a wait keeps Python's lock."""
    faulthandler.dump_traceback_later(120, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


def release_from_a_thread(gate, work):
    """`work` waits for the device, which waits for a thread that needs Python's lock."""
    began = threading.Event()

    def release():
        began.wait()
        for _ in range(1000):
            time.sleep(0)
        gate.set_status(cl.command_execution_status.COMPLETE)

    thread = threading.Thread(target=release)
    thread.start()
    began.set()
    work()
    opened = gate.command_execution_status == cl.command_execution_status.COMPLETE
    thread.join()
    assert opened


@pytest.mark.parametrize("way", ["wait_event", "wait_stream"])
def test_a_wait_across_devices_does_not_keep_pythons_lock(two_devices, way, no_hang):
    first, second = (torch.ocl.default_stream(each) for each in two_devices)
    for stream in (first, second):
        stream.synchronize()
    with held(cl.CommandQueue.from_int_ptr(torch.ocl.queue(first))) as gate:
        event = first.record_event()
        wait = {
            "wait_event": lambda: second.wait_event(event),
            "wait_stream": lambda: second.wait_stream(first),
        }[way]
        release_from_a_thread(gate, wait)


def test_a_graph_that_ends_does_not_keep_pythons_lock(device, no_hang):
    """It waits for its last replay, which reads pinned memory."""
    host, x = torch.zeros(16).pin_memory(), torch.ones(16, device=device)
    graph = torch.ocl.Graph()
    with torch.ocl.graph(graph):
        x.copy_(host, non_blocking=True)
    graph.replay()
    torch.ocl.synchronize()
    graphs = [graph]
    del graph
    with held(cl.CommandQueue.from_int_ptr(torch.ocl.queue())) as gate:
        graphs[0].replay()
        release_from_a_thread(gate, graphs.clear)


def test_tensors_are_freed_while_empty_cache_waits(device, no_hang):
    """It waits without the allocator's lock, also for memory that was freed meanwhile."""
    sides = [torch.ocl.Stream(), torch.ocl.Stream()]
    tensors = [torch.ones(1000, device=device) for _ in sides]
    other = torch.ones(1000, device=device)
    torch.ocl.synchronize()
    first, second = (cl.CommandQueue.from_int_ptr(torch.ocl.queue(side)) for side in sides)
    with held(first) as gate, held(second):
        for side, tensor in zip(sides, tensors, strict=True):
            tensor.record_stream(side)
        del tensor, tensors[0]
        thread = threading.Thread(target=torch.ocl.empty_cache)
        thread.start()
        thread.join(0.2)  # it waits for the first stream now
        tensors.clear()
        gate.set_status(cl.command_execution_status.COMPLETE)
        thread.join(0.2)  # it may wait for the second one
        del other
    thread.join()
