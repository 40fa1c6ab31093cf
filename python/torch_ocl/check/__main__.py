"""Checks that this machine's OpenCL device computes what the CPU does.

    python -m torch_ocl.check [--device ocl:1] [--report FILE] [--only SECTION ...] [--no-speed]

In about three minutes it runs every family of kernels on small and awkward shapes, copies, streams,
most of the device's memory, a short training, and some measurements. No operator may run on the
CPU instead, unless OCL_FALLBACK says so. Sections run in another process, so that a driver that
crashes or hangs fails one section only. Where one fails, it tries the settings that may help. It
prints a table, and exits with 1 if a check failed. It writes a file for a bug report: the table,
versions, all devices with their quirks, speeds, and logs of builds that failed. Names of the user
and the host and personal folders are replaced.
"""

import argparse
import pathlib
import re
import sys
import tempfile
import time

import torch

from torch_ocl import info

from .families import FAMILIES
from .report import COLOURS, Report, describe, say_failed_builds, system
from .sections import FAILED, PASSED, SECTIONS, SKIPPED, find_remedy, outcomes, run_sections

LEGEND = """\
Each row is a group of kernels. "passed": the device computes what PyTorch computes on the CPU,
within rounding, in all of the row's cases. The seconds include the compiling of the kernels."""


def print_outcome(report, outcome):
    passed, skipped = outcome.of(PASSED), outcome.of(SKIPPED)
    cases = f"{len(passed)} of {len(outcome.results) - len(skipped)}"
    state, section = outcome.state, outcome.section
    report.say(f"{state:<7}  {section:<20} {cases:>8} {outcome.seconds:>8.1f} s", state)
    if section not in FAMILIES:
        for result in passed:
            report.say(f"           {result.name}")
    for result in skipped:
        report.say(f"           {result.name}: skipped, {result.text}")
    for result in outcome.of(FAILED):
        text = re.sub(r"\n+", "\n             ", result.text.strip())
        report.say(f"           {result.name}: {text}")


def summary(found, advice, seconds):
    number = {state: sum(outcome.state == state for outcome in found) for state in COLOURS}
    lines = [
        f"{number[PASSED]} rows passed, {number[FAILED]} failed, {number[SKIPPED]} were skipped; "
        f"{seconds:.0f} s in all."
    ]
    if not number[FAILED]:
        return [*lines, "Nothing is wrong."]
    lines += [f"  {text}" for text in advice]
    return [*lines, "Newer drivers may help, too. Please report it, with the file below."]


def print_rows(report, sections, device):
    """The table. -> the Outcomes"""
    found = []
    with tempfile.TemporaryDirectory() as dumps:
        for outcome in outcomes(sections, device, OCL_DUMP_DIR=dumps):
            found.append(outcome)
            print_outcome(report, outcome)
        say_failed_builds(report, dumps)
    return found


def advice_of(failed, device):
    setting = find_remedy(failed, device)
    helps = f"set {setting}, with which it passes"
    return f"{failed.section}: " + (helps if setting else "no setting helps; use the CPU for it")


def run_check(args):
    start = time.perf_counter()
    report = Report()
    report.say(f"torch-ocl check of {args.device}: {info.versions()}")
    report.say(system())
    if not is_available():
        report.say(info.wrong_setting() or info.no_device_help())
        report.write(args.report)
        return 1
    report.say(describe())
    report.say(LEGEND)
    report.say()
    sections = [name for name in args.only or SECTIONS if name != "speed" or not args.no_speed]
    found = print_rows(report, sections, args.device)
    advice = [advice_of(outcome, args.device) for outcome in found if outcome.state == FAILED]
    report.say()
    for line in summary(found, advice, time.perf_counter() - start):
        report.say(line)
    report.write(args.report)
    return 1 if advice else 0


def is_available():
    return hasattr(torch, "ocl") and torch.ocl.is_available()


def main():
    parser = argparse.ArgumentParser(
        prog="python -m torch_ocl.check", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--device", default="ocl:0")
    parser.add_argument(
        "--report", "--output", type=pathlib.Path, default="torch_ocl_check.txt", metavar="FILE"
    )
    parser.add_argument("--only", nargs="+", metavar="SECTION", choices=SECTIONS)
    parser.add_argument("--no-speed", action="store_true", help="leave out the measurements")
    parser.add_argument("--sections", nargs="+", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.sections:
        run_sections(args.sections, args.device)
        return
    try:
        args.report.open("a").close()
    except OSError as error:
        parser.error(f"cannot write the report: {error}; name another file with --report")
    sys.exit(run_check(args))


if __name__ == "__main__":
    main()
