"""Snapshots, the history of allocations with stacks, and observers of running out of memory."""

import gc
import pickle
import sys
import threading
from collections import Counter

import pytest
import torch
from support import fill_gaps
from torch.cuda import _memory_viz

MIB = 2**20


def allocate(size, device):
    return torch.empty(size, dtype=torch.uint8, device=device)


@pytest.fixture
def too_much(device, monkeypatch):
    """A size that is refused because no buffer may be that large."""
    largest = torch.ocl.get_device_properties(device).max_allocation
    monkeypatch.setenv("OCL_MAX_BUFFER_MB", str(largest // MIB))  # drivers may grant more
    return largest + 1


@pytest.fixture
def history(device):
    """Records while the test runs, from an empty cache on."""
    gc.collect()
    torch.ocl.empty_cache()
    gaps = fill_gaps(device)
    torch.ocl.record_memory_history(stacks="python", clear_history=True)
    yield
    del gaps
    torch.ocl.record_memory_history(None)
    torch.ocl.set_per_process_memory_fraction(1.0)
    torch.ocl.empty_cache()


def events(device, tensor=None):
    """The history of the device, or of this tensor's address."""
    trace = torch.ocl.memory._snapshot()["device_traces"][torch.device(device).index]
    return [e for e in trace if tensor is None or e.get("addr") == tensor]


def block_at(address):
    (block,) = [
        block
        for segment in torch.ocl.memory_snapshot()
        for block in segment["blocks"]
        if block["address"] == address
    ]
    return block


def functions(entry):
    return [frame["name"] for frame in entry.get("frames", [])]


def test_snapshot_agrees_with_the_statistics(device):
    torch.ocl.empty_cache()
    kept = [allocate(size, device) for size in (1, 700, 3 * MIB, 20 * MIB)]
    kept.pop(1)
    segments = [s for s in torch.ocl.memory_snapshot() if f"ocl:{s['device']}" == device]
    stats = torch.ocl.memory_stats()
    for key, stat in [("total", "reserved"), ("allocated", "allocated"), ("active", "active")]:
        assert sum(s[f"{key}_size"] for s in segments) == stats[f"{stat}_bytes.all.current"]
    assert sum(s["requested_size"] for s in segments) == stats["requested_bytes.all.current"]
    small = sum(s["segment_type"] == "small" for s in segments)
    assert small == stats["segment.small_pool.current"]
    everything = torch.ocl.memory_snapshot()
    default = [s for s in everything if s["segment_pool_id"] == (0, 0)]  # graphs have their own
    assert torch.ocl.memory_snapshot((0, 0)) == default
    assert torch.ocl.memory_snapshot((0, 1), include_traces=False) == []
    for segment in segments:
        ends = [segment["address"]]
        for block in segment["blocks"]:
            assert block["address"] == ends[-1]
            ends.append(block["address"] + block["size"])
        assert ends[-1] == segment["address"] + segment["total_size"]
    for tensor in kept:
        block = block_at(tensor.data_ptr())
        assert block["state"] == "active_allocated"
        assert block["requested_size"] == tensor.numel()


def test_stacks_of_memory_in_use(device, history):
    def the_culprit():
        return allocate(5 * MIB, device)

    x = the_culprit()
    frames = block_at(x.data_ptr())["frames"]
    names = [frame["name"] for frame in frames]
    assert names[:3] == ["allocate", "the_culprit", "test_stacks_of_memory_in_use"]
    assert frames[1]["filename"] == __file__
    line = the_culprit.__code__.co_firstlineno + 1
    assert frames[1]["line"] == line
    address = x.data_ptr()
    del x
    blocks = [b for s in torch.ocl.memory_snapshot() for b in s["blocks"]]
    assert next(b for b in blocks if b["address"] == address).get("frames") is None


def test_history_of_a_tensor(device, history):
    x = allocate(20 * MIB, device)
    address = x.data_ptr()

    def release():
        nonlocal x
        del x

    release()
    torch.ocl.empty_cache()
    trace = events(device, address)
    assert [e["action"] for e in trace] == [
        "segment_alloc",
        "alloc",
        "free_requested",
        "free_completed",
        "segment_free",
    ]
    assert {e["size"] for e in trace} == {20 * MIB}
    assert functions(trace[1])[:2] == ["allocate", "test_history_of_a_tensor"]
    assert functions(trace[2])[0] == "release"
    times = [e["time_us"] for e in trace]
    assert times == sorted(times) and times[-1] - times[0] < 60e6


def test_memory_that_another_stream_uses(device, history):
    x = allocate(MIB, device)
    address, other = x.data_ptr(), torch.ocl.Stream()
    with torch.ocl.stream(other):
        x.fill_(1)
    x.record_stream(other)
    del x
    actions = [e["action"] for e in events(device, address)]
    assert actions[-1] in ("free_requested", "free_completed")
    torch.ocl.empty_cache()  # waits
    actions = Counter(e["action"] for e in events(device, address))
    assert actions["free_requested"] == actions["free_completed"] == 1


@pytest.mark.parametrize("context", [None, "state", "alloc", "all"])
def test_context(device, history, context):
    torch.ocl.record_memory_history(context=context, stacks="python", clear_history=True)
    x = allocate(5 * MIB, device)
    address = x.data_ptr()
    assert bool(functions(block_at(address))) == (context is not None)
    del x
    found = {e["action"]: bool(functions(e)) for e in events(device, address)}
    assert found["alloc"] == (context in ("alloc", "all"))
    assert found["free_requested"] == (context == "all")


def test_events_that_are_kept(device, history):
    torch.ocl.record_memory_history(max_entries=10, stacks="python", clear_history=True)
    for size in range(1, 40):
        allocate(size, device)
    trace = events(device)
    assert len(trace) == 10
    assert trace[-1]["action"] == "snapshot" and trace[-2]["size"] == 39
    torch.ocl.record_memory_history(skip_actions=["free_completed", "snapshot"], clear_history=True)
    allocate(5, device)
    assert [e["action"] for e in events(device)][-2:] == ["alloc", "free_requested"]
    torch.ocl.record_memory_history("state", clear_history=True)
    x = allocate(5, device)
    assert len(events(device)) == 1 and functions(block_at(x.data_ptr()))
    torch.ocl.record_memory_history(None)
    y = allocate(6, device)
    assert events(device) == [] and not functions(block_at(y.data_ptr()))


def test_functions_of_cpp(device, history):
    torch.ocl.record_memory_history(stacks="all", clear_history=True)
    x = allocate(5 * MIB, device)
    names = functions(block_at(x.data_ptr()))
    assert "allocate" in names and any("at::" in name for name in names)


def test_wrong_arguments(device, history):
    for arguments in ({"enabled": "some"}, {"context": "free"}, {"stacks": "cpp"}):
        with pytest.raises(ValueError, match="must be one of"):
            torch.ocl.record_memory_history(**arguments)
    with pytest.raises(ValueError, match='there is no action "fly"'):
        torch.ocl.record_memory_history(skip_actions=["fly"])


def test_backward_pass_in_other_threads(device, history):
    """Stacks are taken without the allocator's lock, which others may wait for with Python's."""
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
    model.to(device)
    stop, failures = threading.Event(), []

    def look():
        try:
            while not stop.is_set():
                torch.ocl.memory._snapshot()
        except Exception as error:
            failures.append(error)

    def train():
        try:
            for _ in range(20):
                model(torch.ones(8, 64, device=device)).sum().backward()
        except Exception as error:
            failures.append(error)

    # Room for the watcher's own entries.
    torch.ocl.record_memory_history(max_entries=3000, stacks="python", clear_history=True)
    watcher, workers = (
        threading.Thread(target=look),
        [threading.Thread(target=train) for _ in range(2)],
    )
    for thread in [watcher, *workers]:
        thread.start()
    for thread in workers:
        thread.join()
    stop.set()
    watcher.join()
    assert not failures
    actions = Counter(e["action"] for e in events(device))
    assert actions["alloc"] and actions["free_completed"]


def test_viewer_reads_the_file(device, history, tmp_path):
    x = allocate(30 * MIB, device)
    y = allocate(3 * MIB, device)
    del x
    torch.ocl.dump_memory_snapshot(tmp_path / "memory.pickle")
    snapshot = pickle.loads((tmp_path / "memory.pickle").read_bytes())
    summary = _memory_viz.segsum(snapshot)
    assert "30.0MiB" in summary or "30.0 MiB" in summary
    text = _memory_viz.trace(snapshot)
    number = torch.device(device).index
    assert f"Device {number} ----------------" in text
    assert text.count("cudaMalloc(") == 2 and "free completed" in text
    for page in (_memory_viz.trace_plot(snapshot), _memory_viz.segment_plot(snapshot)):
        assert "add_local_files" in page and len(page) > 1000
    lines = _memory_viz.memory(snapshot, format_flamegraph=str)
    assert "allocate" in lines and y.numel() == 3 * MIB


def test_names_of_cuda(device):
    """Programs that pick torch.cuda or torch.ocl by the device find the same functions."""
    ours, names = torch.ocl.memory, ("_snapshot", "_dump_snapshot", "_record_memory_history")
    assert all(callable(getattr(ours, name)) for name in names)
    segments, cuda_keys = torch.ocl.memory._snapshot(), ("segments", "device_traces")
    assert all(key in segments for key in cuda_keys)


@pytest.fixture
def observed(device):
    calls, handles = [], [torch.ocl.attach_out_of_memory_observer(lambda *a: calls.append(a))]
    yield calls, handles
    for handle in handles:
        handle.remove()
    torch.ocl.set_per_process_memory_fraction(1.0)


def test_observer(device, observed):
    calls, handles = observed
    torch.ocl.empty_cache()
    gaps = fill_gaps(device)
    total = torch.ocl.get_device_properties(device).total_memory
    limit = torch.ocl.memory_reserved() + 64 * MIB
    torch.ocl.set_per_process_memory_fraction(limit / total)
    kept = allocate(30 * MIB, device)
    with pytest.raises(torch.OutOfMemoryError):
        allocate(100 * MIB, device)
    ((index, requested, may_use, free),) = calls
    assert index == torch.device(device).index and requested == 100 * MIB
    assert abs(may_use - limit) <= 1 and free == may_use - torch.ocl.memory_reserved()
    assert free <= 64 * MIB - kept.numel() + 1
    handles[0].remove()
    with pytest.raises(torch.OutOfMemoryError):
        allocate(100 * MIB, device)
    assert len(calls) == 1
    del gaps


def test_observer_that_fails(device, observed, too_much, monkeypatch):
    """It is reported; the other observers are called, and the error stays what it was."""
    calls, handles = observed
    reported = []
    monkeypatch.setattr(sys, "excepthook", lambda kind, error, trace: reported.append(kind))

    def fail(*sizes):
        raise RuntimeError("no")

    handles.append(torch.ocl.attach_out_of_memory_observer(fail))
    handles.append(torch.ocl.attach_out_of_memory_observer(lambda *a: calls.append(a)))
    with pytest.raises(torch.OutOfMemoryError, match="the largest single buffer is"):
        allocate(too_much, device)
    assert len(calls) == 2 and reported == [RuntimeError]
    with pytest.raises(TypeError, match="must be callable"):
        torch.ocl.attach_out_of_memory_observer(3)


def test_observer_takes_a_snapshot(device, observed, history, too_much):
    """The usual one; the failure is in the history, with its stack."""
    calls, handles = observed
    seen = []

    def look(*sizes):
        seen.append(torch.ocl.memory._snapshot())

    handles.append(torch.ocl.attach_out_of_memory_observer(look))
    with pytest.raises(torch.OutOfMemoryError):
        allocate(too_much, device)
    (snapshot,) = seen
    trace = snapshot["device_traces"][torch.device(device).index]
    (failure,) = [e for e in trace if e["action"] == "oom"]
    assert failure["size"] == too_much and failure["device_free"] == calls[0][3]
    assert "allocate" in functions(failure)
