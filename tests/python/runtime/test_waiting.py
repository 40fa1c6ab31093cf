"""Python's lock while the device or a compiler is waited for.

Each wait here ends by what another Python thread does, so a call that kept the lock would never
return: the processes are stopped then.
"""

import textwrap

import pytest
import torch
from support import output_of, skip_on_the_stern_device

pytest.importorskip("pyopencl", reason="pyopencl is not installed (make build installs it)")

# The queue waits until a thread of Python opens the gate.
GATE = """
    import sys, threading
    import numpy as np
    import pyopencl as cl
    import torch

    def closed_gate():
        context = cl.Context.from_int_ptr(torch.ocl.context())
        queue = cl.CommandQueue.from_int_ptr(torch.ocl.queue())
        gate = cl.UserEvent(context)
        cl.enqueue_barrier(queue, wait_for=[gate])
        return gate

    sys.setswitchinterval(1000)  # only waits release the lock

    def behind_gate(wait, prepare=lambda: None):
        gate = closed_gate()
        prepare()
        waiting = threading.Event()
        def opens():
            waiting.wait()
            gate.set_status(cl.command_execution_status.COMPLETE)
        thread = threading.Thread(target=opens)
        thread.start()
        waiting.set()
        wait()
        thread.join()

    x = torch.ones(1000, device="ocl")
    (x + 1).sum().item()
    other = torch.ocl.Stream()
"""

WAITS = {
    "synchronize": "behind_gate(torch.ocl.synchronize)",
    "stream.synchronize": "behind_gate(torch.ocl.current_stream().synchronize)",
    "event.synchronize": """
        event = torch.ocl.Event()
        def wait():
            event.record()
            event.synchronize()
        behind_gate(wait)
    """,
    "item": "behind_gate(x.sum().item)",
    "dlpack": "behind_gate(torch.ocl.to_dlpack(x, opencl=True).__dlpack__)",
    "host_view": "behind_gate(torch.ocl.host_view(x, writable=False).__enter__)",
    "empty_cache": """
        def prepare():
            with torch.ocl.stream(other):
                z = torch.ones(1000, device="ocl")
            z.record_stream(torch.ocl.current_stream())
        behind_gate(torch.ocl.empty_cache, prepare)
    """,
    "memory of the host": """
        memory = np.zeros(4096 + 4096, dtype=np.uint8)
        start = -memory.ctypes.data % 4096
        try:
            tensors = [torch.ocl.from_host(memory[start : start + 4096])]
        except ValueError:
            tensors = [None]  # the device has memory of its own
        behind_gate(tensors.clear)
        torch.ocl.synchronize()
    """,
    "graph": """
        graph = torch.ocl.Graph()
        with torch.ocl.graph(graph):
            y = x * 2
        def wait():
            graph.replay()
            graph.reset()
            torch.ocl.synchronize()
        behind_gate(wait)
    """,
}


def program(*parts):
    return "\n".join(textwrap.dedent(part) for part in (GATE, *parts))


@pytest.mark.parametrize("wait", WAITS)
def test_device_is_waited_for_without_the_lock(device, wait):
    unified = torch.ocl.get_device_properties(device).host_unified_memory
    if wait == "host_view" and not unified:
        pytest.skip("the device has memory of its own")
    assert output_of(program(WAITS[wait], "print('over')")) == "over"


def test_memory_is_asked_for_while_another_thread_empties_the_cache(device):
    """empty_cache() keeps the allocator's lock from nobody while it waits."""
    skip_on_the_stern_device("pyopencl calls PoCL without the layer, which does not see the gate")
    code = """
    gate = closed_gate()
    with torch.ocl.stream(other):
        z = torch.ones(1000, device="ocl")
    z.record_stream(torch.ocl.default_stream())
    del z  # not before the gate opens
    emptying = threading.Thread(target=torch.ocl.empty_cache)
    emptying.start()
    emptying.join(0.5)
    assert emptying.is_alive()
    torch.ocl.mem_get_info()
    torch.ocl.memory_stats()
    with torch.ocl.stream(other):
        y = torch.ones(1000, device="ocl")
        del y
    gate.set_status(cl.command_execution_status.COMPLETE)
    emptying.join()
    print("over")
    """
    assert output_of(program(code)) == "over"


# The header that the compiler reads is a pipe, which a thread of Python writes to.
COMPILER = """
    import os, sys, threading, time
    import torch

    torch.ones(3, device="ocl").sum().item()
    folder = {folder!r}
    pipe = os.path.join(folder, "value.h")
    os.mkfifo(pipe)
    done = threading.Event()

    def write():
        while not done.is_set():
            try:
                with open(pipe, "w") as file:  # waits for a reader
                    file.write("\\n#define VALUE 17\\n")
            except BrokenPipeError:
                pass  # it only looked
            time.sleep(0.05)  # so that the reader finds the end

    threading.Thread(target=write, daemon=True).start()
    source = '#include "value.h"\\n__kernel void put(__global int* x) {{ *x = VALUE; }}'
    library = torch.ocl.compile_kernel(source, "-I" + folder)
    done.set()
    x = torch.zeros(1, dtype=torch.int32, device="ocl")
    library.put(x, threads=1)
    print(x.item())
    sys.stdout.flush()
    os._exit(0)
"""


def test_compiler_is_waited_for_without_the_lock(device, tmp_path):
    assert output_of(COMPILER.format(folder=str(tmp_path))) == "17"
