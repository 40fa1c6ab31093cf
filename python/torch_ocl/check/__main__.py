"""Checks that this machine's OpenCL device computes what the CPU does.

    python -m torch_ocl.check [--device ocl:1] [--output FILE] [--only SECTION ...] [--no-speed]

In about three minutes it runs every family of kernels on small and awkward shapes, copies, streams,
most of the device's memory, a short training, and some measurements. No operator may run on the
CPU instead, unless OCL_FALLBACK says so. Sections run in another process, so that a driver that
crashes or hangs fails one section only. Where one fails, it tries the settings that may help. It
prints a table, writes it with the device's report to a file for a bug report, and exits with 1 if
a check failed.
"""

import argparse
import contextlib
import io
import os
import pathlib
import re
import sys
import time

import torch

from torch_ocl import info

from .families import FAMILIES
from .sections import FAILED, PASSED, SECTIONS, SKIPPED, find_remedy, outcomes, run_sections

COLOURS = {PASSED: "\033[32m", FAILED: "\033[31m", SKIPPED: "\033[33m"}
LEGEND = """\
Each row is a group of kernels. "passed": the device computes what PyTorch computes on the CPU,
within rounding, in all of the row's cases. The seconds include the compiling of the kernels."""


class Report:
    """Prints lines and keeps them; states have colours on terminals only."""

    def __init__(self):
        self.lines = []
        self.coloured = sys.stdout.isatty() and "NO_COLOR" not in os.environ

    def say(self, text="", state=None):
        self.lines.append(text)
        if state and self.coloured:
            text = text.replace(state, f"{COLOURS[state]}{state}\033[0m", 1)
        print(text, flush=True)


def describe(device):
    """The text of torch_ocl.info about the device and the variables that are set."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        info.print_variables()
        info.describe(torch.device(device).index or 0)
        info.print_skipped()
    return text.getvalue()


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


def run_check(args):
    start = time.perf_counter()
    report, found, advice = Report(), [], []
    report.say(f"torch-ocl check: {info.versions()}")
    report.say(describe(args.device))
    report.say(LEGEND)
    report.say()
    sections = [name for name in args.only or SECTIONS if name != "speed" or not args.no_speed]
    for outcome in outcomes(sections, args.device):
        found.append(outcome)
        print_outcome(report, outcome)
    for outcome in found:
        if outcome.state != FAILED:
            continue
        setting = find_remedy(outcome, args.device)
        helps = f"set {setting}, with which it passes"
        advice.append(
            f"{outcome.section}: "
            + (helps if setting else "no setting helps; move this work to the CPU")
        )
    report.say()
    for line in summary(found, advice, time.perf_counter() - start):
        report.say(line)
    args.output.write_text("\n".join(report.lines) + "\n")
    print(f"written to {args.output}")
    return 1 if advice else 0


def main():
    parser = argparse.ArgumentParser(
        prog="python -m torch_ocl.check", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--device", default="ocl:0")
    parser.add_argument("--output", type=pathlib.Path, default="torch_ocl_check.txt")
    parser.add_argument("--only", nargs="+", metavar="SECTION", choices=SECTIONS)
    parser.add_argument("--no-speed", action="store_true", help="leave out the measurements")
    parser.add_argument("--sections", nargs="+", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if not (hasattr(torch, "ocl") and torch.ocl.is_available()):
        sys.exit(info.wrong_setting() or info.no_device_help())
    if args.sections:
        run_sections(args.sections, args.device)
        return
    try:
        args.output.open("a").close()
    except OSError as error:
        parser.error(f"cannot write the report: {error}; name another file with --output")
    sys.exit(run_check(args))


if __name__ == "__main__":
    main()
