"""Runs the kernels in Oclgrind, which checks bounds of buffers and data races; three sizes each.

usage: run.py [--family gpu|cpu] [--runtime NAME] [-- ARGUMENTS OF PYTEST]

Prints the kernels that ran with fewer than three launches that differ in grid or in the shapes of
the operator's inputs, those that never ran, and Oclgrind's messages by kernel. Exits with 1 when a
case fails, a message is about a kernel that is not in KNOWN, or a kernel that is not in ABSENT
never ran although all cases ran in both families. Two work-items that write the same value are a
race, too.
"""

import argparse
import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from declared import declared

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SHAPES = 3
MESSAGE = re.compile(r"^(\w[^\n]*?)(?: at [^\n]*)?\n\tKernel: (\S+)", re.MULTILINE)

# Kernels that no case launches, and why.
ABSENT = {}
# Kernels with messages that are no defects, and why.
KNOWN = dict.fromkeys(
    ("scatter_c64", "scatter_c128"),
    "scatter() of one number to repeated places: each work-item writes the same value",
)


def run(family, runtime, arguments):
    """(whether pytest failed, launches, messages by kernel)"""
    with tempfile.TemporaryDirectory() as folder:
        record = pathlib.Path(folder) / "launches"
        status = pathlib.Path(folder) / "status"
        record.touch()
        status.touch()
        command = [sys.executable, ROOT / "tools/with_runtime.py", runtime, sys.executable]
        command += ["-m", "pytest", "-q", "-p", "recorder", HERE / "test_cases.py", *arguments]
        variables = {
            "PYTHONPATH": str(HERE),
            "RECORDED_LAUNCHES": str(record),
            "RECORDED_STATUS": str(status),
            "OCL_KERNEL_FAMILY": family,
            "OCL_FALLBACK": "error",
            "OCL_CLBLAST": "0",
            "OCLGRIND_UNIFORM_WRITES": "1",
            "OCLGRIND_MAX_ERRORS": "1000000",
        }
        done = subprocess.run(
            [str(part) for part in command],
            env={**os.environ, **variables},
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        failed = status.read_text() != "0"
        launches = [json.loads(line)[1:] for line in record.read_text().splitlines()]
    messages = collections.Counter(
        (kernel, kind) for kind, kernel in MESSAGE.findall(done.stderr) if kernel
    )
    if failed:
        print(done.stderr[-4000:], file=sys.stderr)
    return failed, launches, messages


def shapes_by_kernel(launches):
    """{kernel: how many launches of it differ}"""
    found = collections.defaultdict(set)
    for kernel, *launch in launches:
        found[kernel].add(json.dumps(launch))
    return {kernel: len(shapes) for kernel, shapes in found.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--family", choices=["gpu", "cpu"], action="append")
    parser.add_argument("--runtime", default="oclgrind")
    parser.add_argument("rest", nargs="*", metavar="ARGUMENTS OF PYTEST")
    arguments = parser.parse_args()
    wrong, launches = False, []
    for family in arguments.family or ["gpu", "cpu"]:
        failed, of_family, messages = run(family, arguments.runtime, arguments.rest)
        launches += [[kernel, family, *launch] for kernel, *launch in of_family]
        found = shapes_by_kernel(of_family)
        print(f"{family}: {len(found)} kernels, {sum(found.values())} launches that differ")
        for (kernel, kind), count in sorted(messages.items()):
            print(f"  {kernel}: {kind}, {count} times{' (known)' if kernel in KNOWN else ''}")
        wrong |= failed or not all(kernel in KNOWN for kernel, _ in messages)
    found = shapes_by_kernel(launches)
    names = declared()
    never = [name for name in names if name not in found]
    few = [name for name in names if 0 < found.get(name, 0) < SHAPES]
    print(f"fewer than {SHAPES} shapes: {' '.join(few) or 'none'}")
    print(f"never: {' '.join(never) or 'none'}")
    complete = bool(arguments.rest or arguments.family) or set(never) <= set(ABSENT)
    sys.exit(wrong or not complete)


if __name__ == "__main__":
    main()
