"""Latency of small collectives: "occl" on ocl tensors against "gloo" on CPU tensors.

usage: python latency.py [--calls 1000] [--bytes 4 1024] [--most 2.0]

Two processes call both in turns, so that a busy machine disturbs both alike. A call ends when
torch.ocl.synchronize() has returned. Its time is the mean of the processes', because one that comes
late to each of the calls would wait less for its peer. With --most, exits with 1 if a ratio of
10th percentiles is above it: these depend least on what else the machine does.
"""

import argparse
import pathlib
import statistics
import sys
import time

sys.path.append(str(pathlib.Path(__file__).parents[1] / "python/common"))

import torch
import torch.distributed as dist
from ranks import Rank, temporary_folder

LIMIT = 500  # seconds after which a rank hangs
WARM_UP = 50  # calls


def seconds_of(tensor, group):
    begun = time.perf_counter()
    dist.all_reduce(tensor, group=group)
    if tensor.device.type == "ocl":
        torch.ocl.synchronize()
    return time.perf_counter() - begun


def body(rank, place, sizes, calls):
    def run(say, hear):
        torch.ocl.set_device(rank % torch.ocl.device_count())
        dist.init_process_group("occl", init_method=place, rank=rank, world_size=2)
        gloo = dist.new_group(backend="gloo")
        for size in sizes:
            pairs = [(torch.zeros(size // 4), gloo), (torch.zeros(size // 4, device="ocl"), None)]
            times = [[seconds_of(*pair) for pair in pairs] for _ in range(WARM_UP + calls)]
            say(size=size, times=times[WARM_UP:])
        dist.destroy_process_group()

    return run


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--bytes", type=int, nargs="+", default=[4, 1024])
    parser.add_argument("--most", type=float, help="10th percentile of occl over gloo's")
    args = parser.parse_args()
    ratios = []
    print("| bytes | | gloo, us | occl, us | ratio |\n| --- | --- | --- | --- | --- |")
    with temporary_folder() as folder:
        place = f"file://{folder}/store"
        ranks = [
            Rank(body(rank, place, args.bytes, args.calls), folder / f"printed.{rank}")
            for rank in range(2)
        ]
        for _ in args.bytes:
            lines = [rank.hear(LIMIT) for rank in ranks]
            times = torch.tensor([line["times"] for line in lines]).mean(0)
            columns = [statistics.quantiles(column, n=10) for column in times.T.tolist()]
            for name, index in ("10th percentile", 0), ("median", 4), ("90th percentile", 8):
                gloo, occl = (column[index] * 1e6 for column in columns)
                ratio = occl / gloo
                print(f"| {lines[0]['size']} | {name} | {gloo:.0f} | {occl:.0f} | {ratio:.2f} |")
                if index == 0:
                    ratios.append(ratio)
        for rank in ranks:
            rank.wait(LIMIT)
    if args.most is not None and max(ratios) > args.most:
        sys.exit(f"occl takes {max(ratios):.2f} times gloo's time, more than {args.most}")


if __name__ == "__main__":
    main()
