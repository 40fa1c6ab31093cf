"""Sessions of torch.profiler and torch.autograd.profiler, and what they export."""

import json
import subprocess
import sys

import pytest
import torch
from support import ROOT
from torch.profiler import DeviceType, ProfilerActivity, profile, schedule
from traces import BOTH, Trace, has_clock, profiled


def test_schedule(device, tmp_path):
    x = torch.randn(50).to(device)
    traces = []
    operators = [torch.sin, torch.cos, torch.exp, torch.tan]
    plan = schedule(wait=1, warmup=1, active=2, repeat=2)
    with profile(
        activities=BOTH,
        schedule=plan,
        on_trace_ready=lambda prof: traces.append(Trace(prof, tmp_path)),
    ) as prof:
        for step in range(9):
            operators[step % 4](x)
            prof.step()
    assert len(traces) == 2
    for trace in traces:
        assert [trace.operator_of(e) for e in trace.of["kernel"]] == ["aten::exp", "aten::tan"]
        assert len({e["args"]["correlation"] for e in trace.on_device}) == len(trace.on_device)


def test_repeated_sessions(device, tmp_path):
    x = torch.randn(50).to(device)
    for operator in (torch.sin, torch.cos, torch.tan):
        trace = profiled(lambda: operator(x), tmp_path)  # noqa: B023 (called at once)
        (kernel,) = trace.of["kernel"]
        assert trace.operator_of(kernel) == f"aten::{operator.__name__}"
        x.exp()  # between two sessions: none records it


def test_start_and_stop_while_kernels_are_in_flight(device, tmp_path):
    x = torch.ones(16_000).to(device)
    stream = torch.ocl.Stream()

    def many(operator, count=30):
        for _ in range(count):
            operator(x, out=x)

    many(torch.special.i0e, 1)
    with stream:
        many(torch.special.i0e)
        with profile(activities=BOTH) as prof:
            many(torch.sin)
        many(torch.cos)
    torch.ocl.synchronize()
    trace = Trace(prof, tmp_path)
    assert [trace.operator_of(e) for e in trace.of["kernel"]] == ["aten::sin"] * 30
    assert all(e["dur"] > 0 for e in trace.of["kernel"])


def test_many_commands(device, tmp_path):
    x = torch.ones(4).to(device)

    def body():
        for _ in range(10_000):
            x.neg_()

    trace = profiled(body, tmp_path)
    # How often the host waits depends on how far it runs ahead of the device.
    waits = ("clFinish", "clWaitForEvents")
    calls = [call for call in trace.calls.values() if call["name"] not in waits]
    assert len(trace.of["kernel"]) == len(calls) == 10_000
    if has_clock(device):
        stamps = [e["ts"] for e in trace.of["kernel"]]
        assert stamps == sorted(stamps)
    assert x.tolist() == [1] * 4


def test_activities(device, tmp_path):
    x = torch.randn(50).to(device)
    alone = profiled(x.sin, tmp_path, activities=[ProfilerActivity.PrivateUse1])
    assert len(alone.of["kernel"]) == 1
    assert not alone.of["cpu_op"]
    assert alone.calls
    cpu = profiled(x.sin, tmp_path, activities=[ProfilerActivity.CPU])
    assert not cpu.on_device
    assert [e["name"] for e in cpu.of["cpu_op"]] == ["aten::sin"]


def test_tensorboard_handler(device, tmp_path):
    x = torch.randn(50).to(device)
    handler = torch.profiler.tensorboard_trace_handler(str(tmp_path))
    with profile(activities=BOTH, on_trace_ready=handler):
        x.sin()
    (file,) = tmp_path.glob("*.pt.trace.json")
    names = [e.get("cat") for e in json.loads(file.read_text())["traceEvents"]]
    assert "kernel" in names


def test_autograd_profiler(device):
    """Without Kineto: events before and after each operator."""
    x, small = torch.randn(600, 600).to(device), torch.ones(4).to(device)
    x @ x, small + 1
    with torch.autograd.profiler.profile(use_device="ocl") as prof:
        x @ x
        small + 1
    rows = {row.key: row for row in prof.key_averages()}
    assert {row: rows[row].count for row in ("aten::mm", "aten::add")} == {
        "aten::mm": 1,
        "aten::add": 1,
    }
    if has_clock(device):
        assert "OCL total" in prof.key_averages().table()
        assert rows["aten::mm"].device_time_total > rows["aten::add"].device_time_total > 0


def test_autograd_profiler_with_kineto(device):
    x = torch.randn(50).to(device)
    with torch.autograd.profiler.profile(use_device="ocl", use_kineto=True) as prof:
        x.sin()
    assert [e.name for e in prof.function_events if e.device_type != DeviceType.CPU]


def test_drawing(device, tmp_path):
    pytest.importorskip("matplotlib")
    x = torch.randn(50).to(device)
    profiled(x.sin, tmp_path)
    picture = tmp_path / "trace.png"
    script = ROOT / "tests" / "bench/draw_trace.py"
    command = [sys.executable, str(script), str(tmp_path / "trace.json"), str(picture)]
    subprocess.run(command, check=True)
    assert picture.read_bytes().startswith(b"\x89PNG")
