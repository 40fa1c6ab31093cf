"""Executes recorded launches, compiled for NVIDIA's GPUs, instruction by instruction, and compares
with what the recording device computed.

usage: isa_check.py LAUNCHES [--targets sm_80,sm_75] [--match TEXT] [--minutes N] [--order random]

LAUNCHES is a folder that recorder.cpp has filled. Exits with 1 where a launch does what is wrong on
a GPU (a fault, a race) or computes something else.
"""

import argparse
import collections
import pathlib
import random
import sys
import time

from costs import Costs, print_costs
from differences import difference
from launches import Launch, execute
from machine import TooLong
from memory import Fault
from programs import Programs
from ptx import Unsupported
from races import Race

ROOT = pathlib.Path(__file__).resolve().parents[2]
WRONG = ("wrong", "fault", "race")


def check(launch, programs, target, source=None, **options):
    """-> (result, explanation, instructions of work-groups). `source`: another program."""
    try:
        source = source or launch.source.read_text()
        kernel = programs.kernel(source, launch.options, target, launch.kernel)
        blocks, machine = execute(launch, kernel, **options)
    except Unsupported as error:
        return "not run", str(error), 0
    except TooLong as error:
        return "not run", str(error), 0
    except Fault as error:
        return "fault", str(error), 0
    except Race as error:
        return "race", str(error), 0
    pairs = zip(blocks, launch.after, strict=True)
    found = [difference(block, expected, source) for block, expected in pairs]
    text = "; ".join(filter(None, found))
    return "wrong" if text else "right", text, machine.instructions


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("launches", type=pathlib.Path)
    parser.add_argument("--targets", default="sm_80,sm_75")
    parser.add_argument("--compilers", type=pathlib.Path, default=ROOT / ".runtimes/compilers")
    parser.add_argument("--cache", type=pathlib.Path, default=ROOT / "build/isa_check/ptx")
    parser.add_argument("--match", default="", help="launches whose names contain it")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no launch after")
    parser.add_argument("--seconds", type=float, default=30, help="of a launch")
    parser.add_argument("--order", choices=("together", "random"), default="together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--costs", action="store_true", help="print what kernels cost")
    parser.add_argument("--verbose", action="store_true", help="print each launch")
    arguments = parser.parse_args()
    programs = Programs(arguments.compilers, arguments.cache)
    if reason := programs.missing():
        sys.exit(reason)
    paths = sorted(p for p in arguments.launches.glob("*.launch") if arguments.match in p.name)
    if not paths:
        sys.exit(f"isa check: no launches in {arguments.launches}")
    random.Random(arguments.seed).shuffle(paths)  # a part of them is a sample of all
    results, reasons, costs = (
        collections.defaultdict(collections.Counter),
        collections.Counter(),
        {},
    )
    start = time.monotonic()
    for path in paths:
        if time.monotonic() - start > arguments.minutes * 60:
            break
        launch = Launch(path)
        for target in arguments.targets.split(","):
            counted = Costs() if arguments.costs else None
            begin = time.monotonic()
            result, text, count = check(
                launch,
                programs,
                target,
                order=arguments.order,
                seed=arguments.seed,
                seconds=arguments.seconds,
                costs=counted,
            )
            results[target][result] += 1
            if counted and result == "right":
                costs.setdefault((launch.kernel, target), Costs()).add(counted)
            if result == "not run":
                reasons[target, text] += 1
            if arguments.verbose or result in WRONG:
                seconds = time.monotonic() - begin
                print(f"{target} {path.name} {result} {count} {seconds:.1f} s {text}", flush=True)
    if costs:
        print_costs(costs)
    for (target, text), count in sorted(reasons.items()):
        print(f"{target}: {count} not run: {text}")
    for target, counts in results.items():
        shown = ", ".join(f"{counts[name]} {name}" for name in ("right", *WRONG, "not run"))
        print(f"isa check: {target}: {shown}, of {len(paths)} launches")
    sys.exit(any(counts[name] for counts in results.values() for name in WRONG))


if __name__ == "__main__":
    main()
