"""Long runs, and what the process holds meanwhile: memory, files, threads, objects of OpenCL.

usage: long.py [--training STEPS] [--graphs N] [--compiled N] [--seed S] [--samples N]
               [--minutes M]

Prints a table for each kind of run, with lines through the samples of its second half. The status
is 1 where a count grew more than slopes.py allows, or a result was wrong.
"""

import argparse
import itertools
import math
import random
import sys
import time

import torch
import torch._functorch.config
import torch._inductor.config
import torch._inductor.utils
from slopes import Slopes, return_free_memory
from torch import nn

import torch_ocl  # noqa: F401 (the device, also where PyTorch has a GPU of its own)

BATCHES = (1, 2, 4, 8, 16, 8, 4, 2)  # grow and shrink
STEPS_BETWEEN_NEW_SHAPES = 10
STEPS_BETWEEN_RESETS = 5  # of Dynamo
FUNCTIONS = 20
POINTWISE = ("sin", "tanh", "relu", "neg", "abs", "sigmoid", "exp", "square")


def is_new(step):
    """Whether the shape of this step, from 0, may be one never seen."""
    return step % STEPS_BETWEEN_NEW_SHAPES == STEPS_BETWEEN_NEW_SHAPES - 1


def shapes(draw):
    """Sizes of batches of images, without end: cycles of few, and at times one never seen."""
    new = list(itertools.product(range(1, 8), range(8, 40), range(8, 40)))
    draw.shuffle(new)
    for step in itertools.count():
        if is_new(step):
            batch, *sides = new[step // STEPS_BETWEEN_NEW_SHAPES % len(new)]
            yield batch, 2, *sides
        else:
            yield BATCHES[step % len(BATCHES)], 2, 12, 12


def network():
    layers = nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(4)
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(64, 3))


def training(draw):
    """Steps of a small network's training; the losses of new shapes are compared with the CPU's."""
    torch.manual_seed(draw.getrandbits(32))
    net, on_cpu = network().to("ocl"), network()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)

    def step(number, shape):
        images, classes = torch.rand(shape), torch.randint(3, shape[:1])
        x = images.pin_memory().to("ocl", non_blocking=True)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x), classes.to("ocl"))
        if is_new(number):
            on_cpu.load_state_dict(net.state_dict())
            expected = nn.functional.cross_entropy(on_cpu(images), classes).detach()
        else:
            expected = loss.detach().cpu()
        loss.backward()
        optimizer.step()
        # Equal only where it is a number.
        return torch.allclose(loss.detach().cpu(), expected, rtol=1e-3, atol=1e-4)

    yield from itertools.starmap(step, enumerate(shapes(draw)))


def graphs(draw):
    """Graphs that are captured, replayed and freed."""
    weight = torch.rand(16, 16).to("ocl").requires_grad_()

    def step(size):
        x = torch.full((size, 16), 2.0, device="ocl")
        graph = torch.ocl.Graph()
        with torch.ocl.graph(graph):
            y = x * 2
            (gradient,) = torch.autograd.grad((y @ weight).sum(), weight)
        x.fill_(3)
        graph.replay()
        return (gradient == 6 * size).all().item()

    while True:
        yield step(draw.randrange(1, 9))


def compiled(draw):
    """Compilations of FUNCTIONS functions, over and over. The programs of each are kept."""
    torch._inductor.config.fx_graph_cache = False
    torch._functorch.config.enable_autograd_cache = False
    torch._inductor.config.compile_threads = 1
    x = torch.rand(4, 16).to("ocl")
    functions = [pointwise_function(draw, 1 + number / 64) for number in range(FUNCTIONS)]
    with torch._inductor.utils.fresh_cache():
        for number, function in enumerate(itertools.cycle(functions), 1):
            found, expected = torch.compile(function, fullgraph=True)(x), function(x)
            yield torch.allclose(found.cpu(), expected.cpu(), rtol=1e-4, atol=1e-4)
            if number % STEPS_BETWEEN_RESETS == 0:
                torch._dynamo.reset()
                torch._inductor.utils.clear_caches()


def pointwise_function(draw, factor):
    first, second = (getattr(torch, draw.choice(POINTWISE)) for _ in range(2))
    return lambda x: (second(first(x) * factor) + factor).sum(1)


RUNS = {"training": training, "graphs": graphs, "compiled": compiled}


def run(name, count, args):
    """Describes what was wrong or grew."""
    slopes, wrong = Slopes(name, count, args.samples), []
    results = RUNS[name](random.Random(args.seed))
    end = time.monotonic() + args.minutes * 60
    for step, good in zip(range(1, count + 1), results):
        if not good:
            wrong.append(f"{name}: the result of step {step}")
        slopes.after(step)
        if time.monotonic() > end:
            break
    return wrong + slopes.report()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("usage")[0])
    for name, count in (("training", 100_000), ("graphs", 10_000), ("compiled", 10_000)):
        parser.add_argument(f"--{name}", type=int, default=count, help="steps of this run")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=math.inf, help="of each run, at most")
    parser.add_argument("--samples", type=int, default=100, help="of each run, at least 4")
    args = parser.parse_args()
    torch.set_num_threads(1)
    wrong = []
    for name in RUNS:
        if count := getattr(args, name):
            wrong += run(name, count, args)
            return_free_memory()
    print("\n".join(f"wrong: {each}" for each in wrong) or "nothing grew")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
