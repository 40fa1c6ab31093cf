"""Kills processes that write a file of a cache, and checks that the next ones compute.

usage: with_runtime.py RUNTIME python killed_writers.py [--kills N] [--seed N]

Half of the writers are killed at a byte: their files cannot become longer (RLIMIT_FSIZE). The
others are killed when a file appears in the folder. Files of torch-ocl and of PoCL share the
folder, which is kept from kill to kill. After each kill, a process must compute the right result
with what was left, and the next one must find the program. Exits with 1 otherwise.
"""

import argparse
import collections
import os
import pathlib
import random
import resource
import shutil
import signal
import sys
import tempfile

import torch  # noqa: F401  (before the forks)
from damaged_files import SECONDS, compute, in_child


def writer(folder, limit):
    """Starts a process that writes its programs to the folder."""
    if child := os.fork():
        return child
    signal.alarm(SECONDS)
    os.environ["OCL_CACHE_DIR"] = os.environ["POCL_CACHE_DIR"] = str(folder)
    if limit is not None:
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    try:
        compute()
    except BaseException as error:
        os.write(2, f"{error}\n".encode())
        os._exit(1)
    os._exit(0)


def names(folder):
    return {f"{at}/{name}" for at, _, files in os.walk(folder) for name in files}


def kill_at_a_byte(folder, limit):
    return os.waitpid(writer(folder, limit), 0)[1]


def kill_when_a_file_appears(folder, turns):
    """The number of turns that the killer waits after the first new file."""
    before = names(folder)
    child = writer(folder, None)
    while not (done := os.waitpid(child, os.WNOHANG))[0]:
        if names(folder) - before:
            for _ in range(turns):
                names(folder)
            os.kill(child, signal.SIGKILL)
            return os.waitpid(child, 0)[1]
    return done[1]


def forget_programs(folder):
    """Removes the whole files, so that the next writer writes."""
    for path in folder.glob("*.bin"):
        path.unlink()


def check_after(folder):
    """The errors in the results of two processes that use the folder; empty: none."""
    os.environ["POCL_CACHE_DIR"] = str(folder)
    first, second = (in_child(compute, folder) for _ in range(2))
    if first[0] or second[0] or second[1] != "0":
        return f"then processes ended with {first} and {second} (status, programs built)"
    return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    source = random.Random(arguments.seed)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="torch_ocl_killed_"))
    found = collections.Counter()
    try:
        check_after(folder)
        longest = max(path.stat().st_size for path in folder.glob("*.bin"))
        for number in range(arguments.kills):
            forget_programs(folder)
            kill = kill_when_a_file_appears if number % 2 else kill_at_a_byte
            at = source.randrange(20 if number % 2 else longest)
            status = os.waitstatus_to_exitcode(kill(folder, at))
            found[signal.Signals(-status).name if status < 0 else f"status {status}"] += 1
            if wrong := check_after(folder):
                found["wrong"] += 1
                print(f"{kill.__name__} {at}: {status}, {wrong}", flush=True)
        left = [name for name in names(folder) if not name.endswith(".bin")]
        found["files left of torch-ocl"] = sum(".bin." in name for name in left)
    finally:
        print(dict(found), flush=True)  # if it is interrupted, too
        shutil.rmtree(folder, ignore_errors=True)  # a child may be writing
    sys.exit(found["wrong"] > 0)


if __name__ == "__main__":
    main()
