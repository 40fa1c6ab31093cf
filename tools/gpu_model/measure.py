"""Times the networks on the device at hand, kernel by kernel, for report.py.

usage: measure.py FOLDER [NETWORK ...] [--device cuda] [--steps 10]
       measure.py FOLDER --operators REGULAR_EXPRESSION [--side 8192] [--device cuda]

Writes FOLDER/NETWORK.DEVICE.json: seconds of a step, and the launches and seconds of each kernel in
a step, from the device's profile. With --operators, writes the same of the operators of
goal_cases.py to FOLDER/operators.DEVICE.json: they have matrices of `side` rows and columns, which
should not fit the caches. CUDA needs a process of its own, with TORCH_DEVICE_BACKEND_AUTOLOAD=0.
"""

import argparse
import collections
import json
import os
import pathlib
import re
import statistics
import time

import torch
from networks import NETWORKS
from torch.profiler import ProfilerActivity, profile

ROUNDS = 7


def seconds(run, device, steps):
    """Seconds of a step, averaged over `steps`, including the wait for the device."""
    wait = torch.get_device_module(device).synchronize
    wait()
    begin = time.perf_counter()
    for _ in range(steps):
        run()
    wait()
    return (time.perf_counter() - begin) / steps


def kernels_of(run, device, steps):
    """{kernel: [launches of a step, seconds of a step]}"""
    own = {"ocl": "PrivateUse1", "cuda": "CUDA"}[device]
    activities = [ProfilerActivity.CPU, getattr(ProfilerActivity, own)]
    with profile(activities=activities) as found:
        for _ in range(steps):
            run()
        torch.get_device_module(device).synchronize()
    kernels = collections.defaultdict(lambda: [0, 0.0])
    for event in found.events():
        on_device = event.device_type == getattr(torch.autograd.DeviceType, own)
        if on_device and not event.is_user_annotation:
            row = kernels[event.name]
            row[0] += 1 / steps
            row[1] += 1e-6 * event.time_range.elapsed_us() / steps
    return dict(kernels)


def measure(network, device, steps):
    torch.manual_seed(0)
    run = NETWORKS[network](device)
    seconds(run, device, 3)
    times = [seconds(run, device, steps) for _ in range(ROUNDS)]
    return {
        "device": torch.get_device_module(device).get_device_name(),
        "title": NETWORKS[network].__doc__,
        "seconds": statistics.median(times),
        "kernels": kernels_of(run, device, steps),
    }


def measure_operators(wanted, device, side, steps):
    """{title: {needed, kernels}} of goal_cases.py."""
    os.environ |= {"GOALS_SIDE": str(side), "GOALS_DEVICE": device}
    from goal_cases import CASES

    found = {}
    for case in CASES:
        if not re.search(wanted, case.title):
            continue
        with torch.no_grad():
            run = case.prepare()
            seconds(run, device, 2)
            kernels = kernels_of(run, device, steps)
        found[case.title] = {"needed": case.needed, "kernels": kernels}
        inside = sum(time for _, time in kernels.values())
        print(f"{case.title}: {1e6 * inside:.0f} us in {len(kernels)} kernels", flush=True)
        torch.get_device_module(device).empty_cache()
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("networks", nargs="*", choices=[*NETWORKS, []])
    parser.add_argument("--device", choices=["ocl", "cuda"], default="ocl")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--operators", metavar="REGULAR_EXPRESSION")
    parser.add_argument("--side", type=int, default=8192)
    arguments = parser.parse_args()
    if arguments.device == "ocl":
        import torch_ocl  # noqa: F401 (needed if PyTorch has CUDA)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    if arguments.operators is not None:
        found = measure_operators(
            arguments.operators, arguments.device, arguments.side, arguments.steps
        )
        file = arguments.folder / f"operators.{arguments.device}.json"
        file.write_text(json.dumps(found, indent=1))
        return
    for network in arguments.networks or NETWORKS:
        found = measure(network, arguments.device, arguments.steps)
        file = arguments.folder / f"{network}.{arguments.device}.json"
        file.write_text(json.dumps(found, indent=1))
        launches = sum(count for count, _ in found["kernels"].values())
        inside = sum(time for _, time in found["kernels"].values())
        print(
            f"{network}: {1e3 * found['seconds']:.3f} ms, {launches:.0f} launches, "
            f"{1e3 * inside:.3f} ms in kernels",
            flush=True,
        )


if __name__ == "__main__":
    main()
