"""States in which a program may end, without daemon threads or a running profile: those abort with
PyTorch's CPU alone, too. Each runs in a child that is forked before OpenCL is used;
`python exit_states.py` prints a line of JSON for each: its name, exit status and output."""

import atexit
import builtins
import gc
import json
import os
import signal
import sys
import tempfile
import threading
import weakref

import torch

SECONDS = 300  # a child that takes longer counts as hung
STATES, OFTEN = {}, []


def state(function):
    STATES[function.__name__] = function
    return function


def often(function):
    """For a state that each run of the tests tries."""
    OFTEN.append(function.__name__)
    return state(function)


def keep(*things):
    """Alive until the interpreter has cleared its modules."""
    builtins.kept = [*getattr(builtins, "kept", []), *things]


def numbers(size=1000):
    return torch.arange(float(size), device="ocl")


def busy(x):
    for _ in range(50):
        x = (x * 0.5 + 1).sin()
    return x


@state
def one_command():
    keep(torch.ones(3, device="ocl"))


@often
def queue():
    keep(busy(numbers()))


@often
def several_streams():
    for priority in (0, -1, 0):
        with torch.ocl.stream(torch.ocl.Stream(priority=priority)):
            keep(busy(numbers()))


@state
def inside_a_stream():
    with torch.ocl.stream(torch.ocl.Stream()):
        busy(numbers())
        sys.exit()


@state
def events():
    for timing in (False, True):
        event = torch.ocl.Event(enable_timing=timing)
        busy(numbers())
        event.record()
        keep(event)


@often
def memory_of_two_streams():
    x, other = numbers(), torch.ocl.Stream()
    other.wait_stream(torch.ocl.current_stream())
    with torch.ocl.stream(other):
        busy(x)
    x.record_stream(other)


def captured():
    x, graph = numbers(), torch.ocl.Graph()
    with torch.ocl.graph(graph):
        y = busy(x)
    return graph, x, y


@state
def captured_graph():
    keep(captured())


@often
def replayed_graph():
    graph, x, y = captured()
    graph.replay()
    keep(graph, x, y)


@often
def during_a_capture():
    graph, x = torch.ocl.Graph(), numbers()
    with torch.ocl.graph(graph):
        x.add_(1)
        sys.exit()


@often
def capture_without_an_end():
    graph, stream = torch.ocl.Graph(), torch.ocl.Stream()
    torch.ocl.set_stream(stream)
    graph.capture_begin()
    keep(torch.ones(3, device="ocl") + 1, graph)


@state
def memory_history():
    torch.ocl.memory._record_memory_history()
    keep(busy(numbers()))


@often
def pinned_memory():
    pinned = torch.ones(100_000).pin_memory()
    x = pinned.to("ocl", non_blocking=True)
    keep(pinned, busy(x), torch.empty(100_000, pin_memory=True).copy_(x, non_blocking=True))


@state
def pinned_memory_that_is_free():
    for _ in range(5):
        busy(torch.ones(100_000).pin_memory().to("ocl", non_blocking=True))


@state
def memory_of_the_host():
    if torch.ocl.get_device_properties().host_unified_memory:
        x = torch.ocl.from_host(torch.ones(4096))
        keep(x.add_(1))


@state
def open_host_view():
    x = numbers()
    if torch.ocl.get_device_properties().host_unified_memory:
        view = torch.ocl.host_view(x)
        keep(view, view.__enter__())


@state
def capsule():
    keep(torch.ocl.to_dlpack(busy(numbers())), torch.utils.dlpack.to_dlpack(torch.ones(3)))


@state
def external_stream():
    with torch.ocl.stream(torch.ocl.ExternalStream(torch.ocl.queue())):
        keep(busy(numbers()))


@state
def kernel_of_the_user():
    source = "__kernel void f(__global float* x) { x[get_global_id(0)] += 1; }"
    kernels = torch.ocl.compile_kernel(source)
    x = numbers()
    kernels.f(x, threads=1000)
    keep(kernels, x)


@state
def forward_pass():
    net = torch.nn.Linear(100, 100).to("ocl")
    keep(net, net(numbers(100)).sum())


@state
def backward_pass():
    net = torch.nn.Linear(100, 100).to("ocl")
    net(numbers(100)).sum().backward()
    keep(net, torch.optim.Adam(net.parameters()).step())


@often
def unread_index_error():
    keep(numbers(3)[torch.tensor([7], device="ocl")])


@state
def no_memory():
    try:
        torch.empty(1 << 50, dtype=torch.uint8, device="ocl")
    except RuntimeError as error:
        keep(error)


@state
def cycle():
    cycle = [busy(numbers())]
    cycle.append(cycle)
    gc.disable()


@often
def destructor():
    class Last:
        def __init__(self):
            self.x = numbers()

        def __del__(self):
            busy(self.x).sum().item()

    keep(Last())


@state
def finalizer():
    x = numbers()
    weakref.finalize(threading, lambda: busy(x).sum().item())


@often
def exit_handler():
    x = numbers()
    atexit.register(lambda: busy(x).sum().item())


@often
def threads_that_end_later():
    busy(numbers()).sum().item()
    for _ in range(3):
        threading.Thread(target=lambda: keep(busy(numbers()))).start()


@state
def data_loader():
    batches = torch.utils.data.DataLoader(
        torch.arange(64.0), 4, num_workers=2, pin_memory=True, persistent_workers=True
    )
    batch = next(iterator := iter(batches))
    keep(iterator, busy(batch.to("ocl", non_blocking=True)))


@often
def child_of_a_fork():
    keep(busy(numbers(1 << 20)))  # the device still computes it at the fork
    if not (child := os.fork()):
        sys.exit()
    assert os.waitpid(child, 0)[1] == 0


@state
def child_that_raises():
    keep(busy(numbers(1 << 20)))
    if not (child := os.fork()):
        sys.excepthook = lambda *_: None
        raise RuntimeError
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1


@often
def group_of_processes():
    with tempfile.TemporaryDirectory() as folder:
        torch.distributed.init_process_group(
            "occl", init_method=f"file://{folder}/store", rank=0, world_size=1
        )
    x = busy(numbers())
    keep(x, torch.distributed.all_reduce(x, async_op=True))


def run(function):
    """In a child of its own: -> (exit status, what it printed)."""
    with tempfile.TemporaryFile() as output:
        if not (child := os.fork()):
            os.dup2(output.fileno(), 1), os.dup2(output.fileno(), 2)
            function()
            sys.exit()
        signal.signal(signal.SIGALRM, lambda *_: os.kill(child, signal.SIGKILL))
        signal.alarm(SECONDS)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        signal.alarm(0)
        output.seek(0)
        return status, output.read().decode(errors="replace")


if __name__ == "__main__":
    for name in sys.argv[1:] or STATES:
        result = run(STATES[name])
        print(json.dumps([name, *result]), flush=True)
