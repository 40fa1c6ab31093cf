"""Randomised stress of the allocator, views, copies and the fallback, over two streams and two
devices, against CPU tensors as the plain model. A failure prints the seed and the last steps."""

import gc
import random
import time

import pytest
import torch

pytestmark = pytest.mark.fallback_allowed
SECONDS = 5
# PoCL keeps 128 kernels loaded, and is not safe when two queues load one again at the same time.
TYPES = [torch.float32, torch.int64, torch.float16]
LIBRARY = torch.library.Library("ocl_stress", "DEF")
LIBRARY.define("reverse(Tensor x) -> Tensor")
LIBRARY.impl("reverse", lambda x: x.flip(tuple(range(x.dim()))), "CPU")


class Pair:
    """A tensor on a device, its model, and the stream that it belongs to."""

    def __init__(self, tensor, model, stream):
        self.tensor, self.model, self.stream = tensor, model, stream


class World:
    """Pairs of tensors; each step changes some at random, on both sides."""

    def __init__(self, seed, devices):
        self.random = random.Random(seed)
        self.streams = {
            device: [torch.ocl.default_stream(device), torch.ocl.Stream(device)]
            for device in devices
        }
        self.scratch = {}
        for stream in (stream for each in self.streams.values() for stream in each):
            with stream:
                self.scratch[stream] = torch.ones(10_000).to(stream.device)
        self.pairs, self.log = [], []
        self.steps = [getattr(self, name) for name in dir(self) if name.startswith("step_")]

    def stream(self, device=None):
        device = device or self.random.choice(list(self.streams))
        return self.random.choice(self.streams[device])

    def shape(self):
        sizes = [0, 1, 2, 3, 5, 8, 17, 64, 300]
        return [self.random.choice(sizes) for _ in range(self.random.randrange(4))]

    def model(self, shape, dtype):
        generator = torch.Generator().manual_seed(self.random.getrandbits(32))
        return torch.randint(0, 100, shape, generator=generator).to(dtype)

    def pick(self, stream=None):
        """A pair on the stream, or None."""
        choices = [pair for pair in self.pairs if stream in (None, pair.stream)]
        return self.random.choice(choices) if choices else None

    def step(self):
        step = self.random.choice(self.steps)
        self.log = [*self.log[-20:], step.__name__]
        step()
        if len(self.pairs) > 40 or sum(p.model.numel() for p in self.pairs) > 20_000_000:
            del self.pairs[: len(self.pairs) // 2]

    def check_all(self):
        for pair in self.pairs:
            self.check(pair)

    def check(self, pair):
        with pair.stream:
            found = pair.tensor.cpu()
        assert found.dtype == pair.model.dtype and found.shape == pair.model.shape
        assert torch.equal(found, pair.model), "the values differ"

    def step_new(self):
        stream, model = self.stream(), self.model(self.shape(), self.random.choice(TYPES))
        with stream:
            pinned = model.pin_memory() if self.random.random() < 0.3 else model
            tensor = pinned.to(stream.device, non_blocking=self.random.random() < 0.5)
        self.pairs.append(Pair(tensor, model.clone(), stream))

    def step_drop(self):
        if self.pairs:
            self.pairs.pop(self.random.randrange(len(self.pairs)))

    def drop_all_of(self, pair):
        storage = pair.model.untyped_storage().data_ptr()
        self.pairs = [p for p in self.pairs if p.model.untyped_storage().data_ptr() != storage]

    def step_busy(self):
        """Delays what comes next on a stream."""
        stream = self.stream()
        with stream:
            for _ in range(20):
                self.scratch[stream].sin_()

    def step_check(self):
        if pair := self.pick():
            self.check(pair)

    def step_view(self):
        """A view that shares memory with its base, in the model as on the device."""
        pair = self.pick()
        if not pair or pair.model.dim() == 0:
            return
        d = self.random.randrange(pair.model.dim())
        n = pair.model.shape[d]
        start = self.random.randrange(n + 1)
        views = [
            lambda x: x.transpose(0, d),
            lambda x: x.narrow(d, start, n - start),
            lambda x: x.unsqueeze(d),
            lambda x: x[(slice(None),) * d + (slice(start, None, 2),)],
        ]
        view = self.random.choice(views)
        self.pairs.append(Pair(view(pair.tensor), view(pair.model), pair.stream))

    def step_in_place(self):
        if pair := self.pick():
            with pair.stream:
                pair.tensor.add_(1)
            pair.model.add_(1)

    def step_fill(self):
        if pair := self.pick():
            value = self.random.randrange(2)
            with pair.stream:
                pair.tensor.fill_(value)
            pair.model.fill_(value)

    def step_operator(self):
        if pair := self.pick():
            with pair.stream:
                tensor = pair.tensor * 3
            self.pairs.append(Pair(tensor, pair.model * 3, pair.stream))

    def step_fallback(self):
        """An operator of the tests' own, with a CPU implementation only."""
        if pair := self.pick():
            with pair.stream:
                tensor = torch.ops.ocl_stress.reverse(pair.tensor)
            model = torch.ops.ocl_stress.reverse(pair.model)
            self.pairs.append(Pair(tensor, model, pair.stream))

    def step_copy_into(self):
        """From another pair of the same stream or from the host."""
        target = self.pick()
        if not target:
            return
        source = self.pick(target.stream)
        if source.model.numel() == 0 or source.model.untyped_storage().data_ptr() == (
            target.model.untyped_storage().data_ptr()
        ):
            return
        same = source.model.shape == target.model.shape
        with target.stream:  # flatten() may copy, too
            target.tensor.copy_(source.tensor if same else source.tensor.flatten()[0])
        target.model.copy_(source.model if same else source.model.flatten()[0])

    def step_other_stream_or_device(self):
        """Reads a tensor from another stream, as record_stream() and wait_stream() allow."""
        if not (pair := self.pick()):
            return
        stream = self.stream()
        if stream.device == pair.stream.device:
            stream.wait_stream(pair.stream)
            with stream:
                tensor = pair.tensor.clone()
            if self.random.random() < 0.5:
                pair.stream.wait_stream(stream)  # later writes wait for this read
            else:  # nothing waits, but the memory is not used again before it
                pair.tensor.record_stream(stream)
                self.drop_all_of(pair)
        else:
            with pair.stream:
                moved = pair.tensor.to(stream.device)
            torch.ocl.current_stream(stream.device).synchronize()
            with stream:
                tensor = moved.clone()
            moved.record_stream(stream)
        self.pairs.append(Pair(tensor, pair.model.clone(), stream))

    def step_empty_cache(self):
        if self.random.random() < 0.1:
            torch.ocl.empty_cache()

    def step_synchronize(self):
        torch.ocl.synchronize(self.random.choice(list(self.streams)))


def allocated(devices):
    """Bytes in use, without garbage and without frees that wait for a stream."""
    gc.collect()
    for device in devices:
        torch.ocl.synchronize(device)
    torch.ocl.empty_cache()
    return {device: torch.ocl.memory_allocated(device) for device in devices}


def run(seed, devices):
    before = allocated(devices)
    world = World(seed, devices)
    end = time.monotonic() + SECONDS
    count = 0
    try:
        while time.monotonic() < end:
            world.step()
            count += 1
        world.check_all()
    except Exception as error:
        error.add_note(f"seed {seed}, step {count}, last steps: {world.log}")
        raise
    assert count > 100
    del world
    assert allocated(devices) == before, "memory leaks"


@pytest.mark.parametrize("seed", [1])
def test_two_streams(device, seed):
    run(seed, [device])


@pytest.mark.parametrize("seed", [2, 3])
def test_two_streams_and_two_devices(two_devices, seed):
    run(seed, list(two_devices))
