"""Runs the sections of the check in a process of its own, and finds settings that help.

A driver may crash or hang. So sections share a process only until one fails; then the next section
gets a new process. The section that takes most of the memory also gets a new one.
"""

import collections
import contextlib
import json
import os
import queue
import re
import subprocess
import sys
import tempfile
import threading
import time

import torch

from . import machine
from .families import FAMILIES, GENERAL
from .inputs import Skip, compare

TIMEOUT = 300  # seconds that a case may take
MACHINE = {
    "copies": machine.check_copies,
    "streams": machine.check_streams,
    "memory": machine.check_memory,
    "training": machine.check_training,
    "speed": machine.check_speed,
}
SECTIONS = [*FAMILIES, *MACHINE]
ALONE = "memory"  # other sections in the process would hold memory
REMEDIES = {
    "training": [
        "OCL_DISABLE=tiles,direct,gpu_winograd",
        "OCL_DISABLE=gpu_vector,gpu_tiles",
        "OCL_CONV_ALGORITHM=plain",
    ]
}
# PyTorch 2.11 refuses them for out-of-tree devices (SINCE in kernels/codegen/generate.py).
REFUSED_BY_2_11 = {
    "aten::std.correction",
    "aten::var.correction",
    "aten::std_mean.correction",
    "aten::var_mean.correction",
    "aten::_cdist_forward",
    "aten::_cdist_backward",
    "aten::_pdist_forward",
    "aten::_pdist_backward",
}
PASSED, FAILED, SKIPPED = "passed", "FAILED", "skipped"
MARK = "result: "  # marks lines that do not come from a driver
Result = collections.namedtuple("Result", "name state text")  # result of a case


class Outcome:
    """Results and seconds of a section."""

    def __init__(self, section, results, seconds=0.0):
        self.section, self.results, self.seconds = section, results, seconds

    def of(self, state):
        return [result for result in self.results if result.state == state]

    @property
    def state(self):
        if self.of(FAILED) or not self.results:
            return FAILED
        return PASSED if self.of(PASSED) else SKIPPED


# ---- in the process that runs sections


def tell(*message):
    print(MARK + json.dumps(message), flush=True)


def text_of(error):
    return f"{type(error).__name__}: {error}"


def refused_operator(error, release=torch.__version__):
    """The operator, if this release of PyTorch is the reason for the error, else None."""
    operator = str(error).split(" ", 1)[0]
    old = isinstance(error, NotImplementedError) and release.startswith("2.11.")
    return operator if old and operator in REFUSED_BY_2_11 else None


def run_cases(section, device):
    for name, function in FAMILIES[section].cases.items():
        try:
            compare(function, device)
            tell(name, PASSED, "")
        except Skip as reason:
            tell(name, SKIPPED, str(reason))
        except Exception as error:
            if operator := refused_operator(error):
                tell(name, SKIPPED, f"PyTorch 2.11 refuses {operator} for ocl; it runs on the CPU")
            else:
                tell(name, FAILED, text_of(error))


def run_parts(section, device):
    name = "the beginning"
    try:
        for name in MACHINE[section](device):
            tell(name, PASSED, "")
    except Exception as error:
        tell(f"after {name}", FAILED, text_of(error))


def run_sections(sections, device):
    """Prints each result as a line of JSON, and the seconds of each section."""
    torch.ocl.set_device(device)
    for section in sections:
        start = time.perf_counter()
        (run_cases if section in FAMILIES else run_parts)(section, device)
        try:
            torch.ocl.synchronize(device)  # stores the section's programs, which takes PoCL seconds
        except Exception as error:
            tell("the end", FAILED, text_of(error))
        tell(time.perf_counter() - start)


# ---- in the process that prints the table


class Process:
    """A process that runs sections, and what it prints."""

    def __init__(self, process, errors):
        self.process, self.errors, self.lines = process, errors, queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            if line.startswith(MARK):
                self.lines.put(json.loads(line.removeprefix(MARK)))
        self.lines.put(None)

    def outcome(self, section):
        """The results of the next section."""
        results = []
        while True:
            try:
                message = self.lines.get(timeout=TIMEOUT)
            except queue.Empty:
                text = f"no answer within {TIMEOUT} s"
                return Outcome(section, [*results, Result("the next one", FAILED, text)])
            if message is None:
                return Outcome(section, [*results, Result("the next one", FAILED, self._end())])
            if len(message) == 1:
                return Outcome(section, results, message[0])
            results.append(Result(*message))

    def _end(self):
        code = self.process.wait()
        self.errors.seek(0)
        last = (self.errors.read().strip().splitlines() or [""])[-1]
        what = f"signal {-code}" if code < 0 else f"exit code {code}"
        return f"the process ended with {what}: {last}"


@contextlib.contextmanager
def started(sections, device, setting, given):
    """A Process with additional variables and a setting of OCL_*. It ends with the context."""
    variables = {"OCL_FALLBACK": "error", **os.environ, **given}
    if setting:
        name, value = setting.split("=", 1)
        adds = "OPTIONS" in name or "DISABLE" in name
        variables[name] = f"{variables.get(name, '')} {value}" if adds else value
    command = [sys.executable, "-m", "torch_ocl.check", "--device", device, "--sections", *sections]
    with tempfile.TemporaryFile("w+", errors="replace") as errors:
        process = subprocess.Popen(
            command, env=variables, stdout=subprocess.PIPE, stderr=errors, text=True
        )
        try:
            yield Process(process, errors)
        finally:
            process.kill()
            process.wait()


def share_of(waiting):
    """The sections that the next process may run."""
    if waiting[0] == ALONE:
        return waiting[:1]
    return waiting[: waiting.index(ALONE)] if ALONE in waiting else list(waiting)


def outcomes(sections, device, setting=None, **variables):
    """The Outcome of each section, in turn."""
    waiting = list(sections)
    while waiting:
        share = share_of(waiting)
        with started(share, device, setting, variables) as process:
            for section in share:
                outcome = process.outcome(section)
                waiting.remove(section)
                yield outcome
                if outcome.state == FAILED:
                    break


def find_remedy(failed, device):
    """The first setting with which the section passes, or None. Errors may name one, too."""
    section = failed.section
    specific = FAMILIES[section].settings if section in FAMILIES else REMEDIES.get(section, [])
    named = re.findall(r"OCL_\w+=\d+", " ".join(result.text for result in failed.of(FAILED)))
    for setting in [*named, *specific, *GENERAL]:
        (outcome,) = outcomes([section], device, setting)
        if outcome.state != FAILED:
            return setting
    return None
