"""One case: a scenario during which calls fail, and what a program sees of it.

Outcomes that are as they should be:
  raised    an exception names the function and the code
  later     the same, at the next synchronisation
  handled   the results are right, and no exception was raised
  refused   raised, and the device refuses to work from now on, for the reason that it gives
Defects:
  unnamed   an exception does not name the function or the code
  silent    a result is wrong, and no exception was raised
  late      a program saw a wrong result before the exception
  unusable  the same scenario fails afterwards, without a failure
  leak      objects are alive that are not without a failure
  crash, hang   of the process
"""

import dataclasses
import gc
import warnings

import torch
from entries import CODES, TIMES, names

GOOD = ("raised", "later", "handled", "refused")
DEFECTS = ("unnamed", "silent", "late", "unusable", "leak", "crash", "hang")


@dataclasses.dataclass
class Case:
    profile: str
    mode: str  # "warm", "first use", "exit", "distributed"
    scenario: str
    entry: str
    times: str
    code: int

    def failure(self):
        return f"{self.entry}:{self.times}:{self.code}"


def cases_of(profile, mode, scenario, calls):
    """The cases of a scenario that makes these calls, {entry point: number}."""
    return [
        Case(profile, mode, scenario, entry, times, code)
        for entry, codes in CODES.items()
        for times in TIMES
        if int(times.rstrip("+")) <= calls.get(entry, 0)
        for code in codes
    ]


def plain(value):
    return value.tolist() if isinstance(value, torch.Tensor) else value


def attempt(body):
    """Runs body(see): -> (what it saw, the texts of errors and warnings, whether it raised)."""
    seen, texts, raised = [], [], False
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            body(lambda value: seen.append(plain(value)))
        except Exception as error:
            texts.append(f"{type(error).__name__}: {error}")
            raised = True
            for each in (error, error.__context__, error.__cause__):
                if each is not None:
                    each.__traceback__ = None  # holds tensors
    texts += [str(each.message) for each in caught]
    return seen, texts, raised


def clean(see=None):
    """Leaves only what stays for the life of a process."""
    gc.collect()
    if torch.ocl.is_initialized():
        torch.ocl.synchronize()
        torch.ocl.empty_cache()
        torch.accelerator.empty_host_cache()
        # No one waits for the unmaps of pinned memory, which have a queue of their own. The map for
        # a new block comes after them, and is waited for.
        torch.empty(1, pin_memory=True)
        torch.ocl.synchronize()


def settle():
    """Lets the device end; -> the texts of errors, and whether it ends without one at last."""
    later = []
    for _ in range(4):
        _, texts, raised = attempt(clean)
        later += texts
        if not raised:
            return later, True
    return later, False


def judge(case, layer, body, expected, leaks):
    """Runs the body while calls fail, which the caller has begun: -> (outcome, text).

    `leaks` returns the objects that are alive beyond what is usual.
    """
    seen, texts, raised = attempt(body)
    reached = layer.failed() > 0
    layer.fail()
    later, works = settle()
    again, more, raised_again = attempt(body) if works else ([], later[-1:], True)
    text = "; ".join([*texts, *(f"later: {each}" for each in later)])
    named = any(names(each, case.entry, case.code) for each in [*texts, *later])
    wrong = seen != expected[: len(seen)] or (not raised and len(seen) < len(expected))
    if not works or raised_again or again != expected:
        after = "; ".join([text, "afterwards:", *more])
        if raised_again and any(names(each, case.entry, case.code) for each in more):
            return "refused", after
        return "unusable", after + ("" if raised_again else f" {again} for {expected}")
    if wrong:
        differ = f"{seen} for {expected[: len(seen)]}"
        return ("late" if raised or later else "silent"), f"{text} {differ}"
    if (raised or later) and not named:
        return "unnamed", text
    settle()
    if not case.entry.startswith("clRelease") and (left := leaks()):
        return "leak", f"{left} {text}"
    outcome = "raised" if raised else "later" if later else "handled"
    return outcome, text if reached else f"not reached {text}"


def difference(after, before):
    """Objects that are alive now but not in `before`."""
    more = {name: after[name] - before[name] for name in after if after[name] > before[name]}
    return " ".join(f"{name} +{count}" for name, count in more.items())


def judge_repeatable(case, layer, body, expected, usual):
    """Judges a body that can be run again; `usual` is what is alive more after each run.

    Streams keep the events of some of their marks, so that a single event more is no leak. A leak
    is there again when the same call fails again.
    """
    for _ in range(2):
        before = layer.alive()
        twice = {name: before[name] + 2 * usual[name] for name in before}
        layer.fail(case.failure())
        outcome, text = judge(
            case, layer, body, expected, lambda twice=twice: difference(layer.alive(), twice)
        )
        if outcome != "leak":
            break
    return outcome, text
