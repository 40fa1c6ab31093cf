"""Streams and events: torch.Stream, torch.Event, torch.ocl.Stream and their context managers."""

import threading
import time

import pytest
import torch
from support import on_the_stern_device

# In one task, so that another stream finds a free core.
SMALL = 16_000


def slow_work(x, rounds=100):
    """Leaves zeros in x after much more time on the device than enqueueing takes on the host."""
    for _ in range(rounds):
        torch.special.i0e(x, out=x)
    x.zero_()


def any_of_ten(attempt):
    """Whether an attempt succeeds: a host that loses its core meanwhile finds the work done."""
    return any(attempt() for _ in range(10))


def skip_where_queues_take_turns(device, overlapped):
    """OpenCL lets a driver run one queue after another. CPU runtimes, which also execute what the
    stern device gets, run them at once."""
    if torch.ocl.get_device_properties(device).type == "cpu" or on_the_stern_device():
        return
    if not overlapped:
        pytest.skip("nothing overlapped: this GPU's driver runs one queue after another")


def test_default_and_current_stream(device):
    default = torch.ocl.default_stream()
    assert torch.ocl.current_stream() == default == torch.accelerator.current_stream()
    stream = torch.ocl.Stream()
    assert isinstance(stream, torch.Stream)
    assert stream.device == torch.device(device)
    assert stream != default
    with torch.ocl.stream(stream):
        assert torch.ocl.current_stream() == stream
        with stream:
            assert torch.ocl.current_stream() == stream
        with torch.ocl.stream(None):
            assert torch.ocl.current_stream() == stream
    assert torch.ocl.current_stream() == default
    torch.ocl.set_stream(stream)
    assert torch.ocl.current_stream() == stream
    torch.ocl.set_stream(default)


def test_context_is_left_on_exceptions(device):
    default = torch.ocl.default_stream()
    with pytest.raises(KeyError), torch.ocl.stream(torch.ocl.Stream()):
        raise KeyError
    assert torch.ocl.current_stream() == default


def test_stream_context_makes_its_device_current(two_devices):
    with torch.ocl.device(0), torch.ocl.stream(torch.Stream(device="ocl:1")):
        assert torch.ocl.current_device() == 1
        assert torch.empty(1, device="ocl").device.index == 1
    assert torch.ocl.current_device() == 0


@pytest.mark.parametrize("priority", [0, -1, 1])
def test_priorities(device, priority):
    stream = torch.Stream(device=device, priority=priority)
    with stream:
        assert torch.ones(3).to(device).add(1).cpu().tolist() == [2, 2, 2]
    assert torch.ocl.Stream(device, priority).device == torch.device(device)


def test_query_and_synchronize(device):
    x = torch.ones(SMALL).to(device)
    stream = torch.ocl.Stream()
    torch.ocl.synchronize()
    assert stream.query()

    def is_busy_until_synchronized():
        with stream:
            slow_work(x)
        busy = not stream.query()
        stream.synchronize()
        assert stream.query()
        return busy

    assert any_of_ten(is_busy_until_synchronized)
    with stream:
        slow_work(x)
    torch.ocl.synchronize()
    assert stream.query()


def test_events(device):
    event = torch.Event(device)
    assert event.query(), "an event that was not recorded is done"
    x = torch.ones(SMALL).to(device)
    stream = torch.ocl.Stream()

    def is_pending_until_synchronized():
        with stream:
            slow_work(x)
            event.record()
        pending = not event.query()
        event.synchronize()
        assert event.query() and stream.query()
        return pending

    assert any_of_ten(is_pending_until_synchronized)
    assert isinstance(stream.record_event(), torch.Event)


def test_elapsed_time(device):
    start, end = (torch.ocl.Event(enable_timing=True) for _ in range(2))
    x = torch.ones(SMALL).to(device)
    with pytest.raises((RuntimeError, ValueError)):
        start.elapsed_time(end)
    start.record()
    slow_work(x)
    end.record()
    end.synchronize()
    elapsed = start.elapsed_time(end)
    assert elapsed > 0.1
    assert end.elapsed_time(start) == -elapsed


@pytest.mark.parametrize("wait", [False, True])
def test_overlap_and_wait(device, wait):
    """A short job on one stream ends before a long one on another, unless it waits for it."""
    if torch.ocl.get_device_properties(device).max_compute_units < 2:
        pytest.skip("the device has one core")
    long, short = torch.ocl.Stream(), torch.ocl.Stream()
    x, y = torch.ones(SMALL).to(device), torch.ones(8).to(device)
    for stream in (long, short):  # builds the kernels
        with stream:
            slow_work(x, 1)
            y.sin_()

    def short_ended_first():
        torch.ocl.synchronize()
        long_done, short_done = (torch.ocl.Event(enable_timing=True) for _ in range(2))
        with long:
            slow_work(x, 200)
            long_done.record()
        with short:
            if wait:
                short.wait_event(long_done)
            y.sin_()
            short_done.record()
        torch.ocl.synchronize()
        return long_done.elapsed_time(short_done) < 0

    overlapped = any_of_ten(short_ended_first)
    if not wait:
        skip_where_queues_take_turns(device, overlapped)
    assert overlapped == (not wait)


@pytest.mark.parametrize("how", ["wait_event", "wait_stream", "event.wait", "nothing"])
def test_result_depends_on_the_wait(device, how):
    if torch.ocl.get_device_properties(device).max_compute_units < 2:
        pytest.skip("the device has one core")
    writer, reader = torch.ocl.Stream(), torch.ocl.Stream()
    x, y = torch.empty(SMALL, device=device), torch.empty(SMALL, device=device)

    def read_while_written():
        x.zero_()
        torch.ocl.synchronize()
        with writer:
            slow_work(x, 200)
            x.add_(1)
            event = writer.record_event()
        with reader:
            if how == "wait_event":
                reader.wait_event(event)
            elif how == "wait_stream":
                reader.wait_stream(writer)
            elif how == "event.wait":
                event.wait(reader)
            y.copy_(x)
        torch.ocl.synchronize()
        return y.cpu().unique().tolist()

    # On a busy machine the reader may come late even without a wait, but not always.
    seen = [read_while_written() for _ in range(10)]
    overlapped = any(values != [1.0] for values in seen)
    if how == "nothing":
        skip_where_queues_take_turns(device, overlapped)
    assert overlapped == (how == "nothing"), seen


def test_wait_across_devices(two_devices):
    first, second = (torch.Stream(device=device) for device in two_devices)
    x = torch.zeros(SMALL).to("ocl:0")
    with first:
        slow_work(x)
        x.add_(1)
        event = first.record_event()
    with second:
        second.wait_event(event)
        assert event.query()
        y = torch.ones(SMALL).to("ocl:1")
    torch.ocl.synchronize(1)
    assert torch.equal(x.cpu(), y.cpu())


def test_copy_to_another_device_waits_for_the_stream(two_devices):
    x = torch.zeros(SMALL).to("ocl:0")
    with torch.Stream(device="ocl:0"):
        slow_work(x)
        x.add_(1)
        assert x.to("ocl:1").cpu().eq(1).all()


def test_record_stream(device):
    """Memory in use by another stream is not handed out again before that is done."""
    other = torch.ocl.Stream()

    def is_handed_out_while_in_use(recorded):
        """None if the other stream ended too soon to decide."""
        torch.ocl.synchronize()
        x = torch.ones(SMALL).to(device)
        address = x.data_ptr()
        with other:
            slow_work(x)
        if recorded:
            x.record_stream(other)
        del x
        y = torch.empty(SMALL, device=device)
        handed_out = y.data_ptr() == address
        return None if other.query() else handed_out

    for recorded in (False, True):
        seen = {is_handed_out_while_in_use(recorded) for _ in range(10)} - {None}
        gpu = torch.ocl.get_device_properties(device).type == "gpu" and not on_the_stern_device()
        if not seen and gpu:
            pytest.skip("the GPU is done before the host asks")
        assert seen == {not recorded}
    torch.ocl.synchronize()
    reserved = torch.ocl.memory_reserved()
    blocks = [torch.empty(SMALL, device=device) for _ in range(2)]
    assert torch.ocl.memory_reserved() == reserved, "blocks come back when the stream is done"
    del blocks


def test_event_of_another_device_is_refused(two_devices):
    event = torch.Event("ocl:0")
    event.record(torch.ocl.default_stream(0))
    with pytest.raises((RuntimeError, ValueError)):
        event.record(torch.ocl.default_stream(1))
    with pytest.raises(ValueError, match="events of one device"):
        starts = [torch.Event(d, enable_timing=True) for d in two_devices]
        for index, each in enumerate(starts):
            each.record(torch.ocl.default_stream(index))
            each.synchronize()
        starts[0].elapsed_time(starts[1])


def test_synchronize_waits_for_commands_that_were_flushed(device):
    """Whichever command of the queue was the last before a flush."""
    x, target = torch.zeros(1 << 20, device=device), torch.zeros(7).pin_memory()
    for i in range(1, 40):
        for _ in range(i % 9):
            x.add_(1)
        x.fill_(i)
        target.copy_(x[-7:].clone(), non_blocking=True)
        torch.ocl.synchronize()
        assert target.tolist() == [i] * 7


def test_tables_of_a_convolution_stay_while_another_stream_may_read_them(device):
    """Plans of convolutions are forgotten after 512 shapes, and their memory is used again."""
    x, row = torch.randn(2, 4, 40, device=device), torch.randn(4, 700, device=device)
    weight = torch.randn(3, 4, 3, device=device)
    busy = torch.rand(1 << 18, device=device)
    side = torch.ocl.Stream()
    torch.ocl.synchronize()
    with side:
        expected = torch.conv1d(x, weight)
    torch.ocl.synchronize()
    slow_work(busy)
    result = torch.conv1d(x, weight)
    with side:
        for n in range(50, 650):
            torch.conv1d(row[:, :n], weight)
    assert torch.equal(result.cpu(), expected.cpu())


def test_a_later_fault_stays_with_its_stream(device):
    """A stream raises what another one found before the wait, and not what it found afterwards."""
    first, second = torch.ocl.Stream(device), torch.ocl.Stream(device)
    with first:
        x, outside = torch.zeros(3, device=device), torch.full((1,), 7, device=device)
        first.synchronize()
    second.wait_stream(first)
    with first:
        x[outside]
    while not first.query():  # a busy stream is not checked
        time.sleep(0.001)
    second.synchronize()
    with pytest.raises(IndexError, match="index 7 is out of bounds"):
        first.synchronize()
    with first:
        x[outside]
    second.wait_stream(first)
    with pytest.raises(IndexError, match="index 7 is out of bounds"):
        second.synchronize()


def test_an_old_event_does_not_hide_a_fault(device):
    """The wait for it comes after a wait for the whole stream, or for one that waited before."""
    first, second, third = (torch.ocl.Stream(device) for _ in range(3))
    with first:
        x, outside = torch.zeros(3, device=device), torch.full((1,), 7, device=device)
        first.synchronize()
        old = first.record_event()
        third.wait_stream(first)
        for wait in (lambda: second.wait_event(old), lambda: second.wait_stream(third)):
            x[outside]
            second.wait_stream(first)
            wait()
            with pytest.raises(IndexError, match="index 7 is out of bounds"):
                second.synchronize()


def test_threads_share_an_event(device):
    """Each records it while others wait for the former mark."""
    event, failures = torch.ocl.Event(), []

    def work():
        try:
            with torch.ocl.device(device):
                for _ in range(500):
                    event.record()
                    event.synchronize()
                    event.query()
                    event.wait()
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_a_context_of_a_stream_can_be_entered_twice(device):
    with torch.ocl.device(device):
        former = torch.ocl.current_stream()
        context = torch.ocl.stream(torch.ocl.Stream(device))
        with context, context:
            pass
        assert torch.ocl.current_stream() == former
        with pytest.raises(RuntimeError, match="in the thread that entered it"):
            context.__exit__(None, None, None)
