"""Errors that kernels find, of threads that share streams: each reaches its own thread."""

import concurrent.futures
import contextlib
import threading

import pytest
import torch
import torch.nn.functional as F
from support import DEADLINE, skip_in_a_simulator


def together(count, work):
    """Calls work(number) in as many threads, which start at once; -> the errors of all calls."""
    skip_in_a_simulator(reason="launches of two threads end the process")
    barrier, results = threading.Barrier(count, timeout=DEADLINE), [None] * count

    def run(number):
        barrier.wait()
        try:
            results[number] = work(number)
        except BaseException as error:
            results[number] = error

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results


def assert_none_left(device):
    for _ in range(3):
        torch.ocl.synchronize(device)
    assert torch.arange(5.0, device=device).sum().item() == 10


def raised(function):
    try:
        function()
    except (IndexError, RuntimeError) as error:
        return str(error)
    return None


class Indices:
    """x, and an index out of range for each number, that no other number has."""

    def __init__(self, device, count):
        self.x = torch.arange(3.0, device=device)
        self.bad = [torch.full((1,), 1000 + number, device=device) for number in range(count)]
        self.good = torch.full((1,), 2, device=device)
        torch.ocl.synchronize(device)

    def assert_own(self, error, number):
        assert error and f"index {1000 + number} is out of bounds" in error, (number, error)


WAITS = {
    "cpu": lambda y: y.cpu(),
    "item": lambda y: y.item(),
    "stream": lambda y: torch.ocl.current_stream(y.device).synchronize(),
    "device": lambda y: torch.ocl.synchronize(y.device),
    "event": lambda y: torch.ocl.current_stream(y.device).record_event().synchronize(),
    "computed": lambda y: (y * 2 + 1).sum().item(),
}


@pytest.mark.sample
@pytest.mark.parametrize("way", WAITS)
def test_each_fault_reaches_its_thread(device, way):
    """Every second call has no fault, and must raise none."""
    threads, calls, indices = 8, 50, Indices(device, 8)
    wait = WAITS[way]

    def work(number):
        for call in range(calls):
            if (number + call) % 2:
                assert raised(lambda: wait(indices.x[indices.good])) is None
            else:
                error = raised(lambda: wait(indices.x[indices.bad[number]]))
                indices.assert_own(error, number)

    together(threads, work)
    assert_none_left(device)


def test_threads_on_few_streams(device):
    threads, calls, indices = 24, 10, Indices(device, 24)
    streams = [torch.ocl.Stream(device) for _ in range(3)] + [torch.ocl.default_stream(device)]

    def work(number):
        with torch.ocl.stream(streams[number % 4]):
            for _ in range(calls):
                indices.assert_own(raised(indices.x[indices.bad[number]].cpu), number)
                assert indices.x[indices.good].item() == 2

    together(threads, work)
    assert_none_left(device)


def test_first_of_several_faults_of_a_thread(device):
    """Others that the wait covers are forgotten, also when other threads waited in between."""
    indices, done = Indices(device, 3), threading.Event()

    def work(number):
        if number == 0:
            while not done.is_set():
                torch.ocl.synchronize(device)
            return
        for _ in range(100):
            for bad in indices.bad[:2]:
                indices.x[bad]
            indices.assert_own(raised(lambda: torch.ocl.synchronize(device)), 0)
            torch.ocl.synchronize(device)
        done.set()

    together(2, work)
    assert_none_left(device)


def test_a_replay_belongs_to_its_thread(device):
    """The thread that replays raises, not the one that captured. Different threads may replay a
    graph."""
    threads, indices = 4, Indices(device, 4)
    stream, index = torch.ocl.Stream(device), torch.full((1,), 2, device=device)
    graph, lock = torch.ocl.Graph(), threading.Lock()
    with torch.ocl.graph(graph, stream=stream):
        y = indices.x[index]

    def work(number):
        for _ in range(10):
            with lock, torch.ocl.stream(stream):
                index.copy_(indices.bad[number])
                graph.replay()
            indices.assert_own(raised(stream.synchronize), number)
            with lock, torch.ocl.stream(stream):
                index.copy_(indices.good)
                graph.replay()
                assert y.item() == 2

    together(threads, work)
    assert_none_left(device)


class LooksUp(torch.autograd.Function):
    """The identity; its gradient looks up an index."""

    @staticmethod
    def forward(ctx, x, table, index):
        ctx.save_for_backward(table, index)
        return x * 1

    @staticmethod
    def backward(ctx, gradient):
        table, index = ctx.saved_tensors
        return gradient * table[index], None, None


@pytest.mark.parametrize("given", [False, True])
def test_a_backward_pass_belongs_to_its_caller(device, given):
    """PyTorch runs it in a thread of its own, which all callers share."""
    threads, calls, indices = 6, 15, Indices(device, 6)
    ones = torch.ones(1, device=device)

    def work(number):
        x = torch.ones(1, device=device, requires_grad=True)
        for call in range(calls):
            bad = (number + call) % 2 == 0
            y = LooksUp.apply(x, indices.x, indices.bad[number] if bad else indices.good)
            x.grad = None
            y.backward(ones if given else None)
            error = raised(x.grad.cpu)
            if bad:
                indices.assert_own(error, number)
            else:
                assert error is None and x.grad.item() == 2

    together(threads, work)
    assert_none_left(device)


def test_backward_passes_under_a_profile(device):
    indices = Indices(device, 1)
    with torch.profiler.profile():

        def work(_):
            x = torch.ones(1, device=device, requires_grad=True)
            LooksUp.apply(x, indices.x, indices.bad[0]).backward()
            indices.assert_own(raised(x.grad.cpu), 0)

        together(1, work)
    assert_none_left(device)


def test_an_embedding_of_a_thread_that_has_ended(device):
    """The next synchronisation raises faults that no other thread can raise any more, once for each
    thread."""
    weight, bad = torch.zeros(3, 2, device=device), torch.full((2,), 5, device=device)
    torch.ocl.synchronize(device)
    together(3, lambda number: F.embedding(bad + number, weight))
    errors = [raised(lambda: torch.ocl.synchronize(device)) for _ in range(3)]
    for number in range(3):
        assert any(f"index {5 + number} is out of bounds" in str(error) for error in errors)
    assert_none_left(device)


@pytest.fixture
def pool():
    with concurrent.futures.ThreadPoolExecutor(1) as made:
        yield made


def test_a_result_of_a_thread_that_lives_on(device, pool):
    """The thread that reads the result raises once, and so does the thread that computed it."""
    indices = Indices(device, 1)

    def read_good():
        return indices.x[indices.good].item()

    computations = (
        lambda: indices.x[indices.bad[0]],
        lambda: indices.x[indices.bad[0]] * 2,
        # Copies the first tensor before the kernel runs.
        lambda: indices.x.scatter(0, indices.bad[0], 7),
    )
    for compute in computations:
        assert pool.submit(read_good).result() == 2
        y = pool.submit(compute).result()
        indices.assert_own(raised(y.cpu), 0)
        y.cpu()
        indices.assert_own(pool.submit(lambda: raised(read_good)).result(), 0)
    assert pool.submit(read_good).result() == 2
    assert_none_left(device)


def test_other_reads_leave_the_fault(device, pool):
    """The inputs of the kernel and other tensors are right: the thread itself raises, later."""
    indices = Indices(device, 1)
    kept = []

    def launch():
        x, good, bad = (one.clone() for one in (indices.x, indices.good, indices.bad[0]))
        kept.extend((x, good, x[bad]))

    pool.submit(launch).result()
    assert kept[0].tolist() == [0, 1, 2] and kept[1].item() == 2
    torch.ocl.synchronize(device)
    assert indices.x[indices.good].item() == 2
    indices.assert_own(pool.submit(lambda: raised(kept[2].cpu)).result(), 0)
    assert_none_left(device)


def test_an_event_of_a_thread_that_lives_on(device, pool):
    indices = Indices(device, 1)

    def launch():
        indices.x[indices.bad[0]]
        return torch.ocl.current_stream(device).record_event()

    indices.assert_own(raised(pool.submit(launch).result().synchronize), 0)
    assert_none_left(device)


def test_a_stream_that_waits_for_two_threads(device):
    """Events on one stream, each recorded by another thread."""
    indices, other = Indices(device, 2), torch.ocl.Stream(device)
    ready = threading.Barrier(3, timeout=DEADLINE)

    def launch(number):
        indices.x[indices.bad[number]]
        event = torch.ocl.current_stream(device).record_event()
        ready.wait()  # each in a thread of its own
        return event

    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        events = [threads.submit(launch, number) for number in range(2)]
        ready.wait()
        for event in events:
            other.wait_event(event.result())
        errors = {str(raised(other.synchronize)) for _ in events}
    assert all(any(f"index {1000 + number} " in error for error in errors) for number in range(2))
    other.synchronize()
    assert_none_left(device)


def test_hundreds_of_threads_at_a_time(device):
    """Each has a word. Threads that end leave their words to others."""
    indices = Indices(device, 300)
    errors = together(300, lambda number: raised(indices.x[indices.bad[number]].cpu))
    for number, error in enumerate(errors):
        indices.assert_own(error, number)
    for _ in range(300):
        together(1, lambda _: indices.assert_own(raised(indices.x[indices.bad[0]].cpu), 0))
    assert_none_left(device)


def test_a_chain_of_threads(device):
    """Each stream waits for the one before. Who waits for the last event takes the fault of the
    thread that recorded it, and leaves the others' to them."""
    indices, events = Indices(device, 3), []

    def launch(number):
        stream = torch.ocl.Stream(device)
        with torch.ocl.stream(stream):
            for event in events[-1:]:
                stream.wait_event(event)
            indices.x[indices.bad[number]]
            events.append(stream.record_event())

    with contextlib.ExitStack() as stack:
        pools = [stack.enter_context(concurrent.futures.ThreadPoolExecutor(1)) for _ in range(3)]
        for number, one in enumerate(pools):
            one.submit(launch, number).result()
        indices.assert_own(raised(events[-1].synchronize), 2)
        assert [raised(event.synchronize) for event in events[-1:] * 2] == [None, None]
        errors = [
            one.submit(raised, lambda: torch.ocl.synchronize(device)).result() for one in pools
        ]
        for number in range(2):
            indices.assert_own(errors[number], number)
        assert errors[2] is None
    assert_none_left(device)


def test_a_loader_pins_meanwhile(device):
    """The thread that pins memory takes no faults."""
    indices = Indices(device, 1)
    data = torch.utils.data.TensorDataset(torch.arange(60.0))
    for (batch,) in torch.utils.data.DataLoader(data, 3, num_workers=1, pin_memory=True):
        moved = batch.to(device, non_blocking=True)
        indices.assert_own(raised((moved + indices.x[indices.bad[0]]).cpu), 0)
    assert_none_left(device)
