"""Runs the tests over OpenCL runtimes and kernel families, and prints a table.

usage: test_matrix.py [--sample] [--jobs N] [ROW ...]      ROW: pocl/cpu, stern:smallest/gpu, ...

Each row is a runtime and a kernel family; stern has a profile, too. Without rows, all run. The two
main runtimes run the whole suite with their own family; other rows run the tests marked "sample",
as all do with --sample. The slowest tests of each row follow it. Exits with 1 when a test of any
row fails, or a runtime is missing.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
PROFILES = sorted((HERE.parent / "tests" / "stern" / "profiles").glob("*.profile"))
# torch-ocl uses no device of OpenCL 1.1.
PROFILES = [path for path in PROFILES if "\nDEVICE_VERSION = OpenCL 1.1" not in path.read_text()]
ROWS = [
    f"{runtime}/{family}"
    for runtime in ("pocl", "intel", "intel-avx2", "rusticl", "oclgrind")
    for family in ("cpu", "gpu")
    # rusticl does not run the CPU family (choose_family in backend/device/listing.cpp). intel-avx2
    # does not run the GPU family, whose kernels do not depend on the processor.
    if (runtime, family) not in (("rusticl", "cpu"), ("intel-avx2", "gpu"))
] + [f"stern:{path.stem}/gpu" for path in PROFILES]
WHOLE = {"pocl/cpu", "intel/cpu"}
SLOWEST = 6
COUNTS = ("passed", "skipped", "failed", "error")


def run(row, sample, jobs):
    """(counts by name, seconds, slowest tests); prints the run's own output where it failed."""
    runtime, family = row.split("/")
    runtime, _, profile = runtime.partition(":")
    command = [sys.executable, str(HERE / "with_runtime.py"), runtime]
    command += [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-n",
        str(jobs),
        "tests/python",
        f"--durations={SLOWEST}",
    ]
    if sample:
        command += ["-m", "sample"]
    start = time.monotonic()
    result = subprocess.run(
        command,
        env={**os.environ, "OCL_KERNEL_FAMILY": family, "STERN_PROFILE": profile},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    summary = (result.stdout.strip().splitlines() or [""])[-1]
    counts = {
        name: int(n) for n, name in re.findall(r"(\d+) (passed|skipped|failed|error)", summary)
    }
    if result.returncode != 0:
        counts["failed"] = max(counts.get("failed", 0), 1)
        print(f"---- {row}\n{result.stdout[-4000:]}", file=sys.stderr)
    slowest = re.findall(r"^([\d.]+s (?:call|setup) .*)$", result.stdout, re.MULTILINE)
    return counts, time.monotonic() - start, slowest


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", nargs="*", metavar="ROW", help=", ".join(ROWS))
    parser.add_argument("--sample", action="store_true")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    unknown = set(arguments.rows) - set(ROWS)
    if unknown:
        parser.error(f"no such row: {', '.join(sorted(unknown))}")
    head = "".join(f"{name:>9}" for name in COUNTS)
    print(f"{'runtime':<26}{'family':<8}{'tests':<8}{head}{'seconds':>9}", flush=True)
    failed = False
    for row in arguments.rows or ROWS:
        sample = arguments.sample or row not in WHOLE
        counts, seconds, slowest = run(row, sample, arguments.jobs)
        failed = failed or bool(counts.get("failed") or counts.get("error"))
        runtime, family = row.split("/")
        numbers = "".join(f"{counts.get(name, 0):>9}" for name in COUNTS)
        kind = "sample" if sample else "all"
        print(f"{runtime:<26}{family:<8}{kind:<8}{numbers}{seconds:>9.0f}", flush=True)
        for test in slowest:
            print(f"    {test.strip()}", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
