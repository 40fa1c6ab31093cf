"""Times the networks on the device at hand, kernel by kernel, for report.py.

usage: measure.py FOLDER [NETWORK ...] [--device cuda] [--steps 10]

Writes FOLDER/NETWORK.DEVICE.json: seconds of a step, and for ocl the launches and seconds of each
kernel in a step, as the device's profile tells. CUDA takes a process of its own, with
TORCH_DEVICE_BACKEND_AUTOLOAD=0.
"""

import argparse
import collections
import json
import pathlib
import statistics
import time

import torch
from networks import NETWORKS
from torch.profiler import ProfilerActivity, profile

ROUNDS = 7


def seconds(run, device, steps):
    """Of a step, on average over `steps`, with the wait for the device."""
    wait = torch.get_device_module(device).synchronize
    wait()
    begin = time.perf_counter()
    for _ in range(steps):
        run()
    wait()
    return (time.perf_counter() - begin) / steps


def kernels_of(run, steps):
    """{kernel: [launches of a step, seconds of a step]}"""
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]) as found:
        for _ in range(steps):
            run()
        torch.ocl.synchronize()
    kernels = collections.defaultdict(lambda: [0, 0.0])
    for event in found.events():
        on_device = event.device_type == torch.autograd.DeviceType.PrivateUse1
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
        "kernels": kernels_of(run, steps) if device == "ocl" else {},
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("networks", nargs="*", choices=[*NETWORKS, []])
    parser.add_argument("--device", choices=["ocl", "cuda"], default="ocl")
    parser.add_argument("--steps", type=int, default=10)
    arguments = parser.parse_args()
    if arguments.device == "ocl":
        import torch_ocl  # noqa: F401 (beside CUDA, the device waits to be asked for)
    arguments.folder.mkdir(parents=True, exist_ok=True)
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
