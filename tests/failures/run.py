"""Lets each call of OpenCL fail that torch-ocl makes, on the stern device (docs/stern.md).

usage: with_runtime.py stern python tests/failures/run.py [--sample N --seed S] [...]

A case is a scenario, an entry point, which of its calls fail, and the code. `make stern-failures`
runs them all; docs/reliability.md says what is asked of each. Exits with 1 if there is a defect.
"""

import argparse
import collections
import dataclasses
import json
import os
import pathlib
import random
import shutil
import sys
import tempfile
import time

import torch  # noqa: F401  (before the forks)
from children import Child, at_exit, first, probe, warm
from distributed_cases import pair
from entries import CODES, ONCE_WRONG
from judge import DEFECTS, GOOD, Case
from scenarios import FIRST_USE, SCENARIOS

GROUP = ("profile", "mode", "scenario")  # the fields of a case that one process runs
PROFILES = ["nvidia_ampere", "intel_gen9"]
# Functions that are called when a process ends, or when objects are destroyed.
AT_EXIT = [
    entry
    for entry in CODES
    if entry.startswith(("clRelease", "clFinish", "clFlush", "clWait", "clGetEvent", "clEnqueue"))
] + ["execution", "clGetProgramInfo"]


class Campaign:
    def __init__(self, args, folder):
        self.args, self.folder = args, folder
        self.random = random.Random(args.seed)
        self.results = []
        self.earlier = (
            json.loads(args.json.read_text()) if args.update and args.json.exists() else []
        )

    def environment(self, profile, **variables):
        common = {"STERN_PROFILE": profile, "OCL_FALLBACK": "allow", "OCL_CACHE_DIR": "off"}
        return common | variables

    def child(self, body, environment):
        return Child(body, environment, self.folder / "printed")

    def wanted(self, mode, scenario):
        args = self.args
        return (not args.modes or mode in args.modes) and (
            not args.scenarios or scenario in args.scenarios
        )

    def chosen(self, cases):
        """The cases that --entries and --sample leave."""
        if self.args.entries:
            cases = [case for case in cases if case.entry in self.args.entries]
        if self.args.sample is None:
            return cases
        drawn = self.random.sample(cases, min(self.args.sample, len(cases)))
        return [case for case in cases if case in drawn or self.was_wrong(case)]

    def was_wrong(self, case):
        return case.mode == "warm" and case.failure() in ONCE_WRONG.get(case.scenario, ())

    def note(self, case, outcome, text, printed=""):
        result = vars(case) | {"outcome": outcome, "text": text}
        if outcome in DEFECTS:
            result["printed"] = printed
        self.results.append(result)
        if outcome in DEFECTS or self.args.verbose:
            where = f"{case.profile} {case.mode} {case.scenario} {case.failure()}"
            print(f"{outcome}: {where}: {text[:1000]}", flush=True)
            if outcome in ("crash", "hang"):
                print(printed, flush=True)

    def start(self, body, environment):
        """A child and its first line; the campaign ends where the scenario fails by itself."""
        child = self.child(body, environment)
        line = child.hear(5 * self.args.limit)  # compiles its kernels
        if line is None:
            child.end(self.args.limit)
            sys.exit(f"a scenario fails without failures of calls:\n{child.printed()}")
        return child, line

    def hear(self, child, case):
        """(outcome, text, printed) of a case that the child has begun."""
        try:
            line = child.hear(self.args.limit)
        except TimeoutError:
            return "hang", "", child.printed()
        if line is None:
            return "crash", child.end(self.args.limit), child.printed()
        return line["outcome"], line["text"], child.printed()

    def run_warm(self, profile, scenario, body=None):
        body = body or warm(profile, scenario)
        environment = self.environment(profile)
        child, line = self.start(body, environment)
        cases = self.chosen([Case(**each) for each in line["cases"]])
        while cases:
            case = cases.pop(0)
            if child is None:
                child, _ = self.start(body, environment)
            child.tell(vars(case))
            child.hear(self.args.limit)
            outcome, text, printed = self.hear(child, case)
            self.note(case, outcome, text, printed)
            if outcome in (*DEFECTS, "refused"):
                if outcome not in ("crash", "hang"):
                    self.end(child, case)
                child = None
        if child:
            self.end(child, case)

    def end(self, child, case):
        child.tell(None)
        if wrong := child.end(self.args.limit):
            self.note(case, "crash", f"at exit of the process: {wrong}", child.printed())

    def run_first(self, profile, scenario):
        filled = self.folder / "filled"
        shutil.rmtree(filled, ignore_errors=True)
        kept = scenario != "start"  # which builds its programs
        environment = self.environment(profile, OCL_CACHE_DIR=str(filled) if kept else "off")
        for _ in range(2 if kept else 1):
            child, right = self.start(first(scenario), environment)
            child.end(self.args.limit)
        cases = [
            Case(profile, "first use", scenario, entry, times, code)
            for entry, codes in CODES.items()
            for times in ("1", "2", "10", "1+")
            if int(times.rstrip("+")) <= right["calls"].get(entry, 0)
            for code in codes
        ]
        for case in self.chosen(cases):
            environment = self.environment(profile, STERN_FAIL=case.failure())
            if kept:
                copy = self.folder / "copy"
                shutil.rmtree(copy, ignore_errors=True)
                shutil.copytree(filled, copy)
                environment["OCL_CACHE_DIR"] = str(copy)
            child = self.child(
                first(scenario, case, right["expected"], right["alive"]), environment
            )
            self.hear_all(child, case)

    def hear_all(self, child, case):
        """The only case of a child."""
        try:
            line = child.hear(self.args.limit)
        except TimeoutError:
            return self.note(case, "hang", "", child.printed())
        outcome, text, printed = self.hear(child, case) if line else ("crash", "", "")
        self.note(case, outcome, text, printed)
        if outcome not in ("crash", "hang") and (wrong := child.end(self.args.limit)):
            self.note(case, "crash", f"at exit of the process: {wrong}", child.printed())

    def run_exit(self, profile, scenario):
        cases = [Case(profile, "exit", scenario, entry, "1+", CODES[entry][0]) for entry in AT_EXIT]
        for case in self.chosen(cases):
            child, _ = self.start(at_exit(scenario, case), self.environment(profile))
            wrong = child.end(self.args.limit)
            printed = child.printed()
            outcome = "handled" if not wrong else "hang" if "end" in wrong else "crash"
            self.note(case, outcome, wrong, printed)

    def run(self):
        child, line = self.start(probe, self.environment(self.args.profiles[0]))
        child.end(self.args.limit)
        if not line["loaded"]:
            sys.exit("An OpenCL loader that knows layers (ocl-icd 2.3) is not installed")
        for profile in self.args.profiles:
            plan = [(self.run_warm, "warm", each) for each in SCENARIOS]
            plan += [(self.run_first, "first use", each) for each in FIRST_USE]
            plan += [(self.run_exit, "exit", "graphs")]
            if profile == self.args.profiles[0]:
                plan += [(self.run_distributed, "distributed", "collectives")]
            for function, mode, scenario in plan:
                if not self.wanted(mode, scenario):
                    continue
                started, before = time.monotonic(), len(self.results)
                function(profile, scenario)
                self.store()
                new = self.results[before:]
                bad = sum(each["outcome"] in DEFECTS for each in new)
                print(
                    f"{profile} {mode} {scenario}: {len(new)} cases, {bad} defects, "
                    f"{time.monotonic() - started:.0f} s",
                    flush=True,
                )

    def all_results(self):
        """The results of this run, and earlier results of other scenarios."""
        whole = self.args.entries is None and self.args.sample is None
        keys = GROUP if whole else [field.name for field in dataclasses.fields(Case)]

        def key(result):
            return tuple(result[each] for each in keys)

        new = {key(each) for each in self.results}
        return [each for each in self.earlier if key(each) not in new] + self.results

    def store(self):
        if self.args.json:
            self.args.json.write_text(json.dumps(self.all_results(), indent=1))

    def run_distributed(self, profile, scenario):
        self.run_warm(profile, scenario, pair(profile, self.folder))


def table(results, title, name_of, order):
    """In Markdown; rows: the names that name_of(result) gives; columns: outcomes."""
    counts = collections.defaultdict(collections.Counter)
    for each in results:
        counts[name_of(each)][each["outcome"]] += 1
    present = {each["outcome"] for each in results}
    columns = [*GOOD, *(each for each in DEFECTS if each in present)]
    rows = [(name, counts[name]) for name in order if name in counts]
    rows.append(("all", sum(counts.values(), collections.Counter())))
    lines = [
        f"| {title} | cases | " + " | ".join(columns) + " |",
        "| --- |" + " --- |" * (len(columns) + 1),
    ]
    for name, row in rows:
        cells = [str(row[column] or "") for column in columns]
        lines.append(f"| {name} | {row.total()} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def tables(results):
    """By entry points, and by scenarios."""
    entries = table(
        results,
        "entry point",
        lambda result: f"`{result['entry']}`",
        [f"`{entry}`" for entry in CODES],
    )

    def group(result):
        return ", ".join(result[each] for each in ("scenario", "mode", "profile"))

    groups = sorted({group(each) for each in results})
    return entries + "\n" + table(results, "scenario, mode, profile", group, groups)


def write_table(document, results):
    """Puts the table between the marks of the document."""
    text = document.read_text()
    head, rest = text.split("<!-- table -->\n")
    tail = rest.split("<!-- end of table -->")[1]
    marked = f"<!-- table -->\n{tables(results)}<!-- end of table -->"
    document.write_text(head + marked + tail)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--profiles", nargs="+", default=PROFILES)
    parser.add_argument("--modes", nargs="+", choices=["warm", "first use", "exit", "distributed"])
    parser.add_argument("--scenarios", nargs="+")
    parser.add_argument("--entries", nargs="+", choices=CODES)
    parser.add_argument(
        "--sample", type=int, metavar="N", help="cases of each scenario, and those of ONCE_WRONG"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=float, default=600, help="seconds after which a case hangs")
    parser.add_argument("--json", type=pathlib.Path, help="the file that gets the results")
    parser.add_argument(
        "--update", action="store_true", help="keep the results of other scenarios in that file"
    )
    parser.add_argument("--markdown", type=pathlib.Path, help="the document that gets the tables")
    parser.add_argument("--verbose", action="store_true", help="print each case")
    args = parser.parse_args()
    if args.update and not args.json:
        parser.error("--update needs --json")
    if "OPENCL_LAYERS" not in os.environ:
        sys.exit("run this by tools/with_runtime.py stern")
    folder, own = pathlib.Path(tempfile.mkdtemp()), os.getpid()
    try:
        campaign = Campaign(args, folder)
        campaign.run()
    finally:
        if os.getpid() == own:  # children end through here, too
            shutil.rmtree(folder)
    results = campaign.all_results()
    if args.markdown:
        write_table(args.markdown, results)
    defects = sum(each["outcome"] in DEFECTS for each in results)
    print(tables(results))
    print(f"{len(results)} cases, {defects} defects")
    sys.exit(defects > 0)


if __name__ == "__main__":
    main()
