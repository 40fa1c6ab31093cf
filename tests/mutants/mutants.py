"""Plants faults in the sources, one at a time, and says which of them no test notices.

usage: python mutants.py [--only TEXT] [--without-builds]

Faults in kernels and in Python are planted in copies. Faults in C++ are planted in place, built,
and taken out again. Run it with tools/with_runtime.py. Exits with 1 if a fault is not caught.
"""

import argparse
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

sys.path.append(str(pathlib.Path(__file__).parents[1] / "python/common"))
from planted import FAULTS
from support import ROOT, altered_kernels, copy_package

SECONDS = 900  # a fault may hang the device
BUILD_FAILURES = ("CL_BUILD_PROGRAM_FAILURE", "CL_COMPILE_PROGRAM_FAILURE")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="text in the names of the faults")
    parser.add_argument("--without-builds", action="store_true", help="leaves faults in C++ out")
    return parser.parse_args()


def planted_in(path, fault):
    text = path.read_text()
    if text.count(fault.before) != 1:
        sys.exit(f"{fault.name}: occurs {text.count(fault.before)} times in the file")
    path.write_text(text.replace(fault.before, fault.after))


def in_a_copy(fault, folder):
    """Plants the fault in a copy of the kernels or of the package; variables that choose it."""
    path = pathlib.Path(fault.file)
    if fault.is_kernel:
        return {"OCL_KERNEL_DIR": altered_kernels(folder, path.name, fault.before, fault.after)}
    package, variables = copy_package(folder)
    planted_in(package / path.relative_to("python/torch_ocl"), fault)
    return variables


def outcome(fault, variables):
    """What becomes of the fault in its tests: one word or two, and what they printed."""
    paths = [f"tests/python/{path}" for path in fault.tests.split()]
    pytest = ["-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
    try:
        result = subprocess.run(
            [sys.executable, *pytest, "-m", "not slow", *paths],
            cwd=ROOT,
            env={**os.environ, "OCL_KERNEL_FAMILY": fault.family, **variables},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SECONDS,
        )
    except subprocess.TimeoutExpired:
        return "no end", ""
    output = result.stdout + result.stderr
    if any(text in output for text in BUILD_FAILURES):
        return "does not compile", output
    words = {0: "not caught", 1: "caught", -signal.SIGSEGV: "caught", -signal.SIGABRT: "caught"}
    return words.get(result.returncode, "error"), output


def build():
    subprocess.run(["cmake", "--build", "build"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def tried(fault):
    """As outcome(), with the fault planted and taken out again."""
    if fault.is_built:
        path = ROOT / fault.file
        text = path.read_text()
        try:
            planted_in(path, fault)
            build()
            return outcome(fault, {})
        finally:
            path.write_text(text)
    with tempfile.TemporaryDirectory(prefix="torch_ocl_mutant_") as folder:
        return outcome(fault, in_a_copy(fault, pathlib.Path(folder)))


def main():
    given = arguments()
    chosen = [each for each in FAULTS if given.only in each.name]
    if given.without_builds:
        chosen = [each for each in chosen if not each.is_built]
    counts = {}
    for fault in chosen:
        start = time.monotonic()
        word, output = tried(fault)
        counts[word] = counts.get(word, 0) + 1
        print(f"{word:16} {time.monotonic() - start:4.0f} s  {fault.name}", flush=True)
        if word in ("does not compile", "error"):
            print(output[-2000:], flush=True)
    if any(fault.is_built for fault in chosen):
        build()  # without a fault
    print(", ".join(f"{number} {word}" for word, number in counts.items()))
    sys.exit(counts.keys() != {"caught"})


if __name__ == "__main__":
    main()
