"""Executes recorded launches, compiled for NVIDIA's GPUs, instruction by instruction, and compares
with what the recording device computed.

usage: isa_check.py LAUNCHES [--targets sm_80,sm_75] [--match TEXT] [--first N] [--order random]

LAUNCHES is a folder that recorder.cpp has filled. Exits with 1 if a launch does something that is
wrong on a GPU (a fault, a race) or computes other results.
"""

import argparse
import collections
import concurrent.futures
import functools
import itertools
import os
import pathlib
import sys
import time

from costs import Costs, print_costs
from differences import difference
from launches import Launch, execute
from machine import TooLong
from memory import Fault
from programs import OtherUnit, Programs
from ptx import Unsupported
from races import Race

ROOT = pathlib.Path(__file__).resolve().parents[2]
WRONG = ("wrong", "fault", "race")
SHOWN = ("right", *WRONG, "not run", "left out")
Result = collections.namedtuple("Result", "path target kernel state text seconds costs")


def check(launch, programs, target, source=None, **options):
    """-> (state, explanation). `source`: a program to use instead."""
    try:
        source = source or launch.source.read_text()
        kernel = programs.kernel(source, launch.options, target, launch.kernel)
        blocks, _ = execute(launch, kernel, **options)
    except (Unsupported, TooLong) as error:
        return "not run", str(error)
    except OtherUnit:
        return "left out", ""
    except Fault as error:
        return "fault", str(error)
    except Race as error:
        return "race", str(error)
    pairs = zip(blocks, launch.after, strict=True)
    found = [difference(block, expected, source) for block, expected in pairs]
    text = "; ".join(filter(None, found))
    return "wrong" if text else "right", text


def program_of(path):
    return path.name.split("_")[0]


def chosen(folder, match, count):
    """The first `count` launches: one of each kernel, then a second one of each, and so on. Names
    begin with a hash, so their order is as good as random."""
    paths = sorted(path for path in folder.glob("*.launch") if match in path.name)
    before = collections.Counter()
    turns = {}
    for path in paths:
        kernel = path.name.split("_", 1)[1].rsplit("_", 1)[0]
        turns[path] = before[kernel]
        before[kernel] += 1
    return sorted(sorted(paths, key=turns.get)[:count])


def results_of(paths, arguments):
    """The Results of the launches of a program."""
    programs, found = Programs(arguments.compilers, arguments.cache), []
    for path, target in itertools.product(paths, arguments.targets.split(",")):
        launch, costs = Launch(path), Costs() if arguments.costs else None
        start = time.monotonic()
        state, text = check(
            launch,
            programs,
            target,
            order=arguments.order,
            seed=arguments.seed,
            most=arguments.most,
            costs=costs,
        )
        seconds = time.monotonic() - start
        found.append(Result(path, target, launch.kernel, state, text, seconds, costs))
    return found


def print_results(found, arguments):
    """Prints each wrong result, then the sums. -> whether there is one"""
    counts = {target: collections.Counter() for target in arguments.targets.split(",")}
    reasons, costs = collections.Counter(), {}
    for result in found:
        path, target, kernel, state, text, seconds, counted = result
        counts[target][state] += 1
        if arguments.verbose or state in WRONG:
            print(f"{target} {path.name} {state} {seconds:.1f} s {text}", flush=True)
        if state == "not run":
            reasons[target, text] += 1
        if counted and state == "right":
            costs.setdefault((kernel, target), Costs()).add(counted)
    if costs:
        print_costs(costs)
    for (target, text), count in sorted(reasons.items()):
        print(f"{target}: {count} not run: {text}")
    for target, states in counts.items():
        shown = ", ".join(f"{states[state]} {state}" for state in SHOWN)
        print(f"isa check: {target}: {shown}, of {states.total()} launches")
    return any(states[state] for states in counts.values() for state in WRONG)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("launches", type=pathlib.Path)
    parser.add_argument("--targets", default="sm_80,sm_75")
    parser.add_argument("--compilers", type=pathlib.Path, default=ROOT / ".runtimes/compilers")
    parser.add_argument("--cache", type=pathlib.Path, default=ROOT / "build/isa_check/ptx")
    parser.add_argument("--match", default="", help="launches whose names contain it")
    parser.add_argument("--most", type=int, default=400_000, help="instructions of a launch")
    parser.add_argument("--first", type=int, metavar="N", help="N launches, of most kernels")
    parser.add_argument("--order", choices=("together", "random"), default="together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--costs", action="store_true", help="print what kernels cost")
    parser.add_argument("--verbose", action="store_true", help="print each launch")
    arguments = parser.parse_args()
    if reason := Programs(arguments.compilers, arguments.cache).missing():
        sys.exit(reason)
    paths = chosen(arguments.launches, arguments.match, arguments.first)
    if not paths:
        sys.exit(f"isa check: no launches in {arguments.launches}")
    run = functools.partial(results_of, arguments=arguments)
    with concurrent.futures.ProcessPoolExecutor(arguments.jobs) as pool:
        parts = [list(part) for _, part in itertools.groupby(paths, program_of)]
        found = itertools.chain.from_iterable(pool.map(run, parts))
        sys.exit(print_results(found, arguments))


if __name__ == "__main__":
    main()
