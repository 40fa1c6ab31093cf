"""Operators with one wrong argument (`fuzz.py --mutate`): none may end the process or leave its
tensors.

Each operator's recorded calls (calls.py) are made on the device with one argument changed
(mutations.py). A finding is a process that ends or hangs, a kernel that leaves a buffer (in
Oclgrind, which sees it), an error of the driver or an internal assertion. With --errors, the class
of errors is compared with the CPU's, and that an error is raised at all.
"""

import collections
import contextlib
import dataclasses
import json
import os
import pathlib
import pickle
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings

import torch
from mutate_decisions import decision
from mutations import mutated

ROOT = pathlib.Path(__file__).resolve().parents[2]
CALLS = ROOT / "build/mutate_calls.pickle"
CASES_OF_A_WORKER = 3000
SECONDS_OF_A_CALL = 90
MOST_MEMORY = 4 << 30  # of a worker, beyond what it has at its start
LOG = "OCLGRIND_LOG"
# As in tests/kernels/run.py. Oclgrind does not know these, nor what LLVM makes of inlined code.
OPTIONS_FOR_OCLGRIND = "-cl-opt-disable -Drestrict= -D__builtin_prefetch(...)="
DRIVER = re.compile(r"\bCL_(?!MEM_OBJECT_ALLOCATION|OUT_OF|DEVICE_)[A-Z_]+ \(-?\d+\)")
MESSAGE = re.compile(r"^(\w[^\n]*?)(?: at [^\n]*)?\n\tKernel: (\S+)", re.MULTILINE)


@dataclasses.dataclass
class Case:
    number: int
    operator: str
    what: str
    args: tuple
    kwargs: dict

    def __str__(self):
        return f"{self.operator}, {self.what}"


def all_cases(calls, seed=0):
    """Each mutation of each call; those of a call follow each other."""
    order = list(range(len(calls)))
    random.Random(seed).shuffle(order)
    number = 0
    for position in order:
        for what, args, kwargs in mutated(calls[position]):
            yield Case(number, calls[position][0], what, args, kwargs)
            number += 1


def outcome_on(device, case):
    """ "ok", or [class, message] of the error"""
    from calls import operator, to_device

    try:
        args, kwargs = to_device((case.args, case.kwargs), device)
        operator(case.operator)(*args, **kwargs)
        if device != "cpu":
            torch.ocl.synchronize()
    except Exception as error:
        return [type(error).__name__, str(error)[:400]]
    finally:
        if device != "cpu":
            with contextlib.suppress(Exception):
                torch.ocl.synchronize()
    return "ok"


def messages_since(seen):
    """(Oclgrind's messages after `seen` characters, as {"message in kernel": how often}, all)"""
    text = pathlib.Path(os.environ[LOG]).read_text(errors="replace") if LOG in os.environ else ""
    found = MESSAGE.findall(text[seen:])
    return collections.Counter(f"{kind} in {kernel}" for kind, kernel in found), len(text)


def limit_memory():
    """A shape of 2^32 elements is an error, on the CPU, too, and fills no memory."""
    torch.ones(1, device="ocl").cpu()
    status = pathlib.Path("/proc/self/status").read_text()
    most = MOST_MEMORY + int(re.search(r"VmData:\s*(\d+) kB", status)[1]) * 1024
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def say(**line):
    print(json.dumps(line), flush=True)


def work(args):
    """A worker: a line of JSON before, within and after each case."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    limit_memory()
    seen = 0
    calls = chosen_calls(args)
    for case in all_cases(calls):
        if case.number < args.seed:
            continue
        if case.number >= args.seed + args.programs:
            break
        say(begin=case.number, case=str(case))
        found = {"seed": case.number, "case": str(case), "ocl": outcome_on(args.device, case)}
        found["messages"], seen = messages_since(seen)
        if args.errors:
            say(cpu=case.number, ocl=found["ocl"])
            found["cpu"] = outcome_on("cpu", case)
        say(**found)


def chosen_calls(args):
    calls = pickle.loads(pathlib.Path(args.calls).read_bytes())
    return [call for call in calls if re.search(args.match, call[0])]


def finding(found):
    """(kind, message) of what is wrong with an outcome, or None"""
    ours, cpu = found["ocl"], found.get("cpu")
    if found["messages"]:
        return "bounds", "; ".join(found["messages"])
    if ours != "ok" and "INTERNAL ASSERT" in ours[1] and not (cpu and "INTERNAL ASSERT" in cpu[1]):
        return "assertion", ours[1]
    if ours != "ok" and DRIVER.search(ours[1]):
        return "driver", ours[1]
    if cpu is None or ours == cpu == "ok":
        return None
    if ours == "ok":
        return "accepts", f"the CPU: {cpu[0]}: {cpu[1]}"
    if cpu == "ok":
        return "refuses", f"{ours[0]}: {ours[1]}"
    return None if ours[0] == cpu[0] else ("class", f"{ours}, the CPU: {cpu}")


def lines_in_time(process, seconds):
    """The lines that the process prints; it is killed when it prints none for so many seconds."""
    while True:
        watchdog = threading.Timer(seconds, process.kill)
        watchdog.daemon = True
        watchdog.start()
        line = process.stdout.readline()
        watchdog.cancel()
        if not line:
            return
        yield line


class MutationCampaign:
    def __init__(self, args):
        self.args = args
        self.end = time.monotonic() + args.minutes * 60 if args.minutes else float("inf")
        self.totals = collections.Counter()
        self.findings = collections.Counter()
        self.decided = collections.Counter()
        self.operators = set()

    def run(self):
        if not pathlib.Path(self.args.calls).exists():
            record(self.args.calls)
        number, last = self.args.seed, self.args.seed + self.args.programs
        last = min(last, sum(1 for _ in all_cases(chosen_calls(self.args))))
        while number < last and time.monotonic() < self.end:
            number = self.worker(number, min(CASES_OF_A_WORKER, last - number))
        return self.report()

    def worker(self, number, count):
        """Lets a process try cases; returns the number to go on with."""
        args = self.args
        command = [sys.executable, str(pathlib.Path(__file__).parent / "fuzz.py"), "--mutate"]
        command += ["--worker", "--seed", str(number), "--programs", str(count)]
        command += ["--device", args.device, "--calls", str(args.calls), "--match", args.match]
        command += ["--errors"] * args.errors
        with tempfile.NamedTemporaryFile() as log:
            variables = dict(os.environ)
            if LOG in os.environ:
                variables |= {LOG: log.name, "OCLGRIND_DATA_RACES": "0"}
                variables["OCLGRIND_MAX_ERRORS"] = "1000000"
                variables.setdefault("OCL_BUILD_OPTIONS", OPTIONS_FOR_OCLGRIND)
            process = subprocess.Popen(
                command, stdout=subprocess.PIPE, text=True, errors="replace", env=variables
            )
            return self.follow(process, number, count)

    def follow(self, process, number, count):
        begun, at = {"begin": number, "case": "the start"}, "ocl"
        for line in lines_in_time(process, SECONDS_OF_A_CALL):
            if not line.startswith("{"):
                continue
            said = json.loads(line)
            if "begin" in said:
                begun, at = said, "ocl"
                if time.monotonic() > self.end:
                    process.kill()
                    break
            elif "ocl" in said and "seed" not in said:
                begun["ocl"], at = said["ocl"], "cpu"
            else:
                self.note(said)
                begun = {"begin": said["seed"] + 1, "case": "the end"}
        code = process.wait()
        if begun["begin"] >= number + count or time.monotonic() > self.end:
            return begun["begin"]
        if at == "cpu":  # it is the CPU that ends or hangs
            self.totals["ends on the CPU"] += 1
            self.note({"case": begun["case"], "ocl": begun["ocl"], "messages": {}, "cpu": None})
        else:
            kind = "hang" if code == -signal.SIGKILL else "crash"
            self.add(begun["case"], kind, f"the process ended with {code}")
        return begun["begin"] + 1

    def note(self, found):
        self.totals["calls"] += 1
        self.totals["calls that raise"] += found["ocl"] != "ok"
        self.operators.add(found["case"].split(",")[0])
        wrong = finding(found)
        if wrong:
            self.add(found["case"], *wrong)

    def add(self, case, kind, message):
        reason = decision(case, kind, message)
        if reason:
            self.decided[reason] += 1
            return
        self.findings[kind, case.split(",")[0]] += 1
        print(f"{kind}: {case}: {message}", flush=True)

    def report(self):
        sums = ", ".join(f"{n} {name}" for name, n in self.totals.items())
        print(f"\n{sums}, {len(self.operators)} operators")
        for reason, n in self.decided.most_common():
            print(f"{n:6}  by decision: {reason}")
        for (kind, operator), n in sorted(self.findings.items()):
            print(f"{n:6}  {kind}: {operator}")
        return 1 if self.findings else 0


def record(path):
    """Lets a process of PoCL record calls."""
    tool, recorder = ROOT / "tools/with_runtime.py", ROOT / "tests/fuzz/calls.py"
    command = [sys.executable, tool, "pocl", sys.executable, recorder, path]
    variables = {k: v for k, v in os.environ.items() if k != LOG}
    subprocess.run([str(part) for part in command], check=True, env=variables)
