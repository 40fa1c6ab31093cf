"""Measures the cost of torch.profiler for a network and a chain of small operators.

    python tests/bench/profiling.py [--rounds N]

Prints microseconds per operator of the chain and milliseconds per pass of the network: without a
profiler, with the CPU's activities, and with the device's as well; medians of alternating rounds.
The evaluation after a profile is not counted.
"""

import argparse
import contextlib
import statistics
import sys
import time

import torch
from cases import RESNET, forward_only
from torch.profiler import ProfilerActivity, profile

import torch_ocl  # noqa: F401 (the device, also where PyTorch has a GPU of its own)

CHAIN = 2000
ACTIVITIES = {
    "off": None,
    "CPU": [ProfilerActivity.CPU],
    "CPU and ocl": [ProfilerActivity.CPU, ProfilerActivity.PrivateUse1],
}


def seconds(body, activities):
    context = profile(activities=activities) if activities else contextlib.nullcontext()
    with context:
        begin = time.perf_counter()
        body()
        torch.ocl.synchronize()
        return time.perf_counter() - begin


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", choices=ACTIVITIES)
    arguments = parser.parse_args()
    x = torch.ones(16, device="ocl")
    network = forward_only(*RESNET)("ocl")

    def chain():
        for _ in range(CHAIN):
            x.add_(1)

    kinds = {k: v for k, v in ACTIVITIES.items() if arguments.only in (None, k)}
    for name, body, unit in [
        ("x.add_(1), us", chain, CHAIN / 1e6),
        ("ResNet-18 forward, ms", network, 1e-3),
    ]:
        body()
        times = {kind: [] for kind in kinds}
        for _ in range(arguments.rounds):
            for kind, activities in kinds.items():
                times[kind].append(seconds(body, activities) / unit)
        shown = "".join(
            f"  {kind}: {statistics.median(each):8.2f} (best {min(each):.2f})"
            for kind, each in times.items()
        )
        print(f"{name:<24}{shown}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
