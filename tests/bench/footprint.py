"""Start-up, memory and scaling of ResNet-18 and of large tensors, as JSON.

    python tests/bench/footprint.py [--json FILE]

Start-up is measured in new processes, first with empty caches of programs, then with full ones.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

os.environ["OCL_FALLBACK"] = "error"

import torch
from bench import seconds
from cases import RESNET_STEP, M, small_add

import torch_ocl  # noqa: F401 (the device, also where PyTorch has a GPU of its own)

HERE = pathlib.Path(__file__).parent
BUILD = HERE.parents[1] / "build"
FIRST_STEP = """
import sys, time
sys.path.insert(0, {bench!r})
import torch
from cases import RESNET_STEP
step = RESNET_STEP("ocl")
torch.ocl.synchronize()
begin = time.perf_counter()
step()
torch.ocl.synchronize()
print(time.perf_counter() - begin)
"""
PRODUCT = """
import os, time, torch
a = torch.randn(1024, 1024).to("ocl")
out = a @ a
def once():
    begin = time.perf_counter()
    torch.mm(a, a, out=out); torch.ocl.synchronize()
    return time.perf_counter() - begin
print(min(once() for _ in range(20)))
"""


def output(code, prefix=(), **variables):
    result = subprocess.run(
        [*prefix, sys.executable, "-c", code],
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=True,
    )
    return [float(word) for word in result.stdout.split()]


def import_seconds():
    """What torch_ocl adds to `import torch`."""
    code = "import time; b = time.perf_counter(); import torch; print(time.perf_counter() - b)"
    plain, ours = [], []
    for _ in range(5):
        plain += output(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
        ours += output(code)
    return {"torch": statistics.median(plain), "with torch_ocl": statistics.median(ours)}


def first_step_seconds():
    code = FIRST_STEP.format(bench=str(HERE))
    with tempfile.TemporaryDirectory() as folder:
        # PoCL keeps kernels of its own; both must be empty for a first run.
        caches = {"OCL_CACHE_DIR": f"{folder}/ocl", "POCL_CACHE_DIR": f"{folder}/pocl"}
        pathlib.Path(caches["POCL_CACHE_DIR"]).mkdir()
        return {name: output(code, **caches)[0] for name in ("empty cache", "full cache")}


def cpu_peak(step):
    """Bytes that PyTorch's CPU allocator hands out at most at a time, during a step."""
    with torch.profiler.profile(profile_memory=True) as profile:
        step()
    now = peak = 0
    for event in profile.profiler.kineto_results.events():
        if event.name() == "[memory]":
            now += event.nbytes()
            peak = max(peak, now)
    return peak


def training_memory(steps=10):
    step = RESNET_STEP("ocl")
    for _ in range(3):
        step()
    torch.ocl.synchronize()
    before = torch.ocl.memory_stats()
    held = torch.ocl.memory_allocated()
    torch.ocl.reset_peak_memory_stats()
    for _ in range(steps):
        step()
    torch.ocl.synchronize()
    after = torch.ocl.memory_stats()
    cpu_step = RESNET_STEP("cpu")
    cpu_step()
    new_buffers = after["segment.all.allocated"] - before["segment.all.allocated"]
    return {
        "new buffers in ten steps": new_buffers,
        "peak reserved / peak allocated": torch.ocl.max_memory_reserved()
        / torch.ocl.max_memory_allocated(),
        "peak of a step, bytes": torch.ocl.max_memory_allocated() - held,
        "peak of a step on the CPU, bytes": cpu_peak(cpu_step),
    }


def launch_microseconds():
    """Per call of a small kernel: by the runtime alone, and as an operation on a tensor."""
    run = small_add("ocl")
    seconds(run, "ocl", 3)
    raw, ours = [], []
    for _ in range(5):
        raw.append(float(subprocess.check_output([BUILD / "enqueue_cost"])))
        ours.append(1e6 / 1000 * seconds(run, "ocl", 20))
    return {
        "raw enqueue": statistics.median(raw),
        "x.add_(1), 16 elements": statistics.median(ours),
    }


def scaling():
    """Seconds of an addition per 16M elements, and what a second compute unit brings."""
    found = {}
    for millions in (16, 64, 256):
        a, b = (torch.ones(millions * M, device="ocl") for _ in range(2))
        out = torch.empty_like(a)
        run = lambda a=a, b=b, out=out: torch.add(a, b, out=out)  # noqa: E731
        seconds(run, "ocl", 2)
        best = min(seconds(run, "ocl", 3) for _ in range(5))
        found[f"add {millions}M, ms per 16M"] = 1e3 * best * 16 / millions
        del a, b, out, run
        torch.ocl.empty_cache()
    if torch.ocl.get_device_properties(0).type == "cpu" and len(os.sched_getaffinity(0)) > 1:
        one = output(PRODUCT, prefix=("taskset", "-c", "0"), POCL_MAX_PTHREAD_COUNT="1")[0]
        two = output(PRODUCT, prefix=("taskset", "-c", "0,1"))[0]
        found["matmul 1024^3, speed of two compute units to one"] = one / two
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    begin = time.monotonic()
    found = {
        "device": torch.ocl.get_device_properties(0).name,
        "import, seconds": import_seconds(),
        "first ResNet-18 training step, seconds": first_step_seconds(),
        "ResNet-18 training": training_memory(),
        "launch, microseconds": launch_microseconds(),
        "scaling": scaling(),
    }
    print(json.dumps(found, indent=1))
    if args.json:
        args.json.write_text(json.dumps(found, indent=1) + "\n")
    print(f"{time.monotonic() - begin:.0f} s")


if __name__ == "__main__":
    main()
