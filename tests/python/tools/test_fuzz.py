"""Programs at random (tests/fuzz): a few of them, and that a failure is found and made small."""

import fuzz
import pytest
import torch
from program import Step, script
from running import check
from shrink import shrink

pytestmark = pytest.mark.fallback_allowed


def failure_of(seed, steps, device):
    author = fuzz.write_program(seed, steps, device)
    return check(author.steps, author.levels, device)


@pytest.mark.parametrize("seed", range(6))
def test_programs_give_what_they_give_on_the_cpu(device, seed):
    failure = failure_of(seed, 10, device)
    if failure is not None and failure.why() is None:
        pytest.fail(f"{failure.message}\n{script(failure.steps, device)}")


def test_a_seed_is_a_program():
    first, second = (fuzz.write_program(7, 30, "cpu").steps for _ in range(2))
    assert script(first, "cpu") == script(second, "cpu")


def test_a_printed_program_runs():
    names = {}
    exec(script(fuzz.write_program(3, 30, "cpu").steps, "cpu"), names)
    assert any(isinstance(value, torch.Tensor) for value in names.values())


def leaf(number, value):
    return Step("torch.full((3,), {k}, device=device)", (), {"k": value}, (number,))


def program_with_a_wrong_step():
    """On a device that is not "cpu", step 2 gives something else."""
    wrong = Step("{0} + (device != 'cpu') + 0 * {1}", (0, 1), {}, (2,))
    after = Step("{0} * 2", (2,), {}, (3,))
    unused = Step("{0}.neg()", (1,), {}, (4,))
    return [leaf(0, 1.5), leaf(1, 2.5), unused, wrong, after]


def test_a_difference_is_found_and_made_small(device):
    failure = check(program_with_a_wrong_step(), {}, device)
    assert failure.position == 3 and failure.kind == "numbers"
    smallest = shrink(failure, device)
    assert [step.template for step in smallest.steps if "neg" in step.template] == []
    assert smallest.steps[-1].template.startswith("{0} + (device")
    assert len(smallest.steps) == 3


def test_an_error_on_one_side_is_a_difference(device):
    raises = Step("{0}.view(5) if device != 'cpu' else {0}.neg()", (0,), {}, (1,))
    failure = check([leaf(0, 1.0), raises], {}, device)
    assert failure.kind == "error" and "RuntimeError raised instead of nothing" in failure.message


def test_memory_that_is_shared_on_one_side_is_a_difference(device):
    shares = Step("{0}.view(3) if device != 'cpu' else {0}.clone()", (0,), {}, (1,))
    assert check([leaf(0, 1.0), shares], {}, device).kind == "aliases"
