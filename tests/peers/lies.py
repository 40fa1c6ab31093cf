"""Collectives in which one rank has another number or type of elements, as a table.

usage: python lies.py [--collectives all_reduce] [--lies more]

Each is made with ocl tensors and "occl", and with CPU tensors and "gloo", which does not compare
what the ranks call; with ocl tensors also under TORCH_DISTRIBUTED_DEBUG=DETAIL, where PyTorch and
"occl" do. DETAIL must raise an error on both ranks. Otherwise the ranks must end, tensors next to
those of the collective keep their numbers, and the device work. Exits with 1 if there is a defect.
"""

import argparse
import collections
import datetime
import os
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).parents[1] / "python/common"))

import torch
import torch.distributed as dist
from ranks import Rank, temporary_folder
from training import device_works

TRUTH = (4, torch.float32)  # elements and type, of rank 0
LIES = {
    "more": (6, torch.float32),
    "fewer": (2, torch.float32),
    "more, another type": (4, torch.float64),
    "fewer, another type": (4, torch.float16),
    "as many bytes, another type": (4, torch.int32),
}
NOT_COMPARED = ["send"]
GUARD = 77
SHORT = datetime.timedelta(seconds=5)
LIMIT = 120  # seconds after which a rank hangs


class Tensors:
    """Tensors between guards in one memory, of a rank's size and type."""

    def __init__(self, rank, count, dtype, device):
        self.rank, self.count, self.bases = rank, count, []
        self.options = {"dtype": dtype, "device": device}

    def __call__(self, parts=1):
        base = torch.full((self.count * parts + 128,), GUARD, **self.options)
        self.bases.append(base)
        tensor = base[64:-64]
        tensor.copy_(torch.arange(self.count * parts) + 1 + 10 * self.rank)
        return tensor

    def list(self):
        return [*self(2).chunk(2)]

    def guarded(self):
        guards = [part.cpu() for base in self.bases for part in (base[:64], base[-64:])]
        return all((guard == GUARD).all() for guard in guards)


def send(tensors):
    if tensors.rank:
        dist.send(tensors(), 0)
    else:
        dist.recv(tensors(), 1)


COLLECTIVES = {
    "all_reduce": lambda tensors: dist.all_reduce(tensors()),
    "broadcast": lambda tensors: dist.broadcast(tensors(), 0),
    "broadcast of the liar": lambda tensors: dist.broadcast(tensors(), 1),
    "reduce": lambda tensors: dist.reduce(tensors(), 0),
    "all_gather": lambda tensors: dist.all_gather(tensors.list(), tensors()),
    "all_gather_into_tensor": lambda tensors: dist.all_gather_into_tensor(tensors(2), tensors()),
    "reduce_scatter": lambda tensors: dist.reduce_scatter(tensors(), tensors.list()),
    "reduce_scatter_tensor": lambda tensors: dist.reduce_scatter_tensor(tensors(), tensors(2)),
    "all_to_all": lambda tensors: dist.all_to_all(tensors.list(), tensors.list()),
    "all_to_all_single": lambda tensors: dist.all_to_all_single(tensors(2), tensors(2)),
    "gather": lambda tensors: dist.gather(tensors(), None if tensors.rank else tensors.list()),
    "scatter": lambda tensors: dist.scatter(tensors(), None if tensors.rank else tensors.list()),
    "send": send,
}


def body(rank, collective, lie, backend, detail, place):
    def run(say, hear):
        level = dist.DebugLevel.DETAIL if detail else dist.DebugLevel.OFF
        dist.set_debug_level(level)
        os.environ["TORCH_DISTRIBUTED_DEBUG"] = level.name
        options = {"rank": rank, "world_size": 2, "timeout": SHORT, "init_method": place}
        dist.init_process_group(backend, **options)
        device = "ocl" if backend == "occl" else "cpu"
        tensors, text = Tensors(rank, *(LIES[lie] if rank else TRUTH), device), ""
        try:
            COLLECTIVES[collective](tensors)
            tensors.guarded()  # the device has ended
        except RuntimeError as error:
            text = str(error)
        say(text=text, device=device_works(), guarded=tensors.guarded())

    return run


def run(*case):
    """-> what each rank saw, in words, and what is wrong."""
    backend, detail = case[-2:]
    with temporary_folder() as folder:
        ranks = [
            Rank(body(rank, *case, f"file://{folder}/store"), folder / f"printed.{rank}")
            for rank in range(2)
        ]
        try:
            ends = [rank.hear(LIMIT) for rank in ranks]
            printed = [rank.printed() for rank in ranks]
        finally:
            for rank in ranks:
                rank.end()
    seen, wrong = [], []
    for rank, end in enumerate(ends):
        if end is None:
            seen.append("aborted" if "Received data size" in printed[rank] else "died")
        elif not end["text"]:
            seen.append("no error")
        else:
            seen.append("mismatch" if "mismatch between" in end["text"] else "connection lost")
        if end and not (end["device"] and end["guarded"]):
            wrong.append(f"rank {rank}: {end}")
    if "died" in seen:
        wrong.append(f"died: {printed}")
    if detail and case[0] not in NOT_COMPARED and seen != ["mismatch"] * 2:
        wrong.append("not found")
    if backend == "occl" and not detail and "mismatch" in seen:
        wrong.append("found without being asked")
    return ", ".join(seen), wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--collectives", nargs="+", choices=COLLECTIVES, default=[*COLLECTIVES])
    parser.add_argument("--lies", nargs="+", choices=LIES, default=[*LIES])
    args = parser.parse_args()
    counts, defects = collections.Counter(), 0
    print(
        "| collective | rank 1 has | gloo | occl | occl, DETAIL |\n| --- | --- | --- | --- | --- |"
    )
    for collective in args.collectives:
        for lie in args.lies:
            cells = []
            for backend, detail in ("gloo", False), ("occl", False), ("occl", True):
                seen, wrong = run(collective, lie, backend, detail)
                cells.append(f"DEFECT: {wrong}" if wrong else seen)
                counts[backend, detail, seen] += 1
                defects += bool(wrong)
            print(f"| {collective} | {lie} | {' | '.join(cells)} |", flush=True)
    print(f"{sum(counts.values())} cases, {defects} defects")
    sys.exit(defects > 0)


if __name__ == "__main__":
    main()
