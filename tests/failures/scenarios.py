"""The scenarios of the campaign. A scenario calls `see` with each result as soon as a program has
it."""

import contextlib
import functools
import itertools
import os
import pathlib
import struct

import torch
import torch.nn.functional as F

SCENARIOS = {}
FIRST_USE = {}


def scenario(function):
    """A scenario for processes that have used the device before."""
    SCENARIOS[function.__name__] = function
    return function


def first_use(function):
    """A scenario that begins with the first use of OpenCL in its process."""
    FIRST_USE[function.__name__] = function
    return function


def numbers(*shape):
    count = torch.Size(shape).numel()
    return ((torch.arange(float(count)) * 7) % 11 - 5).reshape(shape)


@functools.cache
def stream_of(priority):
    return torch.ocl.Stream(priority=priority)


def streams():
    """The streams of all scenarios: each new one would be a queue that stays, also the first where
    the second cannot be made."""
    return stream_of(0), stream_of(-1)


@scenario
def tensors(see):
    x = numbers(4, 6).to("ocl")
    y = x * 2 + 1
    see(y.sum().item())
    see((x @ y.T).cpu())
    z = torch.zeros(4, 6, device="ocl")
    z.copy_(y)
    z[1:3].fill_(7)
    see(torch.cat([x, z]).cpu())
    see(x[torch.tensor([2, 0], device="ocl")].cpu())
    see(z.t().contiguous().softmax(1).tolist())
    pinned = numbers(5).pin_memory()
    there = pinned.to("ocl", non_blocking=True) + 1
    back = torch.empty(5, pin_memory=True)
    back.copy_(there, non_blocking=True)
    torch.ocl.current_stream().synchronize()
    see(back.clone())


@scenario
def training(see):
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3),
        torch.nn.ReLU(),
        torch.nn.Dropout(0.1),
        torch.nn.Flatten(),
        torch.nn.Linear(4 * 16, 5),
    ).to("ocl")
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    images, labels = numbers(3, 1, 6, 6).to("ocl"), torch.tensor([0, 4, 2]).to("ocl")
    for _ in range(2):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(images), labels)
        loss.backward()
        optimizer.step()
        see(loss.item())
    for parameter in net.parameters():
        see(parameter.detach().cpu())


@scenario
def events(see):
    one, other = streams()
    start, end = (torch.ocl.Event(enable_timing=True) for _ in range(2))
    with torch.ocl.stream(one):
        start.record()
        x = torch.full((1000,), 3.0, device="ocl") * 2
        end.record()
    other.wait_event(end)
    with torch.ocl.stream(other):
        y = x + 1
        x.record_stream(other)
    del x
    torch.ocl.current_stream().wait_stream(other)
    see(y.sum().item())
    end.synchronize()
    see(start.elapsed_time(end) > 0)
    see(end.query())
    torch.ocl.synchronize()
    see(other.query())


@scenario
def graphs(see):
    one, _ = streams()
    index = torch.tensor([1, 3], device="ocl")
    x = torch.ones(8, device="ocl")
    torch.manual_seed(3)
    graph = torch.ocl.Graph()
    with torch.ocl.graph(graph, stream=one):
        y = F.dropout(x * 2 - x.sum() / 16, 0.5)
        z = x.clone()
        z[index] = y[index]
    for value in (3.0, 5.0):
        x.fill_(value)
        graph.replay()
        see(y.cpu())
        see(z.cpu())
    graph.reset()


_versions = itertools.count()


@scenario
def kernels(see):
    """A new program in each call."""
    library = torch.ocl.compile_kernel(
        """
        typedef struct { float a; int b; } Pair;
        __kernel void f(__global const float* x, __global float* y, Pair pair, __local float* t) {
          const int i = get_global_id(0);
          t[get_local_id(0)] = x[i] * pair.a;
          barrier(CLK_LOCAL_MEM_FENCE);
          y[i] = t[get_local_id(0)] + pair.b;
        }
        // """
        + str(next(_versions))
    )
    memory = torch.zeros(1024, device="ocl")
    x, y = memory[:16], memory[512:528]
    x.copy_(numbers(16))
    pair = struct.pack("fi", 2.0, 3)
    library.f(x, y, pair, torch.ocl.LocalMemory(64), threads=16, group_size=8)
    see(y.cpu())
    unaligned = memory[1:9]
    library.f(unaligned, y[:8], pair, torch.ocl.LocalMemory(64), threads=8, group_size=8)
    see(y.cpu())


@scenario
def memory(see):
    torch.ocl.empty_cache()
    torch.accelerator.empty_host_cache()
    x = torch.full((3 << 20,), 2, dtype=torch.uint8, device="ocl")
    y = torch.full((30 << 20,), 3, dtype=torch.uint8, device="ocl")
    see(int(x[-1]) + int(y[5]))
    see(torch.ocl.mem_get_info()[0] > 0)
    del y
    x.resize_(5 << 20)
    see(x[: 3 << 20].cpu().sum())
    pinned = torch.full((100_000,), 4, dtype=torch.uint8, pin_memory=True)
    see(pinned.to("ocl", non_blocking=True).sum().item())
    del x, pinned
    torch.ocl.empty_cache()
    torch.accelerator.empty_host_cache()


@torch.library.custom_op("failures::on_host", mutates_args=("out",), device_types="cpu")
def on_host(x: torch.Tensor, out: torch.Tensor) -> None:
    out.copy_(x * 3)


@scenario
def fallback(see):
    x, out = numbers(5, 3).to("ocl"), torch.zeros(5, 3, device="ocl")
    on_host(x, out)
    see(out.cpu())
    rows = torch.zeros(5, 6, device="ocl")
    on_host(x, rows[:, ::2])
    see(rows.cpu())


@scenario
def interop(see):
    x = numbers(8).to("ocl")
    place = torch.ocl.buffer(x)
    y = torch.ocl.from_buffer(place, (8,), offset=place.offset)
    y.add_(1)
    see(x.cpu())
    z = torch.ocl.from_dlpack(torch.ocl.to_dlpack(x))
    z.mul_(2)
    see(x.cpu())
    same = torch.ocl.ExternalStream(torch.ocl.queue())
    with torch.ocl.stream(same):
        see((x + 1).cpu())
    if torch.ocl.get_device_properties().host_unified_memory:
        with torch.ocl.host_view(x) as host:
            host += 1
        see(x.cpu())


@scenario
def profiler(see):
    activities = torch.profiler.ProfilerActivity
    with torch.profiler.profile(activities=[activities.CPU, activities.PrivateUse1]) as profile:
        x = numbers(30).to("ocl")
        y = x * 2
        see(y.cpu())
    see(any("pointwise" in event.name for event in profile.events()))


@first_use
def start(see):
    see(torch.ocl.is_available())
    see(torch.ocl.device_count())
    see(torch.ocl.get_device_name())
    x = torch.ones(5, device="ocl") + 1
    see(x.cpu())


@first_use
def programs(see):
    """Programs from the cache folder, and a new one to be stored there."""
    tensors(see)
    with contextlib.suppress(FileNotFoundError):
        see(any(pathlib.Path(os.environ["OCL_CACHE_DIR"]).iterdir()))
    kernels(see)
    torch.ocl.synchronize()


@first_use
def first_streams(see):
    events(see)
    graphs(see)
    profiler(see)
