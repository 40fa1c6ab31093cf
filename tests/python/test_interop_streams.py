"""Queues that torch shares with other OpenCL code, here pyopencl's, while commands wait in them."""

import contextlib
import threading

import pytest
import torch
from support import on_the_stern_device

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
