"""Names of torch.cuda that programs use, as torch.ocl has them."""

import numpy
import pytest
import torch
from support import run_python


def test_classes_of_streams_and_events(device):
    event, stream = torch.ocl.Event(), torch.ocl.Stream()
    assert isinstance(event, torch.ocl.Event) and isinstance(event, torch.Event)
    assert isinstance(stream, torch.ocl.Stream) and isinstance(stream, torch.Stream)
    assert isinstance(torch.ocl.current_stream(), torch.ocl.Stream)
    assert isinstance(stream.record_event(), torch.ocl.Event)
    assert isinstance(torch.Event("ocl"), torch.ocl.Event)
    for other in (torch.Event("cpu"), stream, None, 3):
        assert not isinstance(other, torch.ocl.Event)
    assert not isinstance(event, torch.ocl.Stream)
    assert not isinstance(stream, torch.ocl.ExternalStream)
    assert torch.ocl.Stream.priority_range() == (0, -1)
    with pytest.raises(NotImplementedError):
        torch.ocl.Event(external=True)


def test_properties(device):
    properties = torch.ocl.get_device_properties()
    assert (properties.major, properties.minor) == torch.ocl.get_device_capability()
    assert properties.multi_processor_count == properties.max_compute_units > 0
    assert properties.name in repr(properties) and "total_memory=" in repr(properties)


def test_sync_debug_mode(device):
    x = torch.ones(3, device=device)
    assert torch.ocl.get_sync_debug_mode() == 0
    waits = [
        x.cpu,
        x.sum().item,
        lambda: torch.nonzero(x),
        lambda: x.copy_(torch.zeros(3)),
        torch.ocl.current_stream().synchronize,
    ]
    try:
        for mode in ("error", 2):
            torch.ocl.set_sync_debug_mode(mode)
            assert torch.ocl.get_sync_debug_mode() == 2
            for wait in waits:
                with pytest.raises(RuntimeError, match="called a synchronizing OpenCL operation"):
                    wait()
            (x + 1).sum()
            torch.ocl.synchronize()
            torch.ocl.Event().synchronize()
        torch.ocl.set_sync_debug_mode("warn")
        for wait in waits:
            with pytest.warns(UserWarning, match="called a synchronizing OpenCL operation"):
                wait()
    finally:
        torch.ocl.set_sync_debug_mode("default")
    assert x.cpu().tolist() == [0, 0, 0]
    for wrong in ("loud", 3, None, True):
        with pytest.raises(RuntimeError, match="invalid value of debug_mode"):
            torch.ocl.set_sync_debug_mode(wrong)


def test_pools_are_apart(device):
    pool = torch.ocl.MemPool()
    assert pool.id[1] > 0 and pool.snapshot() == []
    with torch.ocl.use_mem_pool(pool):
        inside = torch.ones(1000, device=device)
        address = inside.data_ptr()
    outside = torch.ones(1000, device=device)
    (segment,) = pool.snapshot()
    begin, end = segment["address"], segment["address"] + segment["total_size"]
    assert begin <= address < end and not begin <= outside.data_ptr() < end
    assert segment["segment_pool_id"] == pool.id
    del inside
    torch.ocl.empty_cache()
    assert pool.snapshot(), "a pool keeps its memory"
    again = torch.ones(1000, device=device)
    assert not begin <= again.data_ptr() < end
    with torch.ocl.use_mem_pool(pool):
        assert torch.ones(1000, device=device).data_ptr() == address
    number = pool.id
    del pool
    torch.ocl.empty_cache()
    assert torch.ocl.memory_snapshot(number) == []


def test_pools_nest_and_end_with_an_error(device):
    outer, inner = torch.ocl.MemPool(), torch.ocl.MemPool()

    def pool_of(tensor):
        for segment in torch.ocl.memory_snapshot():
            if 0 <= tensor.data_ptr() - segment["address"] < segment["total_size"]:
                return segment["segment_pool_id"]

    with torch.ocl.use_mem_pool(outer):
        with pytest.raises(KeyError), torch.ocl.use_mem_pool(inner):
            assert pool_of(torch.ones(3, device=device)) == inner.id
            raise KeyError
        assert pool_of(torch.ones(3, device=device)) == outer.id
    assert pool_of(torch.ones(3, device=device)) == (0, 0)
    with pytest.raises(NotImplementedError):
        torch.ocl.MemPool(use_on_oom=True)


def test_host_memory_stats(device):
    # Not torch.empty(pin_memory=True), which PyTorch gives to CUDA where that is available.
    torch.empty(10_000).pin_memory()  # collects what earlier copies have used
    torch.ocl.reset_peak_host_memory_stats()
    torch.ocl.reset_accumulated_host_memory_stats()
    before = torch.ocl.host_memory_stats()
    pinned = torch.empty(10_000).pin_memory()
    stats = torch.ocl.host_memory_stats()
    assert stats["active_requests.current"] == before["active_requests.current"] + 1
    assert stats["active_bytes.current"] - before["active_bytes.current"] >= pinned.nbytes
    assert stats["active_bytes.peak"] >= stats["active_bytes.current"]
    nested = torch.ocl.host_memory_stats_as_nested_dict()
    assert nested["active_requests"]["current"] == stats["active_requests.current"]
    assert {"num_host_alloc", "num_host_free", "host_alloc_time.avg"} <= stats.keys()


@pytest.mark.parametrize("name", torch.ocl.tensor_types.__all__)
def test_tensor_types(device, name):
    kind, on_cpu = getattr(torch.ocl, name), getattr(torch, name)
    x = kind([0, 1, 1])
    assert x.type() == f"torch.ocl.{name}" and x.tolist() == [0, 1, 1]
    assert (
        isinstance(x, kind) and not isinstance(x.cpu(), kind) and not isinstance(x[0].item(), kind)
    )
    assert not isinstance(x, torch.ocl.IntTensor if kind is not torch.ocl.IntTensor else on_cpu)
    assert (
        kind(2, 3).shape == (2, 3) and kind(torch.Size([4])).shape == (4,) and kind().shape == (0,)
    )
    assert kind(numpy.int64(3)).shape == (3,)
    assert kind(x).data_ptr() == x.data_ptr()
    assert torch.tensor([1, 0]).type(kind).type() == x.type()
    for refused in (x.cpu(), 2.5):
        with pytest.raises(TypeError):
            kind(refused)


def test_default_generators(device):
    generators = torch.ocl.default_generators
    assert generators[-1] is generators[len(generators) - 1]
    assert generators[:] == tuple(generators)
    with pytest.raises(IndexError):
        generators[len(generators)]


@pytest.mark.parametrize("function", [torch.ocl.current_stream, torch.ocl.memory_stats])
def test_numbers_of_devices(device, function):
    with pytest.raises(RuntimeError, match="ocl:300 does not exist"):
        function(300)
    assert function(False) == function(0)


def test_memory_fraction_of_nothing(device):
    result = run_python("""
        import torch
        x = torch.ones(10, device="ocl")
        torch.ocl.set_per_process_memory_fraction(0.0)
        assert torch.ocl.get_per_process_memory_fraction() == 0
        assert torch.ocl.mem_get_info()[0] == 0
        y = x + 1  # from what is reserved already
        try:
            torch.empty(1 << 26, device="ocl")
        except torch.OutOfMemoryError:
            print(y.tolist()[0])
        for wrong in (-0.1, 1.1, float("nan")):
            try:
                torch.ocl.set_per_process_memory_fraction(wrong)
            except ValueError:
                continue
            raise AssertionError(wrong)
    """)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "2.0"


def test_errors_of_the_driver_have_a_class():
    assert torch.ocl.AcceleratorError is torch.AcceleratorError
    assert issubclass(torch.ocl.AcceleratorError, RuntimeError)


@pytest.mark.parametrize("t", ["torch.ocl.DoubleTensor", torch.ocl.HalfTensor])
def test_default_tensor_type(device, t):
    try:
        torch.set_default_tensor_type(t)
        assert torch.zeros(2).type() == str(t).removeprefix("<class '").removesuffix("'>")
        assert torch.tensor([1]).device.type == "ocl"
        with pytest.raises(TypeError, match="floating-point"):
            torch.set_default_tensor_type("torch.ocl.LongTensor")
    finally:
        torch.set_default_tensor_type("torch.FloatTensor")
    assert torch.zeros(2).type() == "torch.FloatTensor"
