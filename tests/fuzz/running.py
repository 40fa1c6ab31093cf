"""Runs programs on the CPU and the device, and finds the first step that differs."""

import dataclasses

import torch
from compare import Difference, compare_aliases, compare_errors, compare_values
from decisions import reason
from program import Run


@dataclasses.dataclass
class Failure:
    """A program that differs, and the first step that does."""

    steps: list
    levels: dict
    position: int  # None: no step of its own differs, so it is a matter of timing
    kind: str
    message: str

    def signature(self):
        template = self.steps[self.position].template if self.position is not None else "timing"
        return (self.kind, template)

    def why(self):
        """The reason why this may differ, or None."""
        if self.position is None:
            return None
        step = self.steps[self.position]
        return reason(step, self.kind, self.message)


def alive(steps):
    """The numbers of the values that are alive after the steps."""
    numbers = []
    for step in steps:
        numbers += step.results
        if step.template == "del {0}":
            numbers.remove(step.operands[0])
    return numbers


def run_at_once(steps, device):
    """The device runs ahead: nothing is read until the end."""
    run = Run(device)
    for position, step in enumerate(steps):
        run.step(position, step)
    return run


def check(steps, levels, device, expected=None):
    """None, or a Failure. `expected` is a run on the CPU."""
    expected = expected or run_at_once(steps, "cpu")
    actual = run_at_once(steps, device)
    try:
        for position, step in enumerate(steps):
            compare_errors(actual.errors.get(position), expected.errors.get(position), step)
        numbers = [n for n in alive(steps) if expected[n] is not None]
        compare_all(actual, expected, numbers, levels, has_versions(steps))
    except Difference as difference:
        del actual
        return diagnose(steps, levels, device) or Failure(
            steps, levels, None, difference.kind, str(difference)
        )
    return None


def has_versions(steps):
    """Compiled functions make their results at once, so they count fewer changes of them."""
    return not any("compile" in step.template for step in steps)


def compare_all(actual, expected, numbers, levels, versions):
    for n in numbers:
        try:
            compare_values(actual[n], expected[n], levels.get(n, 0), versions)
        except Difference as difference:
            raise Difference(difference.kind, f"v{n}: {difference}") from None
        except (RuntimeError, IndexError) as error:  # of a step before, found when this is read
            raise Difference("error", f"v{n}: {type(error).__name__}: {error}") from None
    compare_aliases(actual, expected, numbers)


def diagnose(steps, levels, device):
    """The failure of the first step that differs, when each is waited for."""
    actual, expected = Run(device), Run("cpu")
    for position, step in enumerate(steps):
        actual.step(position, step)
        expected.step(position, step)
        try:
            compare_errors(actual.errors.get(position), expected.errors.get(position), step)
            numbers = [n for n in alive(steps[: position + 1]) if expected[n] is not None]
            compare_all(actual, expected, numbers, levels, has_versions(steps))
        except Difference as difference:
            return Failure(steps, levels, position, difference.kind, str(difference))
    return None


def device_types(device):
    """The types that the device has, besides those that all have."""
    from author import TYPES

    double = (torch.float64, torch.complex128)
    fp64 = torch.ocl.get_device_properties(device).has_fp64 if device != "cpu" else True
    return {t for t, _ in TYPES if fp64 or t not in double}
