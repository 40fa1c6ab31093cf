"""Memory statistics, limits and running out of memory."""

import gc
import itertools
import os
import random
import re
import subprocess
import sys
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from models import resnet18, train_step
from support import fill_gaps, on_the_stern_device, output_of

MIB = 2**20


def allocate(size, device):
    return torch.empty(size, dtype=torch.uint8, device=device)


@pytest.fixture
def clean(device):
    """An empty cache before and after, and no limit afterwards."""
    gc.collect()
    torch.ocl.empty_cache()
    gaps = fill_gaps(device)
    torch.ocl.reset_peak_memory_stats()
    torch.ocl.reset_accumulated_memory_stats()
    yield
    del gaps
    torch.ocl.set_per_process_memory_fraction(1.0)
    torch.ocl.empty_cache()


def limit_to(size, device):
    total = torch.ocl.get_device_properties(device).total_memory
    limit = torch.ocl.memory_reserved() + size
    if limit > total:
        pytest.skip(f"earlier tests left less than {size} bytes of the device's {total}")
    torch.ocl.set_per_process_memory_fraction(limit / total)


def test_statistics_follow_a_plain_model(device, clean):
    """Bytes in use are the sum of the sizes, rounded up to 512."""
    choose = random.Random(1)
    start, tensors, peak = torch.ocl.memory_allocated(), [], 0
    for step in range(300):
        if tensors and choose.random() < 0.45:
            tensors.pop(choose.randrange(len(tensors)))
        else:
            size = choose.choice([0, 1, 511, 512, 513, 4000, MIB, 3 * MIB])
            tensors.append(allocate(size, device))
        used = sum((t.numel() + 511) // 512 * 512 for t in tensors)
        peak = max(peak, used)
        # Blocks of 1 MiB and more are not split to the last byte.
        allocated = torch.ocl.memory_allocated() - start
        assert used <= allocated <= used + MIB * len(tensors)
        assert torch.ocl.memory_reserved() >= torch.ocl.memory_allocated()
        requested = torch.ocl.memory_stats()["requested_bytes.all.current"]
        if step == 0:
            others = requested - sum(t.numel() for t in tensors)
        assert requested == others + sum(t.numel() for t in tensors)
    assert torch.ocl.max_memory_allocated() - start >= peak
    tensors.clear()
    assert torch.ocl.memory_allocated() == start
    torch.ocl.reset_peak_memory_stats()
    assert torch.ocl.max_memory_allocated() == start


def test_live_tensors_do_not_overlap(device):
    choose = random.Random(2)
    tensors = []
    for _ in range(400):
        if tensors and choose.random() < 0.4:
            tensors.pop(choose.randrange(len(tensors)))
        else:
            tensors.append(allocate(choose.randrange(1, 3 * MIB), device))
        ranges = sorted((t.data_ptr(), t.data_ptr() + t.numel()) for t in tensors)
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(ranges))
        assert all(start % 512 == 0 for start, _ in ranges)


@pytest.mark.parametrize("size", [-1, -100, -(2**40)])
def test_negative_sizes_are_refused(device, size):
    storage = torch.arange(4.0, device=device).untyped_storage()
    with pytest.raises(RuntimeError, match="negative"):
        storage.resize_(size)
    assert storage.nbytes() == 16
    with pytest.raises(RuntimeError, match="negative"):
        torch.UntypedStorage(size, device=device)


def test_memory_is_reused(device, clean):
    x = allocate(30 * MIB, device)
    address = x.data_ptr()
    del x
    reserved = torch.ocl.memory_reserved()
    assert allocate(30 * MIB, device).data_ptr() == address
    assert torch.ocl.memory_reserved() == reserved


def test_empty_cache(device, clean):
    kept = allocate(30 * MIB, device)
    before = torch.ocl.memory_reserved()
    x = allocate(50 * MIB, device)
    del x
    assert torch.ocl.memory_reserved() == before + 50 * MIB
    torch.ocl.empty_cache()
    assert torch.ocl.memory_reserved() == before
    assert kept.fill_(3).cpu().eq(3).all()


def test_devices_have_their_own_statistics(two_devices):
    before = torch.ocl.memory_allocated(0)
    x = allocate(5 * MIB, "ocl:1")
    assert torch.ocl.memory_allocated(0) == before
    assert torch.ocl.memory_allocated(1) >= x.numel()
    assert torch.ocl.memory_allocated("ocl:1") == torch.ocl.memory_allocated(1)


def test_memory_of_torch_accelerator(device, clean):
    x = allocate(5 * MIB, device)
    assert torch.accelerator.memory_allocated() == torch.ocl.memory_allocated() >= x.numel()
    free, total = torch.ocl.mem_get_info()
    assert 0 < free < total == torch.ocl.get_device_properties(device).total_memory
    assert torch.accelerator.get_memory_info()[1] == total  # other processes change it
    assert torch.accelerator.memory_stats() == torch.ocl.memory_stats()
    assert torch.accelerator.memory_reserved() == torch.ocl.memory_reserved()
    del x
    assert torch.accelerator.max_memory_allocated() > torch.accelerator.memory_allocated()
    torch.accelerator.reset_peak_memory_stats()
    assert torch.accelerator.max_memory_allocated() == torch.accelerator.memory_allocated()
    torch.accelerator.empty_cache()
    assert torch.accelerator.max_memory_reserved() >= torch.ocl.memory_reserved()
    reserved = [torch.ocl.memory_reserved(), torch.accelerator.memory_reserved(device)]
    assert reserved[0] == reserved[1] < torch.ocl.max_memory_reserved()


def test_statistics_have_the_keys_of_cuda(device):
    """The keys in the documentation of torch.cuda.memory_stats; "allocated" is a slip there, the
    key is "allocation"."""
    text = torch.cuda.memory_stats.__doc__
    keys = set()
    for name in re.findall(r'- ``"([^"]+)"``', text):
        name = name.replace("allocated.{all", "allocation.{all")
        parts = [part.split(",") for part in re.split(r"[{}]", name) if part]
        keys.update("".join(choice) for choice in itertools.product(*parts))
    assert len(keys) > 80 and "reserved_bytes.small_pool.peak" in keys
    stats = torch.ocl.memory_stats()
    # There are neither allocations that are refused in advance nor private pools.
    absent = {"num_oom_rejections", "reserved_bytes_by_private_pools"}
    assert keys - stats.keys() <= absent
    assert all(isinstance(stats[key], int) for key in keys & stats.keys())
    nested = torch.ocl.memory_stats_as_nested_dict()
    assert nested["segment"]["all"]["peak"] == stats["segment.all.peak"]


def test_summary(device, clean):
    x = allocate(5 * MIB, device)
    y = allocate(3 * MIB, device)
    del y
    lines = torch.ocl.memory_summary().splitlines()
    assert lines[0].split() == ["memory", "of", device, "now", "peak", "total", "freed"]
    assert lines[-1] == "out of memory: 0, retries with an empty cache: 0"
    rows = {line[:26].strip(): line[26:].split("MiB") for line in lines}
    stats = torch.ocl.memory_stats()
    for column, kind in enumerate(("current", "peak", "allocated", "freed")):
        expected = stats[f"allocated_bytes.all.{kind}"] / MIB
        assert float(rows["allocated"][column]) == pytest.approx(expected, abs=0.006)
    assert float(rows["allocated"][2]) == x.numel() / MIB + 3
    short = torch.ocl.memory_summary(abbreviated=True).splitlines()
    assert [line for line in lines if "pool" not in line] == short
    assert len(lines) == len(short) + 18


SETTINGS = """
import torch
MIB = 2**20
def allocate(size):
    return torch.empty(size * MIB, dtype=torch.uint8, device="ocl")
x = allocate(100)
address = x.data_ptr()
stats = torch.ocl.memory_stats()
assert stats["max_split_size"] == 64 * MIB, stats["max_split_size"]
assert stats["oversize_allocations.current"] == stats["oversize_segments.current"] == 1
assert torch.ocl.memory._snapshot()["allocator_settings"]["max_split_size"] == 64 * MIB
del x
y = allocate(60)
assert not address <= y.data_ptr() < address + 100 * MIB
assert allocate(95).data_ptr() == address
torch.ocl.empty_cache()
assert torch.ocl.memory_stats()["oversize_segments.current"] == 0
"""


def test_settings_from_the_environment(device):
    environment = {**os.environ, "PYTORCH_ALLOC_CONF": "max_split_size_mb:64"}
    run = partial(subprocess.run, capture_output=True, text=True, env=environment)
    result = run([sys.executable, "-c", SETTINGS])
    assert result.returncode == 0, result.stderr


def test_without_caching_each_tensor_has_a_buffer_of_its_size():
    code = """
        import torch
        x, y = torch.arange(7.0, device="ocl"), torch.ones(3, dtype=torch.bool, device="ocl")
        assert (x * 2).sum().item() == 42 and y.all().item()
        print(torch.ocl.memory_reserved())
        del x
        print(torch.ocl.memory_reserved())
        s = torch.ocl.Stream()
        with torch.ocl.stream(s):
            z = y.sum()
        y.record_stream(s)
        del y
        torch.ocl.synchronize()
        torch.ocl.empty_cache()
        print(torch.ocl.memory_reserved(), z.item())
    """
    assert output_of(code, OCL_MEMORY_CACHING="0").split() == ["31", "3", "8", "3"]


def test_without_caching_graphs_share_no_buffers():
    code = """
        import torch
        graph = torch.ocl.Graph()
        x = torch.ones(1, device="ocl")
        with torch.ocl.graph(graph):
            y = torch.empty(5000, device="ocl")
            del y
            z = [x + i for i in range(3)]
        graph.replay()
        print(sum(z).item())
        for segment in torch.ocl.memory._snapshot()["segments"]:
            assert len(segment["blocks"]) == 1, segment
    """
    assert output_of(code, OCL_MEMORY_CACHING="0") == "6.0"


def test_out_of_memory(device, clean):
    """The error names the sizes; the cache was freed before; the process goes on."""
    limit_to(64 * MIB, device)
    kept = torch.full((30 * MIB // 4,), 7.0).to(device)
    cached = allocate(20 * MIB, device)
    del cached
    pattern = (
        rf"cannot allocate 100\.00 MiB on {device}: .* are in use by tensors and .* are cached, "
        r"out of .* that this process may use\. Free tensors, use smaller batches, or call "
        r"torch\.ocl\.empty_cache\(\)"
    )
    with pytest.raises(torch.OutOfMemoryError, match=pattern):
        allocate(100 * MIB, device)
    stats = torch.ocl.memory_stats()
    assert stats["num_ooms"] == 1 and stats["num_alloc_retries"] == 1
    assert kept.cpu().eq(7).all()
    assert allocate(20 * MIB, device).fill_(1).cpu().eq(1).all()
    limit_to(500 * MIB, device)
    assert allocate(100 * MIB, device).numel() == 100 * MIB


def test_out_of_memory_in_an_operator(device, clean):
    limit_to(64 * MIB, device)
    x = torch.ones(10 * MIB // 4).to(device)
    with pytest.raises(torch.OutOfMemoryError):
        x.expand(20, -1) + 1
    assert (x + 1).cpu().eq(2).all()


def test_largest_buffer(device, monkeypatch):
    largest = torch.ocl.get_device_properties(device).max_allocation
    monkeypatch.setenv("OCL_MAX_BUFFER_MB", str(largest // MIB))  # drivers may grant more
    pattern = r"cannot allocate .* on ocl:\d: the largest single buffer is .*MAX_MEM_ALLOC_SIZE"
    with pytest.raises(torch.OutOfMemoryError, match=pattern):
        allocate(largest + 1, device)
    assert allocate(10, device).numel() == 10


def test_limits_from_the_environment():
    code = """
        import torch
        properties = torch.ocl.get_device_properties(0)
        print(properties.total_memory >> 20, properties.max_allocation >> 20)
        for mebibytes in (101, 301):
            try:
                torch.empty(mebibytes << 20, dtype=torch.uint8, device="ocl")
            except torch.OutOfMemoryError as error:
                print(error)
    """
    lines = output_of(code, OCL_MEMORY_MB="300", OCL_MAX_BUFFER_MB="100").splitlines()
    assert lines[0] == "300 100"
    assert len(lines) == 3 and "the largest single buffer is 100.00 MiB" in lines[1]
    lines = output_of(code, OCL_MEMORY_MB="300", OCL_MAX_BUFFER_MB="400").splitlines()
    assert len(lines) == 2 and "out of 300.00 MiB of the device" in lines[1]


@pytest.mark.parametrize("value", ["x", "0", "-1", "1.5", "99999999999999999999"])
def test_wrong_limits_from_the_environment(value):
    code = """
        import torch
        try:
            torch.ocl.init()
        except ValueError as error:
            print(error)
    """
    assert f'OCL_MEMORY_MB must be a number of MiB, not "{value}"' in output_of(
        code, OCL_MEMORY_MB=value
    )


@pytest.mark.parametrize("fraction", [-0.1, 1.5, float("nan")])
def test_wrong_fraction(device, fraction):
    with pytest.raises(ValueError, match="memory fraction must be in"):
        torch.ocl.set_per_process_memory_fraction(fraction)


def test_fraction(device, clean):
    assert torch.ocl.get_per_process_memory_fraction() == 1
    torch.ocl.set_per_process_memory_fraction(0.25)
    assert torch.ocl.get_per_process_memory_fraction(device) == pytest.approx(0.25)


def test_pinned_memory(device):
    x = torch.arange(1000.0).pin_memory()
    assert x.is_pinned() and not torch.ones(3).is_pinned()
    assert x[500:].is_pinned()
    assert torch.equal(x.to(device, non_blocking=True).cpu(), x)
    with pytest.raises(ValueError, match="only CPU tensors can be pinned"):
        torch.empty(3, device=device, pin_memory=True)


@pytest.mark.skipif(
    torch.cuda.is_available(), reason="PyTorch lets CUDA pin these where it is available"
)
def test_pinned_memory_of_new_tensors(device):
    assert torch.empty(10, pin_memory=True).is_pinned()
    assert torch.ones(10, pin_memory=True).is_pinned()


def test_training_reaches_a_steady_state(device, clean):
    """ResNet-18: no new buffers after the first steps, and little reserved beyond what is used."""
    torch.manual_seed(0)
    reserved, allocated = torch.ocl.memory_reserved(), torch.ocl.memory_allocated()
    model = resnet18().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    # On the stern device PoCL runs the convolutions of GPUs, where a full step takes minutes.
    images, side = (2, 64) if on_the_stern_device() else (8, 224)
    x, target = torch.randn(images, 3, side, side), torch.randint(1000, (images,))
    x, target = x.to(device), target.to(device)
    step = partial(train_step, model, optimizer, x, target, F.cross_entropy)
    for _ in range(3):
        step()
    buffers = torch.ocl.memory_stats()["segment.all.allocated"]
    for _ in range(3):
        step()
    torch.ocl.synchronize()
    assert torch.ocl.memory_stats()["segment.all.allocated"] == buffers
    # Without what earlier tests have left.
    most = torch.ocl.max_memory_allocated() - allocated
    assert torch.ocl.max_memory_reserved() - reserved <= 1.15 * most
