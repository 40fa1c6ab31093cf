"""Ctrl-C in each phase of work leaves a usable interpreter: what runs afterwards is right."""

import textwrap

import pytest
from support import output_of

HEAD = """
    import gc, os, random, signal, threading, time
    import torch
    import torch.nn.functional as F

    device, random = torch.device("ocl"), random.Random(SEED)
    torch.manual_seed(0)

    def interrupt(step, times=TIMES):
        # Repeats `step` until an interrupt comes, at a random moment.
        for _ in range(times):
            timer = threading.Timer(
                random.uniform(0, 0.05), lambda: os.kill(os.getpid(), signal.SIGINT))
            try:
                timer.start()
                try:
                    while True:
                        step()
                except RuntimeError as error:
                    # LLVM, inside of PoCL, removes its files at the signal, and so a build fails
                    # before Python hears of it.
                    assert "clBuildProgram" in str(error), error
                    time.sleep(60)
            except KeyboardInterrupt:
                pass
            timer.join()
        check()

    def training(where):
        torch.manual_seed(1)
        net = torch.nn.Sequential(
            torch.nn.Conv2d(2, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(),
            torch.nn.Flatten(), torch.nn.Linear(4 * 36, 5)).to(where)
        adam = torch.optim.Adam(net.parameters(), 0.01)
        x, y = torch.randn(6, 2, 8, 8).to(where), torch.arange(6).remainder(5).to(where)
        def step():
            adam.zero_grad()
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            adam.step()
            return loss
        return step

    expected = [step().item() for step in [training("cpu")] for _ in range(3)]

    def check():
        step = training(device)
        losses = [step().item() for _ in range(3)]
        torch.testing.assert_close(torch.tensor(losses), torch.tensor(expected))
        x = torch.arange(100_000, device=device)
        assert (x * 2).sum().item() == 100_000 * 99_999
        assert torch.equal(x.cpu().to(device), x)

    check()
    gc.collect()
    allocated = torch.ocl.memory_allocated()
"""


def run(code, seed):
    head = textwrap.dedent(HEAD).replace("SEED", str(seed)).replace("TIMES", "6")
    return output_of(head + textwrap.dedent(code))


PHASES = {
    "compiling": """
        numbers = iter(range(10**9))
        def step():
            n = next(numbers)
            source = (
                "__kernel void put(__global int *x) "
                "{ x[get_global_id(0)] = get_global_id(0) + %d; }" % n)
            x = torch.zeros(8, dtype=torch.int32, device=device)
            torch.ocl.compile_kernel(source).put(x)
            assert x.tolist() == list(range(n, n + 8))
        interrupt(step, 3)
        """,
    "waiting": """
        x = torch.randn(700, 700, device=device)
        def step():
            for _ in range(3):
                x @ x
            torch.ocl.synchronize()
        interrupt(step)
        """,
    "copies": """
        host = torch.randn(500_000)
        def step():
            assert torch.equal(host.to(device).cpu(), host)
            host.pin_memory().to(device, non_blocking=True)
        interrupt(step)
        """,
    "training": "interrupt(training(device))",
    "replay of a graph": """
        x = torch.zeros(1000, dtype=torch.int64, device=device)
        graph = torch.ocl.Graph()
        with torch.ocl.graph(graph):
            x += 1
            x -= 1
        interrupt(graph.replay)
        assert not x.any()
        """,
    "capture": """
        def step():
            x = torch.ones(100, device=device)
            graph = torch.ocl.Graph()
            with torch.ocl.graph(graph):
                for _ in range(20):
                    x = x * 2
            graph.replay()
            assert x[0].item() == 2**20
        interrupt(step)
        assert not torch.ocl.is_current_stream_capturing()
        """,
    "streams and events": """
        streams = [torch.ocl.Stream() for _ in range(3)]
        def step():
            x = torch.ones(10_000, device=device)
            for stream in streams:
                stream.wait_stream(torch.ocl.current_stream())
                with torch.ocl.stream(stream):
                    x += 1
                    stream.record_event().synchronize()
                torch.ocl.current_stream().wait_stream(stream)
            assert x.sum().item() == 40_000
        interrupt(step)
        """,
    "memory": """
        def step():
            tensors = [torch.empty(random.randrange(1 << 20), device=device) for _ in range(20)]
            del tensors
            torch.ocl.empty_cache()
        interrupt(step)
        gc.collect()
        torch.ocl.synchronize()
        assert torch.ocl.memory_allocated() == allocated
        """,
}


@pytest.mark.parametrize("phase", PHASES)
def test_interrupt(device, phase):
    run(PHASES[phase], seed=len(phase))
