"""torch.profiler: what the device did, when, and who asked for it."""

import json
import warnings

import pytest
import torch
from torch.profiler import DeviceType, profile, record_function
from traces import BOTH, Trace, has_clock, profiled


@pytest.mark.sample
def test_kernels_and_their_operators(device, tmp_path):
    x = torch.randn(40, 50).to(device)
    (x + 1).relu()
    trace = profiled(lambda: (x + 1).relu(), tmp_path)
    kernels = trace.of["kernel"]
    assert [trace.operator_of(e) for e in kernels] == ["aten::add", "aten::clamp_min"]
    assert kernels[0]["name"].startswith("add")
    for kernel in kernels:
        args = kernel["args"]
        assert kernel["pid"] == args["device"] == torch.device(device).index
        assert args["stream"] == kernel["tid"] == 0
        assert kernel["dur"] > 0
        for whole, part, groups in zip(args["global size"], args["local size"], args["grid"]):
            assert whole == part * groups > 0
        call = trace.call_of(kernel)
        assert call["name"] == "clEnqueueNDRangeKernel"
        assert call["args"]["External id"] == args["External id"]
    properties = trace.json["deviceProperties"]
    expected = torch.ocl.get_device_properties(device)
    mine = next(p for p in properties if p["id"] == torch.device(device).index)
    assert (mine["name"], mine["totalGlobalMem"]) == (expected.name, expected.total_memory)


def test_kernels_of_equal_expressions_have_their_own_names(device, tmp_path):
    """`a * b` is the expression of both."""
    x, weight = torch.ones(2, 4, device=device), torch.ones(4, device=device)
    weight * weight
    norm = torch.nn.BatchNorm1d(4).to(device).eval()
    out = norm(x)
    trace = profiled(lambda: (out.sum().backward(), weight * weight), tmp_path)
    names = trace.names()
    assert "batch_norm_scale_f32_f32_f32" in names, names
    assert names[-1] == "mul_f32_f32_f32", names


@pytest.mark.sample
def test_copies(device, tmp_path):
    x, y = torch.randn(3000), torch.empty(3000, device=device)

    def body():
        y.copy_(x)
        y.clone()
        y.cpu()

    trace = profiled(body, tmp_path)
    moved = trace.of["gpu_memcpy"]
    assert {trace.operator_of(e) for e in moved} <= {"aten::copy_", "aten::_copy_from"}
    if torch.ocl.get_device_properties(device).host_unified_memory:
        assert "Map" in trace.names("gpu_memcpy")
    else:
        assert {"Memcpy HtoD", "Memcpy DtoH"} <= set(trace.names("gpu_memcpy"))
    sizes = [e["args"]["bytes"] for e in moved if e["name"] != "Unmap"]
    assert sizes and set(sizes) == {x.nbytes}


def test_reading_a_number_is_a_copy(device, tmp_path):
    x = torch.tensor([2.0, 3.0]).to(device)
    trace = profiled(lambda: x[1].item(), tmp_path)
    (copy,) = (e for e in trace.of["gpu_memcpy"] if e["name"] != "Unmap")
    assert copy["args"]["bytes"] == 4
    assert trace.operator_of(copy) == "aten::_local_scalar_dense"


@pytest.mark.sample
def test_arrows_point_forward(device, tmp_path):
    x = torch.randn(24, 24).to(device)

    def body():
        for _ in range(10):
            (x @ x).softmax(0)
        x.cpu()
        torch.ocl.synchronize()

    trace = profiled(body, tmp_path)
    assert len(trace.on_device) > 20
    starts = {e["id"]: e for e in trace.of["ac2g"] if e["ph"] == "s"}
    ends = {e["id"]: e for e in trace.of["ac2g"] if e["ph"] == "f"}
    finished = max(e["ts"] + e["dur"] for e in trace.calls.values())
    for event in trace.on_device:
        number = event["args"]["correlation"]
        call = trace.call_of(event)
        assert (starts[number]["ts"], starts[number]["tid"]) == (call["ts"], call["tid"])
        assert (ends[number]["ts"], ends[number]["tid"]) == (event["ts"], event["tid"])
        assert starts[number]["ts"] <= ends[number]["ts"]
        operator = trace.operators[event["args"]["External id"]]
        assert operator["tid"] == call["tid"]
        # In microseconds: the two clocks of the host agree to less than one.
        assert operator["ts"] - 2 <= call["ts"] <= operator["ts"] + operator["dur"] + 2
        if has_clock(device):
            assert event["ts"] + event["dur"] <= finished + 500
    if has_clock(device):  # a queue runs one command after the other
        for former, latter in zip(trace.on_device, trace.on_device[1:]):
            # A command that would start before its call is moved after it. The next one stays.
            assert former["ts"] + former["dur"] <= latter["ts"] + 1


def test_synchronisation_is_a_call(device, tmp_path):
    x = torch.ones(10).to(device)

    def body():
        x.add_(1)
        torch.ocl.synchronize()
        event = torch.ocl.current_stream().record_event()
        event.synchronize()

    names = profiled(body, tmp_path).names("privateuse1_runtime")
    assert "clFinish" in names
    assert "clWaitForEvents" in names


def test_queues(device, tmp_path):
    x = torch.randn(100).to(device)
    first, second = torch.ocl.Stream(), torch.ocl.Stream(priority=-1)

    def body():
        x.sin()
        with first:
            x.cos()
        with second:
            x.exp()
        torch.ocl.synchronize()

    trace = profiled(body, tmp_path)
    where = {trace.operator_of(e): e["tid"] for e in trace.of["kernel"]}
    expected = {"aten::sin": 0, "aten::cos": first.stream_id, "aten::exp": second.stream_id}
    assert where == expected
    index = torch.device(device).index
    names = {e["tid"]: e["args"]["name"] for e in trace.of["thread_name"] if e["pid"] == index}
    assert names[0] == "queue 0 (default)"
    assert names[first.stream_id] == f"queue {first.stream_id}"
    assert names[second.stream_id] == f"queue {second.stream_id} (high)"
    (process,) = (
        e["args"]["name"]
        for e in trace.of["process_name"]
        if e["pid"] == index and "ocl" in e["args"]["name"]
    )
    assert process == f"ocl:{index}"


def test_two_devices(two_devices, tmp_path):
    tensors = [torch.randn(100).to(each) for each in two_devices]
    trace = profiled(lambda: [x.sin().cpu() for x in tensors], tmp_path)
    assert [e["pid"] for e in trace.of["kernel"]] == [0, 1]
    names = {e["pid"]: e["args"]["name"] for e in trace.of["process_name"]}
    assert (names[0], names[1]) == two_devices
    assert [p["id"] for p in trace.json["deviceProperties"]] == [0, 1]


@pytest.mark.sample
def test_table(device, tmp_path):
    x = torch.randn(24, 24).to(device)

    def body():
        for _ in range(3):
            (x @ x).exp_()

    with profile(activities=BOTH) as prof:
        body()
    averages = prof.key_averages()
    text = averages.table(sort_by="self_device_time_total")
    for column in ("Self OCL", "Self OCL %", "OCL total", "OCL time avg"):
        assert column in text
    trace = Trace(prof, tmp_path)
    by_name = {row.key: row for row in averages if row.device_type == DeviceType.CPU}
    for operator in ("aten::mm", "aten::exp_"):
        own = [e["dur"] for e in trace.of["kernel"] if trace.operator_of(e) == operator]
        row = by_name[operator]
        assert row.count == 3
        assert row.self_device_time_total == pytest.approx(sum(own), abs=0.1)
        assert row.device_time == pytest.approx(row.device_time_total / 3)
    # Callers have it in total only.
    assert by_name["aten::matmul"].self_device_time_total == 0
    mm = by_name["aten::mm"].device_time_total
    assert by_name["aten::matmul"].device_time_total == pytest.approx(mm)


def test_annotations(device, tmp_path):
    x = torch.randn(500).to(device)

    def body():
        with record_function("outer"):
            x.sin()
            with record_function("inner"):
                x.cos().tan()
        x.exp()

    with profile(activities=BOTH) as prof:
        body()
    trace = Trace(prof, tmp_path)
    spans = {e["name"]: e for e in trace.of["gpu_user_annotation"]}
    assert set(spans) == {"outer", "inner"}
    sin, cos, tan, _ = trace.of["kernel"]
    inner = spans["inner"]
    assert inner["ts"] <= cos["ts"] + 0.01
    assert inner["ts"] + inner["dur"] >= tan["ts"] + tan["dur"] - 0.01
    assert inner["ts"] > sin["ts"] or not has_clock(device)
    # On the host, a range lasts as long as its operators.
    total = sum(e["dur"] for e in (sin, cos, tan))
    (row,) = (e for e in prof.events() if e.name == "outer" and e.device_type == DeviceType.CPU)
    assert row.device_time_total == pytest.approx(total, abs=0.1)


def test_backward_is_linked(device, tmp_path):
    net = torch.nn.Linear(30, 40).to(device)
    x = torch.randn(20, 30).to(device)
    trace = profiled(lambda: net(x).sum().backward(), tmp_path)
    linked = {trace.operator_of(e) for e in trace.of["kernel"]}
    assert {"aten::addmm", "aten::mm", "aten::sum"} <= linked
    threads = {trace.call_of(e)["tid"] for e in trace.of["kernel"]}
    assert len(threads) == 2, "autograd has a thread for the device"


def test_memory(device, tmp_path):
    x = torch.randn(1000, 1000).to(device)
    before = torch.ocl.memory_allocated()
    with profile(activities=BOTH, profile_memory=True, record_shapes=True, with_stack=True) as prof:
        y = x + 1
        z = y * 2
        del y
    during = torch.ocl.memory_allocated() - before
    assert during >= x.nbytes
    rows = {row.key: row for row in prof.key_averages()}
    assert rows["aten::add"].self_device_memory_usage >= x.nbytes
    assert "OCL Mem" in prof.key_averages().table()
    events = [
        e
        for e in Trace(prof, tmp_path).of["cpu_instant_event"]
        if e["name"] == "[memory]" and e["args"]["Device Type"] == 20
    ]
    sizes = [e["args"]["Bytes"] for e in events]
    assert sum(sizes) == during
    assert [size > 0 for size in sizes] == [True, True, False]
    assert events[-1]["args"]["Total Allocated"] == torch.ocl.memory_allocated()
    assert events[-1]["args"]["Total Reserved"] == torch.ocl.memory_reserved()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        timeline = tmp_path / "timeline.json"
        prof.export_memory_timeline(str(timeline), device=device)
    times, sizes = json.loads(timeline.read_text())
    assert max(sum(at) for at in sizes) >= 2 * x.nbytes
    assert len(times) == len(sizes)
    del z


def test_out_of_memory_is_reported(device, tmp_path):
    size = 2 * torch.ocl.get_device_properties(device).total_memory
    with (
        profile(activities=BOTH, profile_memory=True) as prof,
        pytest.raises(torch.OutOfMemoryError),
    ):
        torch.empty(size, dtype=torch.uint8, device=device)
    events = Trace(prof, tmp_path).of["cpu_instant_event"]
    assert [e["args"]["Bytes"] for e in events if e["name"] == "[OutOfMemory]"] == [size]
