"""Processes that start at once and build the same programs, with empty or full folders of kernels.

usage: cold_starts.py [--rounds R] [--processes N] [--kernels K] [--full] [--pocl-cache]
       [--unlocked]

A round begins with a new home folder, in which torch-ocl and the driver keep what they compile. N
processes train a small network in it, and must end with the same parameters; with --kernels, each
builds K small kernels of a user instead, which takes less time. --pocl-cache empties
torch-ocl's folder before each round, but leaves the driver's. --full leaves both, so that a round
shows the time of a start with full folders. --unlocked lets processes build a program at once, as
they do where PoCL's folder can have no locks. Prints a line for each round, and ends with status 1
if a process failed.
"""

import argparse
import collections
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

# Imports PyTorch once: forked children may use devices that their parent has not used.
START = '''
import hashlib, os, sys, time
import torch
import torch_ocl

def build(kernels):
    x = torch.arange(8.0).to("ocl")
    for number in range(kernels):
        source = f"""__kernel void add(__global float *x) {{ x[get_global_id(0)] += {number}; }}"""
        torch.ocl.compile_kernel(source).add(x)
    torch.ocl.synchronize()
    return hashlib.sha1(x.cpu().numpy().tobytes()).hexdigest()

def train():
    torch.manual_seed(0)
    layers = [torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU(), torch.nn.Flatten()]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(144, 5)).to("ocl")
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    images, labels = torch.randn(4, 1, 8, 8).to("ocl"), torch.arange(4).to("ocl")
    for _ in range(2):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
    numbers = torch.cat([each.detach().flatten() for each in model.parameters()]).cpu()
    return hashlib.sha1(numbers.numpy().tobytes()).hexdigest()

kernels = int(sys.argv[2])
children = []
for _ in range(int(sys.argv[1])):
    child = os.fork()
    if child == 0:
        begin, status = time.monotonic(), 1
        try:
            digest = build(kernels) if kernels else train()
            text = f"RESULT {digest} {time.monotonic() - begin:.3f}\\n"
            os.write(1, text.encode())
            status = 0
        except BaseException as error:
            os.write(1, f"FAILED {str(error)[:2000]!r}\\n".encode())
        os._exit(status)
    children.append(child)
for child in children:
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.write(1, f"CODE {code}\\n".encode())
'''


def run_round(home, processes, kernels):
    """(failures, seconds of the slowest process)"""
    variables = {**os.environ, "HOME": str(home), "XDG_CACHE_HOME": "", "POCL_CACHE_DIR": ""}
    variables.pop("OCL_CACHE_DIR", None)
    command = [sys.executable, "-c", START, str(processes), str(kernels)]
    result = subprocess.run(command, env=variables, capture_output=True, text=True)
    words = [line.split(maxsplit=1) for line in result.stdout.splitlines() if " " in line]
    results = [rest.split() for word, rest in words if word == "RESULT"]
    codes = collections.Counter(rest for word, rest in words if word == "CODE")
    failures = [
        f"{count} processes ended with {signal.Signals(-int(code)).name if int(code) < 0 else code}"
        for code, count in codes.items()
        if code != "0"
    ]
    failures += sorted({rest for word, rest in words if word == "FAILED"})
    if len({digest for digest, _ in results}) > 1:
        failures.append("the parameters differ")
    if result.returncode != 0 or sum(codes.values()) != processes:
        failures.append(result.stderr[-2000:])
    return failures, max((float(seconds) for _, seconds in results), default=0.0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--processes", type=int, default=16)
    parser.add_argument("--kernels", type=int, default=0)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--pocl-cache", action="store_true")
    parser.add_argument("--unlocked", action="store_true")
    args = parser.parse_args()
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        home = pathlib.Path(folder) / "home"
        for number in range(args.rounds):
            if not args.full:
                keep = "pocl" if args.pocl_cache else None
                for cache in (home / ".cache").glob("*"):
                    if cache.name != keep:
                        shutil.rmtree(cache)
            home.mkdir(exist_ok=True)
            if args.unlocked:  # a folder in place of the file (backend/program/build_lock.cpp)
                lock = home / ".cache" / "pocl" / "kcache" / "torch_ocl.lock"
                lock.mkdir(parents=True, exist_ok=True, mode=0o700)
            used = resource.getrusage(resource.RUSAGE_CHILDREN)
            start = time.monotonic()
            failures, slowest = run_round(home, args.processes, args.kernels)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            spent = after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime
            print(
                f"round {number}: {len(failures)} failures, {time.monotonic() - start:.1f} s, "
                f"slowest process {slowest:.2f} s, processor {spent:.1f} s",
                *failures,
                sep="\n  ",
                flush=True,
            )
            bad += bool(failures)
    print(f"{args.rounds} rounds of {args.processes} processes, {bad} with failures")
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
