"""Runs the kernels in Oclgrind, which checks bounds of buffers and data races; three sizes each.

usage: run.py [--family gpu|cpu] [--runtime NAME] [-- ARGUMENTS OF PYTEST]

Prints the kernels that ran with fewer than three launches that differ in grid or in the shapes of
the operator's inputs, those that never ran, and Oclgrind's messages by kernel. A kernel with a
source for one family must run in that family. Two work-items that write the same value are a race,
too. Exits with 1 when a case fails, or a message is about a kernel that is not in KNOWN. Where all
cases ran in both families, the kernels that never ran must be those of ABSENT, and those with
messages those of KNOWN.
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

from declared import FAMILIES, declared

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SHAPES = 3
MESSAGE = re.compile(r"^(\w[^\n]*?)(?: at [^\n]*)?\n\tKernel: (\S+)", re.MULTILINE)

# Kernels that no case launches, and why: {"name" or "name of family": reason}.
ABSENT = {"probe_dot_bfloat16": "it has instructions of the host in assembly"}
# Kernels with messages that are no defects, and why.
KNOWN = dict.fromkeys(
    ("scatter_rows_f32", "index_fill_rows_f32"),
    "one number is written to repeated places: each work-item writes the same value",
)
# Oclgrind 21.10 does not know what its compiler makes of `restrict` in functions that it inlines,
# and of prefetches.
UNKNOWN_TO_OCLGRIND = "-Drestrict= -D__builtin_prefetch(...)="
BUILD_OPTIONS = {
    "optimized": UNKNOWN_TO_OCLGRIND,
    "unoptimized": f"-cl-opt-disable {UNKNOWN_TO_OCLGRIND}",
}
NO_TESTS = "5"  # pytest's status where `arguments` choose none


def run(family, runtime, cases, arguments):
    """(whether pytest failed, launches, messages by kernel); cases: of BUILD_OPTIONS"""
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
            "RECORDED_CASES": cases,
            "OCL_KERNEL_FAMILY": family,
            "OCL_FALLBACK": "error",
            "OCL_MATRIX_UNITS": "emulate",
            "OCLGRIND_UNIFORM_WRITES": "1",
            "OCLGRIND_MAX_ERRORS": "1000000",
        }
        if runtime == "oclgrind":
            variables["OCL_BUILD_OPTIONS"] = BUILD_OPTIONS[cases]
        done = subprocess.run(
            [str(part) for part in command],
            env={**os.environ, **variables},
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        failed = status.read_text() not in ("0", NO_TESTS)
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


def lacking(launches):
    """(kernels without a launch, kernels with fewer than SHAPES), as "name" or "name of family"

    launches: [kernel, family, ...]
    """
    anywhere = shapes_by_kernel(launches)
    in_family = shapes_by_kernel([(f"{each[0]} of {each[1]}", *each) for each in launches])
    never, few = [], []
    for kernel, family in sorted(declared()):
        name = kernel if family == "any" else f"{kernel} of {family}"
        count = anywhere.get(kernel, 0) if family == "any" else in_family.get(name, 0)
        if count < SHAPES:
            (few if count else never).append(name)
    return never, few


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--family", choices=["gpu", "cpu"], action="append")
    parser.add_argument("--runtime", default="oclgrind")
    parser.add_argument("rest", nargs="*", metavar="ARGUMENTS OF PYTEST")
    arguments = parser.parse_args()
    wrong, launches, told_of = False, [], set()
    for family in arguments.family or FAMILIES:
        of_family, messages = [], collections.Counter()
        for cases in BUILD_OPTIONS:
            failed, found, told = run(family, arguments.runtime, cases, arguments.rest)
            of_family += found
            messages += told
            wrong |= failed
        launches += [[kernel, family, *launch] for kernel, *launch in of_family]
        found = shapes_by_kernel(of_family)
        print(f"{family}: {len(found)} kernels, {sum(found.values())} launches that differ")
        for (kernel, kind), count in sorted(messages.items()):
            print(f"  {kernel}: {kind}, {count} times{' (known)' if kernel in KNOWN else ''}")
        told_of |= {kernel for kernel, _ in messages}
    never, few = lacking(launches)
    print(f"fewer than {SHAPES} shapes: {', '.join(few) or 'none'}")
    print(f"never: {', '.join(never) or 'none'}")
    wrong |= not told_of <= set(KNOWN)
    if not (arguments.rest or arguments.family):
        wrong |= set(never) != set(ABSENT)
        wrong |= arguments.runtime == "oclgrind" and told_of != set(KNOWN)
    sys.exit(wrong)


if __name__ == "__main__":
    main()
