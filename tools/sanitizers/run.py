"""Runs a command whose libraries were built with sanitizers (`make sanitize`).

usage: run.py BUILD COMMAND...       BUILD: a folder configured with -DOCL_SANITIZE=...

A finding ends the process that it is in. BUILD/reports has the reports on memory and threads, of
all processes; they are printed if the command fails. Reports on undefined behaviour go to stderr,
because GCC's libubsan ignores log_path if libasan is loaded, too.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

# Options of all sanitizers: the first finding ends the process, even for undefined behaviour, with
# an exit status that no test expects.
COMMON = {"halt_on_error": 1, "print_stacktrace": 1, "exitcode": 99}
OPTIONS = {
    # OpenCL runtimes, LLVM and Python keep memory until the end, and are not compiled for reports.
    "ASAN_OPTIONS": {
        "detect_leaks": 0,
        "strict_string_checks": 1,
        "detect_stack_use_after_return": 1,
    },
    "UBSAN_OPTIONS": {},
    "TSAN_OPTIONS": {
        "second_deadlock_stack": 1,
        "suppressions": pathlib.Path(__file__).with_name("threads.suppressions"),
    },
}


def library(compiler, name):
    found = subprocess.check_output([compiler, f"-print-file-name={name}"], text=True).strip()
    if not pathlib.Path(found).is_absolute():
        sys.exit(
            f"{compiler} has no {name}: build with GCC and its sanitizers (-DCMAKE_CXX_COMPILER)"
        )
    return str(pathlib.Path(found).resolve())


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    build, command = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:]
    cache = (build / "CMakeCache.txt").read_text()
    compiler = re.search(r"^CMAKE_CXX_COMPILER:\w+=(.*)$", cache, re.MULTILINE)[1]
    reports = build / "reports"
    shutil.rmtree(reports, ignore_errors=True)
    reports.mkdir()

    variables = dict(os.environ)
    for name, options in OPTIONS.items():
        chosen = {**COMMON, **options, "log_path": reports / name.split("_")[0].lower()}
        own = [f"{key}='{value}'" for key, value in chosen.items()]
        variables[name] = ":".join([*own, os.environ.get(name, "")]).rstrip(":")
    if pathlib.Path(command[0]).name.startswith("python"):
        # Python is not linked to the sanitizer, which must come before all other libraries. When
        # the sanitizer starts, it looks for the functions of C++'s exceptions.
        preloaded = [library(compiler, "libasan.so"), library(compiler, "libstdc++.so")]
        variables["LD_PRELOAD"] = " ".join(preloaded)
        paths = [str(build / "python"), os.environ.get("PYTHONPATH", "")]
        variables["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    code = subprocess.call(command, env=variables)
    if code:
        for report in sorted(reports.iterdir()):
            print(f"---- {report}", report.read_text(errors="replace"), sep="\n", file=sys.stderr)
    sys.exit(code if code >= 0 else 1)


main()
