"""Random programs on the CPU and the device.

usage: fuzz.py [--seed S] [--minutes M | --programs N] [--steps K] [--compiled] [--replay SEED]
       fuzz.py --mutate [--match REGEX] [--errors] ...: mutate.py
"""

import argparse
import collections
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import warnings

import mutate
import torch
import torch._inductor.config
from author import Author
from program import operators_in, script
from rows import all_rows
from rows_functions import compiled_function
from running import check, device_types
from shrink import shrink

import torch_ocl  # noqa: F401 (the device, also where PyTorch has a GPU of its own)

PROGRAMS_OF_A_WORKER = 2000
COMPILED_PROGRAMS_OF_A_WORKER = 200  # Dynamo and Inductor keep 10 MB of each
# Inductor simplifies indices with SymPy, whose cache of 1,000 entries is too small for it.
CACHES = {"SYMPY_CACHE_SIZE": "200000"}
SECONDS_BETWEEN_LINES = 60
SECONDS_UNTIL_A_WORKER_HANGS = 900


def write_program(seed, steps, device, compiled=False):
    """The author of a program that has run on the CPU."""
    rows = [row for row in all_rows() if row.weight]
    author = Author(seed, rows, device_types(device))
    author.keep_few_types()
    if compiled:
        for _ in range(author.int(2, 4)):
            author.fresh(author.shape(0, 4, empty=author.chance(0.1)), author.dtype())
        for _ in range(10):
            try:
                compiled_function(author, list(author.numbers), author.int(2, steps // 5))
                break
            except Exception:
                continue
    else:
        author.write(steps)
    return author


def try_program(seed, args, known):
    """The outcome of the program with this seed, as a dictionary."""
    torch.manual_seed(0)
    author = write_program(seed, args.steps, args.device, args.compiled)
    outcome = {"seed": seed, "operators": operators_in(author.steps), "steps": len(author.steps)}
    outcome["errors"] = sum(step.error is not None for step in author.steps)
    failure = check(author.steps, author.levels, args.device)
    if failure is None:
        return outcome
    outcome |= {"kind": failure.kind, "message": failure.message}
    outcome["template"] = failure.signature()[1]
    outcome["reason"] = failure.why()
    signature = (failure.kind, outcome["template"])
    known[signature] += 1
    if outcome["reason"] is None and known[signature] <= args.shrink:
        smallest = shrink(failure, args.device, 40 if args.compiled else 400)
        note = f"seed {seed}: {smallest.message}"
        outcome["script"] = script(smallest.steps, args.device, note)
    return outcome


def work(args):
    """A worker: a line of JSON before and after each program."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    if args.compiled:  # each function is new, and the compiler itself is what is tested
        torch._inductor.config.force_disable_caches = True
        torch._inductor.config.compile_threads = 1
    known = collections.Counter()
    for seed in range(args.seed, args.seed + args.programs):
        print(json.dumps({"begin": seed}), flush=True)
        print(json.dumps(try_program(seed, args, known)), flush=True)


class Campaign:
    def __init__(self, args):
        self.args = args
        self.start = self.said = time.monotonic()
        self.end = self.start + args.minutes * 60 if args.minutes else float("inf")
        self.totals = collections.Counter()
        self.failures = collections.Counter()
        self.decided = collections.Counter()

    def finished(self):
        return time.monotonic() > self.end

    def run(self):
        seed, last = self.args.seed, self.args.seed + self.args.programs
        most = COMPILED_PROGRAMS_OF_A_WORKER if self.args.compiled else PROGRAMS_OF_A_WORKER
        while seed < last and not self.finished():
            seed = self.worker(seed, min(most, last - seed))
        return self.report()

    def worker(self, seed, count):
        """Lets a process run programs; returns the seed to go on with."""
        args = self.args
        command = [sys.executable, __file__, "--worker", "--seed", str(seed)]
        command += ["--programs", str(count), "--steps", str(args.steps)]
        command += ["--device", args.device, "--shrink", str(args.shrink)]
        command += ["--compiled"] * args.compiled
        variables = CACHES | os.environ
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=variables)
        begun = seed
        for line in mutate.lines_in_time(process, SECONDS_UNTIL_A_WORKER_HANGS):
            if not line.startswith("{"):
                continue
            outcome = json.loads(line)
            if "begin" in outcome:
                begun = outcome["begin"]
                if self.finished():
                    process.kill()
                    break
            else:
                self.note(outcome)
                begun = outcome["seed"] + 1
        code = process.wait()
        if begun < seed + count and not self.finished():
            kind = "hang" if code == -signal.SIGKILL else "crash"
            message = f"the program of --print {begun} ended its process with {code}"
            self.note({"seed": begun, "operators": 0, "kind": kind, "template": message})
            begun += 1
        return begun

    def note(self, outcome):
        self.totals["programs"] += 1
        self.totals["operators"] += outcome["operators"]
        self.totals["errors"] += outcome.get("errors", 0)
        if time.monotonic() > self.said + SECONDS_BETWEEN_LINES:
            self.said = time.monotonic()
            print(f"seed {outcome['seed']}: {self.sums()}", file=sys.stderr, flush=True)
        if "kind" not in outcome:
            return
        if outcome.get("reason"):
            self.totals["by decision"] += 1
            self.decided[outcome["reason"]] += 1
            return
        signature = (outcome["kind"], outcome["template"])
        self.failures[signature] += 1
        if self.failures[signature] <= self.args.shrink:
            print(f"\n# {outcome['kind']}: {outcome['template']}  (seed {outcome['seed']})")
            print(outcome.get("script") or outcome.get("message", ""), flush=True)

    def sums(self):
        minutes = (time.monotonic() - self.start) / 60
        rate = f"{self.totals['operators'] / minutes:.0f} operators a minute"
        return ", ".join([*(f"{n} {name}" for name, n in self.totals.items()), rate])

    def report(self):
        print("\n" + self.sums())
        for reason, n in self.decided.most_common():
            print(f"{n:6}  by decision: {reason}")
        for (kind, template), n in self.failures.most_common():
            print(f"{n:6}  {kind}: {template}")
        return 1 if self.failures else 0


def parse(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0, help="of the first program")
    parser.add_argument("--minutes", type=float, default=0, help="stop after this time")
    parser.add_argument("--programs", type=int, default=10**9, help="stop after this many")
    parser.add_argument("--steps", type=int, default=40, help="of a program")
    parser.add_argument("--device", default="ocl", help="to compare with the CPU")
    parser.add_argument("--compiled", action="store_true", help="functions for torch.compile only")
    parser.add_argument("--shrink", type=int, default=2, help="scripts for each kind of failure")
    parser.add_argument("--print", type=int, metavar="SEED", help="print this program, and end")
    parser.add_argument("--mutate", action="store_true", help="operators with a wrong argument")
    parser.add_argument("--match", default="", help="--mutate: only operators that match this")
    parser.add_argument("--errors", action="store_true", help="--mutate: compare errors, too")
    parser.add_argument("--calls", default=mutate.CALLS, help="--mutate: recorded calls")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def main():
    args = parse()
    if args.print is not None:
        author = write_program(args.print, args.steps, args.device, args.compiled)
        print(script(author.steps, args.device))
        return 0
    if args.mutate:
        return mutate.work(args) if args.worker else mutate.MutationCampaign(args).run()
    return work(args) if args.worker else Campaign(args).run()


if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).parent))
    sys.exit(main())
