"""Makes a failing program small: deletes steps, replaces what made a value by the value itself."""

import copy

from program import Step
from running import check, run_at_once


def shrink(failure, device, attempts=400):
    """The smallest program found that differs in the same way."""
    wanted = failure.signature()
    budget = [attempts]

    def still_fails(steps):
        budget[0] -= 1
        if budget[0] < 0:
            return None
        try:
            found = check(steps, failure.levels, device)
        except Exception:
            return None
        return found if found is not None and found.signature() == wanted else None

    best = failure
    if best.position is not None:
        best = still_fails(best.steps[: best.position + 1]) or best
    while budget[0] > 0:
        smaller = delete_steps(best, still_fails)
        smaller = shrink_bodies(smaller, still_fails)
        smaller = replace_by_values(smaller, still_fails)
        if size(smaller.steps) >= size(best.steps):
            break
        best = smaller
    return best


def size(steps):
    made = ("data(", "torch.tensor(")
    return sum(
        (1 if step.template.startswith(made) and not step.operands else 3)
        + (size(step.body) if step.body else 0)
        for step in steps
    )


def without(steps, position):
    """The steps without one, and without what needs its results."""
    gone = set(steps[position].results)
    result = []
    for i, step in enumerate(steps):
        if i == position or gone & {*step.operands, *step.inputs}:
            gone |= set(step.results)
        else:
            result.append(step)
    return result


def delete_steps(failure, still_fails):
    best = failure
    for position in reversed(range(len(best.steps))):
        if position < len(best.steps):
            best = still_fails(without(best.steps, position)) or best
    for position, step in enumerate(best.steps):  # streams do not matter, mostly
        if step.stream:
            steps = copy.deepcopy(best.steps)
            steps[position].stream = 0
            best = still_fails(steps) or best
    return best


def shrink_bodies(failure, still_fails):
    """Deletes steps inside of functions, and outputs."""
    best = failure
    for position, step in enumerate(best.steps):
        if step.body is None:
            continue
        for k in reversed(range(len(step.body))):
            current = best.steps[position]
            if k >= len(current.body):
                continue
            body = without(current.body, k)
            best = still_fails(with_body(best.steps, position, body)) or best
    return best


def with_body(steps, position, body):
    """The steps with another function; later steps that need lost results go, too."""
    steps = copy.deepcopy(steps)
    step = steps[position]
    made = {*step.inputs, *(n for inner in body for n in inner.results)}
    kept = [k for k, n in enumerate(step.outputs) if n in made]
    lost = [k for k in range(len(step.outputs)) if k not in kept]
    gone = {step.results[k] for k in lost if k < len(step.results)}
    step.body = body
    step.outputs = tuple(step.outputs[k] for k in kept)
    step.results = tuple(n for n in step.results if n not in gone)
    return [s for s in steps if not gone & {*s.operands, *s.inputs}]


def replace_by_values(failure, still_fails):
    """Small contiguous values as literals instead of what computes them."""
    best = failure
    for position in reversed(range(len(best.steps) - 1)):
        if position >= len(best.steps) - 1:
            continue
        step = best.steps[position]
        if len(step.results) != 1 or step.template.startswith("torch.tensor("):
            continue
        run = run_at_once(best.steps[: position + 1], "cpu")
        n = step.results[0]
        x = run[n]
        if x is None or x.numel() > 12 or not x.is_contiguous() or x.requires_grad:
            continue
        arguments = dict(data=x.tolist(), dtype=x.dtype)
        template = "torch.tensor({data}, dtype={dtype}, device=device)"
        if x.numel() == 0:
            template, arguments = (
                "torch.zeros({s}, dtype={dtype}, device=device)",
                dict(s=tuple(x.shape), dtype=x.dtype),
            )
        leaf = Step(template, (), arguments, (n,))
        steps = [*best.steps[:position], leaf, *best.steps[position + 1 :]]
        best = still_fails(remove_unused(steps)) or best
    return best


def remove_unused(steps):
    """Without steps whose results nobody reads, from the last but one backwards."""
    used, kept = set(), []
    for i, step in enumerate(reversed(steps)):
        if i == 0 or not step.results or step.writes or used & set(step.results):
            used |= {*step.operands, *step.inputs}
            kept.append(step)
    defined, result = set(), []
    for step in reversed(kept):
        if {*step.operands, *step.inputs} <= defined:
            defined |= set(step.results)
            result.append(step)
    return result
