"""Threads that share a stream, threads that end soon, and threads that share a device."""

import signal
import threading

import pytest
import torch
import torch_ocl._C as backend
from support import DEADLINE, output_of, run_python


def in_thread(function):
    """Runs the function in a thread of its own, and raises what it raised."""
    raised = []

    def run():
        try:
            function()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if raised:
        raise raised[0]


def test_threads_leave_their_kernels_to_the_next(device):
    """Kernel objects belong to threads: a new thread takes the objects of one that has ended."""
    x = torch.arange(12.0, device=device).view(3, 4)

    def work():
        assert (x * 2 + 1).sum().item() == 144
        assert x.t().contiguous().exp().max().item() > 0

    in_thread(work)
    before = backend.kernel_objects()
    for _ in range(300):
        in_thread(work)
    # join() returns a little before the thread has ended: the next may find its table in use.
    assert backend.kernel_objects() < 20 * before


@pytest.mark.parametrize("count", [2, 6])
def test_threads_at_the_same_time(device, count):
    """Each has kernel objects of its own: their arguments do not mix."""
    barrier, wrong = threading.Barrier(count), []

    def work(number):
        x = torch.full((100,), float(number), device=device)
        barrier.wait()
        for _ in range(50):
            if (x * 2 + number).sum().item() != 300 * number:
                wrong.append(number)

    for _ in range(3):
        threads = [threading.Thread(target=work, args=(i,)) for i in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong


def current(stream):
    """The same stream, as torch.ocl.current_stream() returns it."""
    with torch.ocl.stream(stream):
        return torch.ocl.current_stream(stream.device)


@pytest.mark.parametrize("enter", [lambda stream: stream, torch.ocl.stream, current])
def test_threads_enter_a_stream_at_the_same_time(device, enter):
    """Each gets its own former stream back, also where the other enters or leaves meanwhile."""
    stream = torch.ocl.Stream(device)
    shared = enter(stream)
    barrier, seen = threading.Barrier(2, timeout=DEADLINE), {}

    def work(name, own):
        torch.ocl.set_stream(own)
        for _ in range(name):
            barrier.wait()
        with shared:
            inside = torch.ocl.current_stream(device)
            for _ in range(2):
                barrier.wait()
        for _ in range(1 - name):
            barrier.wait()
        seen[name] = inside, torch.ocl.current_stream(device)

    own = [torch.ocl.Stream(device) for _ in range(2)]
    threads = [threading.Thread(target=work, args=each) for each in enumerate(own)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == {name: (stream, former) for name, former in enumerate(own)}


def test_a_capture_leaves_the_faults_of_other_streams(device):
    x, index = torch.arange(5, device=device), torch.tensor([99], device=device)
    other, graph = torch.ocl.Stream(device), torch.ocl.Graph()
    x + 1  # compiles the kernel
    torch.ocl.synchronize(device)
    with other:
        torch.take(x, index)
    with torch.ocl.graph(graph):
        y = x + 1
    graph.replay()
    assert y.tolist() == [1, 2, 3, 4, 5]
    with pytest.raises(IndexError, match="99 is out of bounds"):
        other.synchronize()


def test_streams_of_two_devices_nest(two_devices):
    first, second = (torch.ocl.Stream(device) for device in two_devices)
    with first, second, first:
        assert torch.ocl.current_stream() == first
        assert torch.ocl.current_stream(two_devices[1]) == second
    assert torch.ocl.current_device() == 0
    for device in two_devices:
        assert torch.ocl.current_stream(device) == torch.ocl.default_stream(device)


def test_backward_threads_let_go_before_the_end():
    """PyTorch's threads hold the last references to some gradients after backward() returned.

    Python cannot free those once its interpreter ends: the process would abort.
    """
    output = output_of(
        """
        import atexit, sys, weakref

        last = []
        atexit.register(lambda: print(last[0]() is None))  # runs after what the import registers

        import torch
        from torch_ocl import _C

        sys.setswitchinterval(1000)  # only waits release Python's lock

        def gradient():
            x = torch.ones(3, device="ocl", requires_grad=True)
            return weakref.ref(torch.autograd.grad((x * 2).sum(), x)[0])

        def is_freed(gradient):
            _C.wait_for_backward_threads()
            return gradient() is None

        print(all(is_freed(gradient()) for _ in range(300)))
        last.append(gradient())
        """
    )
    assert output.split() == ["True", "True"]


def test_commands_are_over_at_exit():
    """Drivers may crash where the process ends while their commands run."""
    output = output_of(
        """
        import atexit

        ends = []
        atexit.register(lambda: print(ends[0].query()))  # runs after what the import registers

        import torch

        x = torch.ones(1 << 22, device="ocl")
        for _ in range(100):
            x = x.sin().cos()
        ends.append(torch.ocl.Event())
        ends[0].record()
        """
    )
    assert output == "True"


def test_exit_does_not_wait_for_a_thread_that_never_ends():
    result = run_python(
        """
        import threading, torch

        x, started = torch.ones(1 << 16, device="ocl"), threading.Event()
        def work():
            while True:
                x.sin()
                started.set()
        threading.Thread(target=work, daemon=True).start()
        started.wait()
        print("end")
        """
    )
    # PyTorch aborts where Python ends such a thread inside of an operator, on the CPU, too.
    assert result.stdout == "end\n" and result.returncode in (0, -signal.SIGABRT), result.stderr


def test_no_message_at_exit_without_gradients():
    result = run_python(
        """
        import torch

        torch.ones(3, device="ocl")
        torch.set_grad_enabled(False)
        """
    )
    assert result.returncode == 0 and "Exception ignored" not in result.stderr, result.stderr


def everything(seed, device):
    """Eager operators, a stream, a graph, a user's kernel, training, memory: -> what came out."""
    generator = torch.Generator().manual_seed(seed)
    numbers = torch.rand(64, 64, generator=generator)
    stream, seen = torch.ocl.Stream(device), []
    stream.wait_stream(torch.ocl.current_stream(device))
    with torch.ocl.stream(stream):
        x = numbers.to(device)
        for size in (1, 50, 3000):
            room = torch.full((size * 1000,), float(seed), device=device)
            x = x + room[:64].mean()
            del room
        seen.append((x @ x.t()).softmax(1))
        graph, weights = torch.ocl.Graph(), torch.zeros(64, 64, device=device)
        with torch.ocl.graph(graph, stream=stream):
            weights.add_(x.exp().sum(0))
        for _ in range(3):
            graph.replay()
        seen.append(weights)
        source = f"__kernel void f(__global float* x) {{ x[get_global_id(0)] *= {seed % 2}.5f; }}"
        twice = x.clone()
        torch.ocl.compile_kernel(source, device=device).f(twice, threads=twice.numel())
        seen.append(twice)
        weight = (x / 64).requires_grad_()
        optimizer = torch.optim.SGD([weight], lr=0.1, momentum=0.9)
        for _ in range(3):
            optimizer.zero_grad()
            ((x @ weight).tanh() ** 2).mean().backward()
            optimizer.step()
        seen.append(weight.detach())
        pinned = torch.empty(64, 64, pin_memory=True).copy_(x, non_blocking=True)
        stream.synchronize()
        return [pinned.clone(), *(each.cpu() for each in seen)]


def test_many_threads_get_the_numbers_of_one(device):
    """Bit by bit, whatever other threads do meanwhile. The errors of one of them reach somebody: a
    capture begins with a wait for the whole device."""
    count, rounds = 6, 3
    expected = [everything(seed, device) for seed in range(count)]
    barrier, wrong, errors = threading.Barrier(count + 1), [], []

    def undisturbed(seed):
        while True:
            try:
                return everything(seed, device)
            except IndexError as error:
                errors.append(str(error))

    def work(seed):
        barrier.wait()
        for number in range(rounds):
            seen = undisturbed(seed)
            wrong.extend(
                (seed, number, i)
                for i, (a, b) in enumerate(zip(seen, expected[seed], strict=True))
                if not torch.equal(a, b)
            )

    def fail():
        with torch.ocl.stream(torch.ocl.Stream(device)):
            x, bad = torch.zeros(3, device=device), torch.full((1,), 7, device=device)
            torch.ocl.current_stream(device).synchronize()
            barrier.wait()
            for _ in range(rounds):
                x[bad]
                try:
                    torch.ocl.current_stream(device).synchronize()
                except IndexError as error:
                    errors.append(str(error))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(count)]
    threads.append(threading.Thread(target=fail))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len(errors) == rounds, errors
