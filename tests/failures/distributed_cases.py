"""Collectives of two processes, while calls of the first one fail."""

import datetime
import itertools
import os
import pathlib

import torch
import torch.distributed as dist
from children import Child
from judge import Case, attempt, cases_of, clean, judge_repeatable
from layer import Layer
from scenarios import numbers

TIMEOUT = datetime.timedelta(seconds=20)


def collectives(see, rank):
    x = numbers(3, 5).to("ocl") + rank
    dist.all_reduce(x)
    see(x.cpu())
    parts = [torch.empty(3, 5, device="ocl") for _ in range(2)]
    work = dist.all_gather(parts, x + rank, async_op=True)
    y = x * 2  # meanwhile
    work.wait()
    see(parts[1].cpu() + y.cpu())
    dist.broadcast(y, 1)
    see(y.cpu())
    torch.manual_seed(0)
    net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(5, 2).to("ocl"))
    net(x).sum().backward()
    see(net.module.weight.grad.cpu())


def session(see, rank, store):
    dist.init_process_group(
        "occl", init_method=f"file://{store}", rank=rank, world_size=2, timeout=TIMEOUT
    )
    try:
        collectives(see, rank)
    finally:
        dist.destroy_process_group()


def second_rank(say, hear):
    while (store := hear()) is not None:
        seen, texts, raised = attempt(lambda see: session(see, 1, store))
        say(seen=seen, texts=texts, raised=raised)


def pair(profile, folder):
    """The body of rank 0, which makes rank 1."""

    def body(say, hear):
        other = Child(second_rank, {}, pathlib.Path(folder) / "printed.1")
        number = itertools.count()
        expected_there = []

        def run(see):
            store = f"{folder}/store.{os.getpid()}.{next(number)}"
            other.tell(store)
            try:
                session(see, 0, store)
            finally:
                there = other.hear(110)
                if there is None:
                    see(f"rank 1 died: {other.printed()}")
                elif there["seen"] != expected_there[: len(there["seen"])] and expected_there:
                    see(f"rank 1 saw {there['seen']}")
            if there and there["raised"]:
                see(f"rank 1 raised {there['texts']}")
            expected_there[:] = expected_there or there["seen"]

        layer = Layer()
        expected, texts, raised = attempt(run)
        assert not raised, texts
        for _ in range(2):
            assert attempt(run)[0] == expected
            clean()
        layer.fail()
        before = layer.alive()
        assert attempt(run)[0] == expected
        calls = layer.calls_of_all()
        clean()
        # A new group takes a stream of the pool.
        usual = {name: count - before[name] for name, count in layer.alive().items()}
        cases = cases_of(profile, "distributed", "collectives", calls)
        say(cases=[vars(case) for case in cases])
        while (line := hear()) is not None:
            case = Case(**line)
            say(begin=line)
            outcome, text = judge_repeatable(case, layer, run, expected, usual)
            say(outcome=outcome, text=text)
        other.tell(None)
        other.end(60)

    return body
