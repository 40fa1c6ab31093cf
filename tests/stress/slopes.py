"""Samples the resources of a process while it works, and fits lines to the samples."""

import ctypes
import gc
import os
import pathlib
import sys
import threading

import torch

from torch_ocl import _C

# The most that a count may grow over the second half of a run, by the line through its samples.
BOUNDS = {
    "resident (MiB)": 24,
    # Tables of convolutions rise by 1 KiB a shape and are freed at 512 shapes: a run of 2,000 to
    # 50,000 steps may end in such a rise.
    "allocated (KiB)": 64,
    "reserved (KiB)": 2048,  # one small segment
    "pinned (KiB)": 1,
    "open files": 1,
    "threads of Python": 1,
    "threads": 2,
    "kernel objects": 2,
    "programs made": None,  # a new shape or function may need one
    "contexts": 0.5,
    "queues": 0.5,
    "buffers": 2,
    "programs": 2,
    "kernels": 2,
    "events": 4,
    "maps": 0.5,
}
# Growth in single runs: on CPUs, too, Dynamo keeps about 50 KiB of each compilation (PyTorch 2.13).
OTHER_BOUNDS = {"compiled": {"resident (MiB)": None}}


def opencl_objects():
    """{kind: how many are alive}; empty where no stern layer counts them"""
    if "OPENCL_LAYERS" not in os.environ:
        return {}
    failures = str(pathlib.Path(__file__).resolve().parents[1] / "failures")
    if failures not in sys.path:
        sys.path.insert(0, failures)
    from layer import Layer

    return Layer().alive()


def return_free_memory():
    """glibc gives back what is free, so that the resident size is what is in use."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim:
        trim(0)


def sample():
    """{name of BOUNDS: number}, once all commands have ended"""
    _C.wait_for_backward_threads()
    return_free_memory()
    torch.ocl.synchronize()
    status = pathlib.Path("/proc/self/status").read_text().split()
    return {
        "resident (MiB)": int(status[status.index("VmRSS:") + 1]) / 1024,
        "allocated (KiB)": torch.ocl.memory_allocated() / 1024,
        "reserved (KiB)": torch.ocl.memory_reserved() / 1024,
        "pinned (KiB)": torch.ocl.host_memory_stats()["allocated_bytes.current"] / 1024,
        "open files": len(list(pathlib.Path("/proc/self/fd").iterdir())),
        "threads of Python": threading.active_count(),
        "threads": int(status[status.index("Threads:") + 1]),
        "kernel objects": _C.kernel_objects(),
        "programs made": sum(_C.program_cache_stats().values()),
        **opencl_objects(),
    }


def slope(points):
    """The slope of the line through (x, y), by least squares."""
    n = len(points)
    middle_x, middle_y = (sum(values) / n for values in zip(*points))
    above = sum((x - middle_x) * (y - middle_y) for x, y in points)
    return above / sum((x - middle_x) ** 2 for x, _ in points)


class Slopes:
    """Samples of a run of at most `count` steps, taken `samples` times at equal distances."""

    def __init__(self, title, count, samples):
        self.title, self.distance = title, max(1, count // samples)
        self.samples = {}  # by steps

    def after(self, step):
        """To be called after each step; the first has number 1."""
        if step % self.distance == 0:
            self.samples[step] = sample()

    def report(self):
        """Prints a table; returns the names of what grew too much."""
        if len(self.samples) < 4:
            raise SystemExit(f"{self.title}: {len(self.samples)} samples make no line; 4 do")
        bounds = BOUNDS | OTHER_BOUNDS.get(self.title, {})
        end = max(self.samples)
        half = {step: each for step, each in self.samples.items() if step > end / 2}
        length, grown = end - min(half), []
        print(f"{self.title}: {end} steps, lines through {len(half)} samples")
        print(f"{'':20}{'first':>12}{'last':>12}{'per 1000 steps':>16}{'growth':>10}{'bound':>8}")
        for name, last in half[end].items():
            per_step = slope([(step, each[name]) for step, each in half.items()])
            growth, bound = per_step * length, bounds[name]
            if bound is not None and growth > bound:
                grown.append(f"{self.title}: {name}")
            first = self.samples[min(self.samples)][name]
            row = f"{name:20}{first:12.1f}{last:12.1f}{per_step * 1000:16.3f}{growth:10.1f}"
            print(f"{row}{'-' if bound is None else bound:>8}", flush=True)
        return grown
