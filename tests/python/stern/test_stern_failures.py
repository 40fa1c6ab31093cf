"""Failing OpenCL calls, as a program sees them: a sample of `make stern-failures`."""

import pytest
from stern import on_stern, stern_output_of
from support import ROOT

CAMPAIGN = ROOT / "tests" / "failures" / "run.py"
LAYER = f"""
    import sys
    sys.path.insert(0, {str(CAMPAIGN.parent)!r})
    import ctypes, torch
    from layer import Layer
    layer = Layer()
"""


def test_failing_calls():
    """Cases that were wrong once, and some that a seed draws."""
    printed = on_stern(
        "nvidia_ampere",
        str(CAMPAIGN),
        *("--profiles", "nvidia_ampere", "--modes", "warm"),
        *("--scenarios", "tensors", "fallback", "kernels", "--sample", "6", "--seed", "0"),
    )
    assert " 0 defects" in printed.splitlines()[-1], printed


def test_memory_runs_out_in_a_training_step():
    """Some of the requests of a step: torch.OutOfMemoryError, and the parameters are as before."""
    printed = on_stern(
        "nvidia_ampere",
        str(CAMPAIGN.with_name("out_of_memory.py")),
        *("--optimizers", "SGD", "--earlier-steps", "0", "--every", "23"),
        OCL_MEMORY_CACHING="0",
    )
    assert "0 defects" in printed.splitlines(), printed


def test_a_failed_reference_takes_none():
    """The header opencl.hpp releases an object that it has failed to retain after a query, so that
    others lose it."""
    code = """
    x = torch.ones(8, device="ocl")
    start, end = (torch.ocl.Event(enable_timing=True) for _ in range(2))
    start.record(), end.record()
    end.synchronize()

    def uses():
        place = torch.ocl.buffer(x)
        yield lambda: torch.ocl.from_buffer(place, (8,), offset=place.offset)
        yield lambda: torch.ocl.ExternalStream(torch.ocl.queue())
        yield lambda: start.elapsed_time(end)

    for entry in ("Device", "Context", "CommandQueue", "MemObject"):
        for _ in range(8):
            for use in uses():
                layer.fail(f"clRetain{entry}:1+:-6")
                try:
                    use()
                except torch.AcceleratorError as error:
                    assert "CL_OUT_OF_HOST_MEMORY" in str(error), error
                layer.fail()
                use()
    print((x + 1).sum().item())
    """
    assert "16.0" in stern_output_of("nvidia_ampere", LAYER + code).splitlines()


def test_a_context_of_the_user_that_cannot_be_kept():
    code = """
    opencl = ctypes.CDLL("libOpenCL.so.1")
    opencl.clCreateContext.restype = ctypes.c_void_p
    devices = (ctypes.c_void_p * 1)(torch.ocl.device_id())
    context = opencl.clCreateContext(None, 1, devices, None, None, None)
    for n in (1, 2, 3):
        layer.fail(f"clRetainContext:{n}:-6")
        try:
            torch.ocl.use_context(context)
            print("used")
        except torch.AcceleratorError as error:
            print(str(error).splitlines()[0])
    layer.fail()
    assert torch.ocl.context(torch.ocl.use_context(context)) == context
    print(torch.ones(3, device="ocl").sum().item())
    """
    lines = stern_output_of("nvidia_ampere", LAYER + code).splitlines()
    refused = [line for line in lines if "CL_OUT_OF_HOST_MEMORY" in line]
    assert len(refused) >= 2, lines
    assert all(line.startswith("the context cannot be used: ") for line in refused[:2]), lines
    assert "3.0" in lines


@pytest.mark.parametrize("read", ["y.cpu()", "other.synchronize()", "y.sum().item()"])
def test_a_stream_tells_of_those_it_waited_for(read):
    """Also of the streams for which those had waited; once, and not of later commands."""
    code = f"""
    one, other = torch.ocl.Stream(), torch.ocl.Stream()

    def run():
        with torch.ocl.stream(one):
            x = torch.full((1000,), 3.0, device="ocl") * 2
        other.wait_stream(one)
        with torch.ocl.stream(other):
            y = x + 1
            x.record_stream(other)
        torch.ocl.current_stream().wait_stream(other)
        {read}

    run()
    torch.ocl.synchronize()
    layer.fail("execution:1:-5")
    try:
        run()
    except torch.AcceleratorError as error:
        print("another stream" in str(error) and "CL_OUT_OF_RESOURCES" in str(error))
    run()
    torch.ocl.synchronize()
    print("once")
    """
    printed = stern_output_of("nvidia_ampere", LAYER + code)
    assert printed.split()[:3] == ["True", "once", "done"], printed


def test_a_stream_asks_those_whose_later_commands_have_ended():
    """Both are told, because the later command may have been the one that failed."""
    code = """
    import time
    one, x = torch.ocl.Stream(), torch.ones(1000, device="ocl")
    y = torch.zeros(1000, device="ocl")

    def run():
        with torch.ocl.stream(one):
            z = x * 2
        torch.ocl.current_stream().wait_stream(one)
        with torch.ocl.stream(one):
            y.add_(1)
        while not one.query():
            time.sleep(0.01)
        return z

    run()  # allocates
    torch.ocl.synchronize()
    layer.fail("execution:1:-5")
    z = run()
    for read in (z.cpu, one.synchronize):
        try:
            read()
            print("fine")
        except torch.AcceleratorError as error:
            print("raised", "another" in str(error))
    """
    printed = stern_output_of("nvidia_ampere", LAYER + code)
    assert printed.split()[:5] == ["raised", "True", "raised", "False", "done"], printed


def test_a_stream_asks_those_of_which_only_markers_are_late():
    """A loaded machine may take long for them."""
    code = """
    import threading, time
    one, x = torch.ocl.Stream(), torch.ones(1000, device="ocl")

    def run():
        with torch.ocl.stream(one):
            z = x * 2
        torch.ocl.current_stream().wait_stream(one)
        while not torch.ocl.current_stream().query():
            time.sleep(0.001)
        return z

    run()  # allocates
    torch.ocl.synchronize()
    layer.fail("execution:1:-5")
    z = run()
    layer.fail("execution:1:hang")
    one.record_event()
    threading.Timer(0.5, layer.fail).start()
    try:
        z.cpu()
        print("fine")
    except torch.AcceleratorError as error:
        print("another" in str(error))
    """
    printed = stern_output_of("nvidia_ampere", LAYER + code)
    assert printed.split()[:1] == ["True"], printed


def test_a_stream_tells_of_errors_that_kernels_of_others_found():
    code = """
    one, table = torch.ocl.Stream(), torch.zeros(4, device="ocl")
    index = torch.tensor([9], device="ocl")
    torch.ocl.synchronize()
    with torch.ocl.stream(one):
        y = table[index]
    torch.ocl.current_stream().wait_stream(one)
    for _ in range(2):
        try:
            y.cpu()
            print("fine")
        except IndexError as error:
            print("raised")
    """
    assert stern_output_of("nvidia_ampere", LAYER + code).split() == ["raised", "fine", "done"]
