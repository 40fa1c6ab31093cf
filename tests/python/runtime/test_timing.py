"""Times of events and of torch.utils.benchmark."""

import pytest
import torch
from torch.utils.benchmark import Compare, Timer
from traces import has_clock, profiled


def test_event_times_are_those_of_the_profile(device, tmp_path):
    if not has_clock(device):
        pytest.skip("the driver has no clock")
    x = torch.randn(700, 700).to(device)
    x @ x
    start, end = (torch.ocl.Event(enable_timing=True) for _ in range(2))

    def body():
        torch.ocl.synchronize()
        start.record()
        for _ in range(5):
            x @ x
        end.record()

    trace = profiled(body, tmp_path)
    first, last = trace.of["kernel"][0], trace.of["kernel"][-1]
    kernels = (last["ts"] + last["dur"] - first["ts"]) / 1000
    assert kernels <= start.elapsed_time(end) <= kernels + 20


def test_benchmark_timer_waits_for_the_device(device):
    """Without synchronisation it would count the time to enqueue."""
    x = torch.randn(900, 900).to(device)
    start, end = (torch.ocl.Event(enable_timing=True) for _ in range(2))
    x @ x
    start.record()
    x @ x
    end.record()
    end.synchronize()
    results = [
        Timer("x @ x", globals={"x": x}, label="products", sub_label=name, description="900")
        for name in ("first", "second")
    ]
    results = [each.timeit(3) for each in results]
    if has_clock(device):
        for each in results:
            assert each.mean * 1000 > start.elapsed_time(end) / 3
    table = str(Compare(results))
    assert "first" in table and "products" in table
