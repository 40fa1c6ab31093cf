"""Repeats scenarios, and checks that neither objects of OpenCL nor the host's memory grow.

usage: growth.py [--scenarios NAME ...] [--counts N ...]

Each scenario runs in a process of its own: first to fill caches, then as often as each count says.
Prints how many objects are more after a series than before it (on the stern device only), and how
many bytes of malloc() are more for each repetition. Python's objects are among them. Exits with 1
where the last series makes more than one object in ten repetitions, or where each of its
repetitions takes more than BYTES and more than half of what they took in the series before: what a
leak takes stays the same, and what caches of events and pinned memory take becomes less.
"""

import argparse
import ctypes
import gc
import os
import subprocess
import sys

BYTES = 16
WARM = 30
# Each call compiles another program, and programs stay as long as their process.
ALWAYS_GROWS = {"kernels"}


class Mallinfo(ctypes.Structure):
    """struct mallinfo2 of glibc."""

    NAMES = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    _fields_ = [(name, ctypes.c_size_t) for name in NAMES.split()]


def used_bytes():
    mallinfo = ctypes.CDLL(None).mallinfo2
    mallinfo.restype = Mallinfo
    found = mallinfo()
    return found.uordblks + found.hblkhd


def measure(name, counts):
    """Prints a line for each count; whether something grew."""
    import torch
    from layer import Layer
    from scenarios import SCENARIOS

    layer = Layer() if "OPENCL_LAYERS" in os.environ else None

    def series(count):
        for _ in range(count):
            SCENARIOS[name](lambda seen: None)
            torch.ocl.synchronize()  # or caches would grow with the most work that is queued
        gc.collect()
        return layer.alive() if layer else {}, used_bytes()

    objects, size = series(WARM)
    grew, each = False, float("inf")
    for count in counts:
        before, size_before, each_before = objects, size, each
        objects, size = series(count)
        more = {kind: n - before[kind] for kind, n in objects.items() if n != before[kind]}
        each = (size - size_before) / count
        print(f"{name}, {count} times: objects {more or 0}, {each:.1f} bytes each", flush=True)
        grew = any(10 * n > count for n in more.values()) or each > max(BYTES, each_before / 2)
    return grew


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scenarios", nargs="*")
    parser.add_argument("--counts", nargs="*", type=int, default=[10, 100, 1000, 1000])
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.here:
        sys.exit(measure(arguments.scenarios[0], arguments.counts))
    from scenarios import SCENARIOS

    grew = []
    for name in arguments.scenarios or sorted(SCENARIOS.keys() - ALWAYS_GROWS):
        command = [sys.executable, __file__, "--here", "--scenarios", name, "--counts"]
        command += map(str, arguments.counts)
        done = subprocess.run(command, env={**os.environ, "PYTHONMALLOC": "malloc"}, check=False)
        grew += [name] * (done.returncode != 0)
    print(f"grew, or failed: {' '.join(grew) or 'none'}")
    sys.exit(bool(grew))


if __name__ == "__main__":
    main()
