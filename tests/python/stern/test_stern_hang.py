"""A driver that hangs: OCL_TIMEOUT turns a wait that would not end into an error, and Ctrl-C ends
it. On the stern device a command hangs until the failures are replaced."""

import textwrap

import pytest
from stern import on_stern, stern_output_of
from test_stern_failures import LAYER

BEGIN = (
    LAYER
    + """
    import os, signal, threading, warnings
    FOREVER = "1000000"
    os.environ["OCL_TIMEOUT"] = FOREVER
    x = torch.arange(6.0, device="ocl")
    pinned = torch.empty(6, pin_memory=True)

    def hang(seconds="1"):
        layer.fail("execution:1+:hang")
        os.environ["OCL_TIMEOUT"] = seconds

    def mend():
        layer.fail()
        os.environ["OCL_TIMEOUT"] = FOREVER
        while True:  # the commands that hung take a while to end
            try:
                return torch.ocl.synchronize()
            except torch.AcceleratorError:
                pass
"""
)
WAITS = """
    event = torch.ocl.Event()
    other = torch.ocl.Stream()
    graph = torch.ocl.Graph()
    with torch.ocl.graph(graph):
        x.mul_(1)

    def of_event():
        event.record()
        event.synchronize()

    def of_other_stream():
        other.wait_stream(torch.ocl.current_stream())
        with other:
            return (x + 1).cpu()

    def of_replay():
        graph.replay()
        torch.ocl.synchronize()

    def of_shared_memory():
        y = x * 2
        y.record_stream(other)
        with other:
            y += 1
        del y
        torch.ocl.empty_cache()

    WAITS = {
        "item": lambda: x[0].item(),
        "cpu": lambda: x.cpu(),
        "tolist": lambda: x.tolist(),
        "from the host": lambda: x.copy_(torch.arange(6.0)),
        "to pinned memory": lambda: pinned.copy_(x),
        "nonzero": lambda: x.nonzero(),
        "device": torch.ocl.synchronize,
        "accelerator": torch.accelerator.synchronize,
        "stream": lambda: torch.ocl.current_stream().synchronize(),
        "event": of_event,
        "other stream": of_other_stream,
        "replay": of_replay,
        "shared memory": of_shared_memory,
        "large tensor": lambda: torch.empty(40 << 20, device="ocl").cpu(),
        "fallback": lambda: torch.linalg.eigvals(x[:4].view(2, 2)),
        "backward": lambda: (x.clone().requires_grad_() * 2).sum().backward() or x.cpu(),
    }
    warnings.simplefilter("ignore")
    for wait in WAITS.values():
        wait()
    torch.ocl.synchronize()
"""


def test_waits_raise():
    """Each names the device and the kernel, and afterwards the device works again."""
    code = """
    for name, wait in WAITS.items():
        hang()
        x.add_(0)
        try:
            wait()
            print("no error:", name)
        except torch.AcceleratorError as error:
            text = str(error)
            parts = "OCL_TIMEOUT", torch.ocl.get_device_name(), "add_i64_f32_f32"
            if not all(part in text for part in parts):
                print("wrong text:", name, text)
        mend()
        assert x.tolist() == [0, 1, 2, 3, 4, 5], (name, x)
    """
    printed = stern_output_of("nvidia_ampere", BEGIN + WAITS + code, OCL_FALLBACK="allow")
    assert "no error" not in printed and "wrong text" not in printed, printed


def test_later_waits_do_not_last():
    """The second wait for what hangs asks once. A command that ended at last makes it usable."""
    code = """
    hang("2")
    y = x + 1
    for n in range(3):
        try:
            y.cpu()
        except torch.AcceleratorError as error:
            print("raised")
        os.environ["OCL_TIMEOUT"] = FOREVER
    mend()
    print(y.tolist())
    """
    lines = stern_output_of("nvidia_ampere", BEGIN + code).splitlines()
    assert lines.count("raised") == 3 and "[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]" in lines


@pytest.mark.parametrize("wait", ["item", "device", "event", "fallback"])
def test_ctrl_c(wait):
    code = f"""
    hang(FOREVER)
    x.add_(0)
    try:
        threading.Timer(0.3, lambda: signal.raise_signal(signal.SIGINT)).start()
        WAITS[{wait!r}]()
        print("no interruption")
    except KeyboardInterrupt:
        print("interrupted")
    mend()
    print(x.tolist())
    """
    lines = stern_output_of(
        "nvidia_ampere", BEGIN + WAITS + code, OCL_FALLBACK="allow"
    ).splitlines()
    assert "interrupted" in lines and "[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]" in lines


STATES = {
    "a tensor": "y = x + 1",
    "a graph": """
        g = torch.ocl.Graph()
        with torch.ocl.graph(g):
            x.add_(1)
        g.replay()""",
    "pinned memory": "pinned.copy_(x, non_blocking=True); del pinned",
    "a profile": """
        activities = torch.profiler.ProfilerActivity
        p = torch.profiler.profile(activities=[activities.CPU, activities.PrivateUse1])
        p.__enter__()
        y = x + 1""",
}


@pytest.mark.parametrize("state", STATES)
def test_exit(state):
    """A process whose device hangs ends with its own status and prints all of its output."""
    code = f"""
    hang()
    for line in [{STATES[state]!r}]:
        try:
            import textwrap
            exec(textwrap.dedent(line))
        except torch.AcceleratorError:
            pass
    try:
        torch.ocl.synchronize()
    except torch.AcceleratorError as error:
        print("OCL_TIMEOUT" in str(error))
    print("done")
    sys.exit(7)
    """
    printed = on_stern("nvidia_ampere", "-c", textwrap.dedent(BEGIN + code), status=7)
    assert {"True", "done"} <= set(printed.splitlines()), printed


def test_slow_commands_after_a_hang_are_waited_for():
    """Each wait has its own time where commands have ended since the one that was given up."""
    code = """
    hang("1")
    x.add_(0)
    try:
        torch.ocl.synchronize()
    except torch.AcceleratorError:
        print("raised")
    os.environ["OCL_TIMEOUT"] = FOREVER
    layer.fail()
    while True:  # until the command that hung has ended
        try:
            torch.ocl.synchronize()
            break
        except torch.AcceleratorError:
            pass
    big = torch.ones(400, 400, device="ocl")
    for _ in range(5):
        big = big @ big / 400
        print(big[0, 0].item())
    """
    lines = stern_output_of("nvidia_ampere", BEGIN + code).splitlines()
    assert lines.count("raised") == 1 and lines.count("1.0") == 5, lines


def test_a_timeout_that_is_no_number():
    with pytest.raises(AssertionError, match="OCL_TIMEOUT must be a number of seconds"):
        stern_output_of(
            "nvidia_ampere", "import torch; torch.ones(1, device='ocl')", OCL_TIMEOUT="x"
        )
