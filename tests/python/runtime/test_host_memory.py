"""Memory that the host and the device share: host_view, from_host, pinned memory, processes."""

import os
import threading
import time

import numpy as np
import pytest
import torch
import torch.multiprocessing as multiprocessing
from torch.utils.data import DataLoader, TensorDataset


@pytest.fixture
def unified(device, request):
    properties = torch.ocl.get_device_properties(device)
    if not properties.host_unified_memory:
        pytest.skip("the device has memory of its own")
    if "host_view" in request.function.__name__:
        return device
    if properties.type != "cpu":
        pytest.skip("GPUs use no memory of the host in place")
    if properties.platform == "rusticl":
        pytest.skip("rusticl works on a copy of the host's memory")
    return device


@pytest.fixture
def discrete(device):
    if torch.ocl.get_device_properties(device).host_unified_memory:
        pytest.skip("the device shares the host's memory")
    return device


def aligned(count, dtype=np.float32, at=4096):
    """An array that begins at a multiple of `at` bytes."""
    raw = np.zeros(count * np.dtype(dtype).itemsize + at, np.uint8)
    start = -raw.ctypes.data % at
    return raw[start : start + count * np.dtype(dtype).itemsize].view(dtype)


@pytest.mark.sample
@pytest.mark.parametrize("at", [16, 64, 4096])
def test_from_host(unified, at):
    array = aligned(1000, at=at)
    array[:] = np.arange(1000)
    x = torch.ocl.from_host(array, unified)
    assert x.device == torch.device(unified) and x.shape == (1000,)
    x *= 2
    torch.ocl.synchronize(unified)
    assert (array == 2 * np.arange(1000)).all()
    array[:] = 1
    assert x.sum().item() == 1000


def test_from_host_copies_nothing(unified):
    array = aligned(1 << 24)
    before = torch.ocl.memory_reserved(unified)
    with torch.profiler.profile() as profile:
        x = torch.ocl.from_host(array, unified)
        with torch.ocl.host_view(x) as host:
            assert host.data_ptr() == array.ctypes.data
    assert torch.ocl.memory_reserved(unified) == before
    copies = {"clEnqueueWriteBuffer", "clEnqueueReadBuffer", "aten::copy_"}
    assert not copies & {event.name for event in profile.events()}


def test_from_host_takes_tensors(unified):
    host = torch.arange(12.0).view(3, 4).t()
    x = torch.ocl.from_host(host, unified)
    assert x.stride() == (1, 4) and torch.equal(x.cpu(), host)
    x.neg_()
    torch.ocl.synchronize(unified)
    assert host[3, 2].item() == -11
    assert torch.ocl.from_host(torch.empty(0, 3), unified).shape == (0, 3)
    assert torch.ocl.from_host(torch.zeros(4, dtype=torch.bfloat16)).dtype == torch.bfloat16


def test_from_host_keeps_the_memory(unified):
    freed = []

    class Owner(np.ndarray):
        def __array_finalize__(self, other):
            pass

        def __del__(self):
            freed.append(1)

    array = aligned(1 << 20).view(Owner)
    x = torch.ocl.from_host(array, unified)
    part = x[5:10]
    del array, x
    assert not freed
    part += 1
    # Work on the memory is enqueued when the last tensor goes, from a thread without Python.
    thread = threading.Thread(target=part.add_, args=(1,))
    thread.start()
    thread.join()
    del thread, part
    torch.ocl.from_host(aligned(1 << 20), unified).add_(1)  # some drivers keep it until then
    for _ in range(100):
        if not freed:
            time.sleep(0.05)
    assert freed


def test_memory_that_was_freed_is_not_touched(unified):
    for _ in range(5):
        torch.ocl.from_host(torch.zeros(1 << 20), unified).add_(1)
        assert torch.ones(1 << 20, device=unified).add_(1)[0].item() == 2


def test_from_host_refuses(unified):
    fixed = np.zeros(100, np.float32)
    fixed.flags.writeable = False
    unaligned = aligned(100, at=4096)[1:]
    with pytest.raises(ValueError, match="an array that can be written to"):
        torch.ocl.from_host(fixed)
    with pytest.raises(ValueError, match=r"begins at a multiple of \d+ bytes, not at 0x"):
        torch.ocl.from_host(unaligned, unified)
    with pytest.raises(ValueError, match=r"memory without gaps, got strides \[2\]"):
        torch.ocl.from_host(torch.zeros(100)[::2], unified)
    with pytest.raises(ValueError, match=r"dense CPU tensor or NumPy array, .* on ocl"):
        torch.ocl.from_host(torch.zeros(4, device=unified), unified)
    with pytest.raises(ValueError, match=r"plain memory: pass x.detach"):
        torch.ocl.from_host(torch.zeros(64, requires_grad=True), unified)
    with pytest.raises(TypeError, match="a NumPy array or CPU tensor, not list"):
        torch.ocl.from_host([1.0])


def test_devices_with_their_own_memory_refuse(discrete):
    with pytest.raises(ValueError, match="cannot use the host's memory in place"):
        torch.ocl.from_host(torch.zeros(64), discrete)
    with pytest.raises(ValueError, match="has memory of its own"):
        torch.ocl.host_view(torch.zeros(64, device=discrete))


@pytest.mark.sample
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool])
def test_host_view(unified, dtype):
    x = torch.zeros(6, 8, device=unified).to(dtype)
    with torch.ocl.host_view(x[1:5, ::2]) as host:
        assert host.device.type == "cpu" and host.dtype == dtype and host.shape == (4, 4)
        host[1, 2] = 1
    expected = torch.zeros(6, 8, dtype=dtype)
    expected[2, 4] = 1
    assert torch.equal(x.cpu(), expected)


def test_host_view_with_numpy(unified):
    x = torch.arange(1000.0, device=unified)
    x += 1  # not completed yet
    with torch.ocl.host_view(x) as host:
        array = host.numpy()
        assert array[999] == 1000
        np.sqrt(array, out=array)
    torch.testing.assert_close(x.cpu(), torch.arange(1.0, 1001).sqrt())


def test_host_view_keeps_the_memory(unified):
    """A view that escapes shows old numbers at worst."""
    with torch.ocl.host_view(torch.full((1 << 20,), 3.0, device=unified)) as host:
        escaped = host.numpy()[1:]
    del host
    for _ in range(4):
        torch.zeros(1 << 20, device=unified)
    assert (escaped == 3).all()
    before = torch.ocl.memory_allocated(unified)
    del escaped
    assert torch.ocl.memory_allocated(unified) == before - (4 << 20)


def test_host_view_unmaps_after_an_error(unified):
    x = torch.zeros(10, device=unified)
    with torch.profiler.profile() as profile:
        with pytest.raises(KeyError), torch.ocl.host_view(x):
            raise KeyError
        torch.ocl.synchronize(unified)
    names = [event.name for event in profile.events()]
    assert names.count("clEnqueueMapBuffer") == names.count("clEnqueueUnmapMemObject") == 1


def test_host_view_refuses(unified):
    x = torch.zeros(4, device=unified)
    with pytest.raises(ValueError, match="takes a tensor on ocl, got one on cpu"):
        torch.ocl.host_view(torch.zeros(4))
    with pytest.raises(ValueError, match="not seen by autograd"):
        torch.ocl.host_view(torch.zeros(4, device=unified, requires_grad=True))
    with torch.ocl.host_view(torch.ones(4, device=unified, requires_grad=True), False) as host:
        assert host.sum().item() == 4
    with pytest.raises(ValueError, match="lazily conjugated"):
        torch.ocl.host_view(torch.zeros(4, dtype=torch.complex64, device=unified).conj())
    view = torch.ocl.host_view(x)
    with view, pytest.raises(RuntimeError, match="open already"):
        view.__enter__()
    y = (x * 1).requires_grad_()
    z = (y * y).sum()
    with torch.ocl.host_view(y.detach()) as host:
        host.fill_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()


# ---- pinned memory


SLOW = """
    __kernel void slow(__global int* x, int rounds) {
      int y = x[get_global_id(0)];
      for (int i = 0; i < rounds; ++i) y = y * 1664525 + 1013904223;
      x[get_global_id(0)] = y;
    }
"""


def slow_kernel(device, rounds=400_000_000):
    """Enqueues about a second of work of one core on the current stream."""
    x = torch.zeros(1, dtype=torch.int32, device=device)
    torch.ocl.compile_kernel(SLOW).slow(x, rounds, group_size=1)
    return x


@pytest.mark.parametrize("direction", ["to the device", "to the host"])
def test_copies_of_pinned_memory_overlap_with_the_host(device, direction):
    """The call returns while the device still works; without pinned memory it waits."""
    slow_kernel(device, 1)
    torch.ocl.synchronize(device)
    x, host = torch.arange(1000.0, device=device), torch.zeros(1000).pin_memory()
    stream = torch.ocl.current_stream(device)
    target, source = (x, host) if direction == "to the device" else (host, x)
    slow_kernel(device)
    target.copy_(source, non_blocking=True)
    assert not stream.query()
    stream.synchronize()
    assert torch.equal(target.cpu(), source.cpu())
    slow_kernel(device)
    target.copy_(source)  # waits
    torch.ocl.synchronize(device)


def test_copies_overlap_with_kernels_of_another_stream(device):
    """A copy on a second stream completes while a kernel on the first one runs."""
    if os.cpu_count() < 2:
        pytest.skip("needs a second core")
    side = torch.ocl.Stream(device)
    host = torch.arange(1000.0).pin_memory()
    slow_kernel(device, 1)
    with torch.ocl.stream(side):
        host.to(device, non_blocking=True)
    torch.ocl.synchronize(device)
    main = torch.ocl.current_stream(device)

    def overlaps():
        slow_kernel(device)
        time.sleep(0.1)  # Intel's runtime may let a thread that waits begin with the kernel
        with torch.ocl.stream(side):
            x = host.to(device, non_blocking=True)
            side.synchronize()
            running = not main.query()
        main.synchronize()
        assert torch.equal(x.cpu(), host)
        return running

    # On a busy machine the kernel may be done first.
    assert any(overlaps() for _ in range(5)), "copies wait for kernels of other streams"


@pytest.mark.parametrize("workers", [0, 2])
def test_data_loader_with_pinned_memory(device, workers):
    numbers = torch.arange(64.0).view(16, 4)
    loader = DataLoader(
        TensorDataset(numbers, torch.arange(16)), batch_size=4, pin_memory=True,
        num_workers=workers, multiprocessing_context="spawn" if workers else None,
    )  # fmt: skip
    rows = []
    for values, labels in loader:
        assert values.is_pinned() and labels.is_pinned()
        rows.append(values.to(device, non_blocking=True))
        assert labels.to(device, non_blocking=True).device == torch.device(device)
    assert torch.equal(torch.cat(rows).cpu(), numbers)


# ---- processes


def double(tensor, results):
    results.put((tensor * 2).tolist())


def test_ocl_tensors_are_not_sent_to_processes(device):
    context = multiprocessing.get_context("spawn")
    x = torch.arange(3.0, device=device)
    module = torch.nn.Linear(2, 2, device=device)
    for sent in (
        x,
        [x],
        {"a": x[1:]},
        module,
        torch.nn.Parameter(x),
        torch.empty(0, device=device),
    ):
        process = context.Process(target=double, args=(sent, None))
        with pytest.raises(RuntimeError, match=r"to another process: .*Send x.cpu\(\)"):
            process.start()
    queue = context.SimpleQueue()
    with pytest.raises(RuntimeError, match="to another process"):
        queue.put(x)
    for strategy in multiprocessing.get_all_sharing_strategies():
        former = multiprocessing.get_sharing_strategy()
        multiprocessing.set_sharing_strategy(strategy)
        try:
            with pytest.raises(RuntimeError, match="to another process"):
                queue.put(x)
        finally:
            multiprocessing.set_sharing_strategy(former)


def test_cpu_tensors_still_are(device):
    context = multiprocessing.get_context("spawn")
    results = context.SimpleQueue()
    process = context.Process(target=double, args=(torch.arange(3.0, device=device).cpu(), results))
    process.start()
    assert results.get() == [0, 2, 4]
    process.join(60)
    assert process.exitcode == 0


def add_one(rank, shared, name):
    x = torch.ocl.from_host(shared, name)
    x += 1
    torch.ocl.synchronize(name)


def test_processes_share_memory_through_the_host(unified):
    """The way that docs/interop.md recommends instead of sending ocl tensors."""
    shared = torch.zeros(1024).share_memory_()
    here = torch.ocl.from_host(shared, unified)
    multiprocessing.spawn(add_one, args=(shared, unified), nprocs=1)
    assert here.unique().item() == 1


def test_deep_copies_and_files_are_not_affected(device, tmp_path):
    import copy
    import pickle

    x = torch.arange(3.0, device=device)
    assert copy.deepcopy(x).tolist() == [0, 1, 2]
    assert pickle.loads(pickle.dumps(x)).device == x.device
    torch.save(x, tmp_path / "x.pt")
    assert torch.load(tmp_path / "x.pt").tolist() == [0, 1, 2]
