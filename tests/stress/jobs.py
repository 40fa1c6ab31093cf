"""The jobs of the threads in threads.py: each uses a device in its own way, and returns tensors.

A job gets a Place and a random.Random, from which all of its numbers come. So the tensors that it
returns are a function of its name, its seed and the device, whatever other threads do meanwhile.
They may still be computed on the current stream.
"""

import concurrent.futures
import dataclasses

import torch

HELPERS = concurrent.futures.ThreadPoolExecutor(4, thread_name_prefix="helper")
KERNEL = "__kernel void scale(__global float* x) { x[get_global_id(0)] *= %d.25f; }"


@dataclasses.dataclass
class Place:
    """A device, a second stream there, and a stream of another device where there is one."""

    device: str
    side: torch.Stream
    guest: torch.Stream


def numbers(random, place, *shape):
    """Numbers from -8 to 8 in steps of 1/16, on the device."""
    generator = torch.Generator().manual_seed(random.getrandbits(32))
    return (torch.randint(-128, 129, shape, generator=generator) / 16).to(place.device)


def size(random):
    return random.choice((24, 64))


def operators(place, random):
    x = numbers(random, place, size(random), 64)
    y = (x @ x.t()).softmax(1)
    generator = torch.Generator(place.device).manual_seed(random.getrandbits(32))
    noise = torch.rand(x.shape, generator=generator, device=place.device)
    whole = (x * 16).long()
    rows = whole[:, 0].abs() % len(x)
    return [y, (x.exp() + noise).sum(1), x.t().contiguous(), whole.cumsum(1)[rows], y.argmax(1)]


def streams(place, random):
    """Two streams take turns, ordered by events; memory of one is freed while the other reads."""
    x = numbers(random, place, 64, 64)
    start = torch.ocl.Event()
    start.record()
    with place.side:
        start.wait()
        y = x * 2 + 1
        x.record_stream(place.side)
        del x
        done = torch.ocl.Event()
        done.record()
    own = torch.ocl.current_stream(place.device)
    for _ in range(random.randrange(3)):
        done.wait()
        y.mul_(0.5)
        place.side.wait_stream(own)
        with place.side:
            y.add_(1)
            done = torch.ocl.Event()
            done.record()
    own.wait_stream(place.side)
    result = y + 0
    y.record_stream(own)
    return [result]


def capture(place, graph, pool=None):
    return torch.ocl.graph(graph, pool, torch.ocl.current_stream(place.device))


def graphs(place, random):
    """Two graphs with one pool of memory, replayed in turn."""
    x, state = numbers(random, place, 24, 64), torch.zeros(64, device=place.device)
    first, second = torch.ocl.Graph(), torch.ocl.Graph()
    with capture(place, first):
        y = (x * 2).tanh()
        state.add_(y.sum(0))
    with capture(place, second, first.pool()):
        state.mul_(0.5)
        z = state + x
    for _ in range(random.randrange(1, 4)):
        first.replay()
        second.replay()
    return [z.clone(), state]


def kernel(place, random):
    x = numbers(random, place, 24, 64)
    library = torch.ocl.compile_kernel(KERNEL % random.randrange(4), device=place.device)
    library.scale(x, threads=x.numel())
    return [x]


def memory(place, random):
    """Many sizes, some of them freed before what used them has run."""
    kept = []
    for _ in range(random.randrange(3, 10)):
        room = torch.full((random.choice((1, 500, 70_000, 600_000)),), 3, device=place.device)
        room.add_(random.randrange(100))
        kept.append(room[::1000].clone())
        if random.random() < 0.2:
            torch.ocl.empty_cache()
    return kept


def network(place, random):
    """(inputs, weights, loss) of a small network, which is not differentiated yet"""
    x = numbers(random, place, 24, 64) / 64
    weights = [(numbers(random, place, 64, n) / 64).requires_grad_() for n in (64, 24)]
    loss = ((x @ weights[0]).relu() @ weights[1]).log_softmax(1)[:, 0].mean().neg()
    return x, weights, loss


def training(place, random):
    x, weights, loss = network(place, random)
    optimizer = torch.optim.SGD(weights, lr=0.1, momentum=0.9)
    for _ in range(random.randrange(1, 4)):
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss = ((x @ weights[0]).relu() @ weights[1]).log_softmax(1)[:, 0].mean().neg()
    return [weight.detach() for weight in weights] + [loss.detach()]


def backward_elsewhere(place, random):
    """Another thread differentiates what this one has computed."""
    _, weights, loss = network(place, random)
    stream = torch.ocl.current_stream(place.device)

    def differentiate():
        with stream:
            return torch.autograd.grad(loss, weights)

    return list(HELPERS.submit(differentiate).result())


def copies(place, random):
    """To another device and to pinned memory, and back."""
    x = numbers(random, place, size(random), 64)
    own = torch.ocl.current_stream(place.device)
    if place.guest.device == own.device:
        place.guest.wait_stream(own)
    with place.guest:
        moved = x.to(place.guest.device, non_blocking=True) * 2
        back = moved.to(place.device)
        place.guest.synchronize()
    pinned = torch.empty(x.shape, pin_memory=True).copy_(x, non_blocking=True)
    own.synchronize()
    again = pinned.to(place.device, non_blocking=True)
    own.synchronize()  # the memory of `pinned` is free from here on
    return [back, again, pinned.clone()]


def loader(place, random):
    """Batches in pinned memory."""
    data = torch.utils.data.TensorDataset(numbers(random, place, 24, 64).cpu())
    batches = torch.utils.data.DataLoader(data, batch_size=8, pin_memory=True)
    return [batch.to(place.device, non_blocking=True) * 2 for (batch,) in batches]


JOBS = {
    job.__name__: job
    for job in (
        *(operators, streams, graphs, kernel, memory),
        *(training, backward_elsewhere, copies, loader),
    )
}
