"""The processes of the campaign. A child writes what it is about to do, and what came of it."""

import json
import os
import pathlib
import select
import signal
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "python/common"))

import torch
from forked import Forked
from judge import Case, attempt, cases_of, clean, difference, judge, judge_repeatable
from layer import Layer
from scenarios import FIRST_USE, SCENARIOS


class Child(Forked):
    def __init__(self, body, environment, output):
        def with_environment(say, hear):
            os.environ.update(environment)
            body(say, hear)

        super().__init__(with_environment, output)
        self._read = os.fdopen(self._read)

    def _leave(self):
        sys.exit()  # with destructors, which must not crash

    def hear(self, limit):
        """The next line; None at the end, TimeoutError where the child hangs."""
        if not select.select([self._read], [], [], limit)[0]:
            os.kill(self.process, signal.SIGABRT)  # prints the stacks
            self.end(5)
            raise TimeoutError
        line = self._read.readline()
        return json.loads(line) if line else None

    def end(self, limit):
        """Waits for the end: -> what is wrong with it, or an empty string."""
        self._read.close(), self._write.close()
        waiting = signal.signal(signal.SIGALRM, _too_late)
        signal.alarm(int(limit))
        try:
            _, status = os.waitpid(self.process, 0)
        except TimeoutError:
            os.kill(self.process, signal.SIGKILL)
            os.waitpid(self.process, 0)
            return "does not end"
        finally:
            signal.alarm(0)
            signal.signal(signal.SIGALRM, waiting)
        code = os.waitstatus_to_exitcode(status)
        return f"exit status {code}" if code else ""


def _too_late(*_):
    raise TimeoutError


def probe(say, hear):
    """Says whether the OpenCL loader has loaded the layer."""
    torch.ones(1, device="ocl")
    say(loaded=Layer().calls_of_all()["clGetDeviceInfo"] > 0)


def warm(profile, scenario):
    """Runs the scenario until nothing is new, then one case after the other."""

    def body(say, hear):
        layer, run = Layer(), SCENARIOS[scenario]
        expected, texts, raised = attempt(run)
        assert not raised, texts
        for _ in range(2):
            assert attempt(run)[0] == expected
            clean()
        before = layer.alive()
        layer.fail()
        assert attempt(run)[0] == expected
        calls = layer.calls_of_all()
        clean()
        usual = {name: count - before[name] for name, count in layer.alive().items()}
        say(cases=[vars(case) for case in cases_of(profile, "warm", scenario, calls)])
        while (line := hear()) is not None:
            case = Case(**line)
            say(begin=line)
            outcome, text = judge_repeatable(case, layer, run, expected, usual)
            say(outcome=outcome, text=text)

    return body


def first(scenario, case=None, expected=None, alive=None):
    """The scenario in a fresh process; without a case, says what is right."""

    def body(say, hear):
        run = FIRST_USE[scenario]
        layer = Layer()
        if case is None:
            seen, texts, raised = attempt(run)
            assert not raised, texts
            calls = layer.calls_of_all()
            clean()
            assert attempt(run)[0] == seen
            clean()
            say(expected=seen, alive=layer.alive(), calls=calls)
            return
        say(begin=vars(case))
        outcome, text = judge(case, layer, run, expected, lambda: difference(layer.alive(), alive))
        say(outcome=outcome, text=text)

    return body


def at_exit(scenario, case):
    """A process that ends while calls fail."""

    def body(say, hear):
        run, layer = SCENARIOS[scenario], Layer()
        kept = torch.ones(8, device="ocl") * 2, torch.ones(3).pin_memory()
        _, texts, raised = attempt(run)
        assert not raised, texts
        say(begin=vars(case), kept=len(kept))
        layer.fail(case.failure())
        sys.modules["kept"] = kept

    return body
