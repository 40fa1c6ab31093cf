"""A small sample of the sweep over all names of PyTorch (tests/conformance/names.py), the same at
every run. `make names` runs all of it."""

import harness as h
import names
import names_table
import pytest
import torch

OPTIONS = names.parse(["--fraction", "0.004", "--tries", "16", "--sets", "2", "--refused", "1"])
TASKS = names.make_tasks(OPTIONS)
WRITTEN = names.parse(["--sets", "1", "--refused", "0", "--kind", "forward"])
pytestmark = pytest.mark.fallback_allowed


def run(task, options):
    context = h.Context(options, torch.device("ocl:0"), None, [0, 0, 0])
    return names.run_task(task, context)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: f"{task['name']}-{task['kind']}")
def test_sample(task):
    assert not run(task, OPTIONS)["differences"]


@pytest.mark.parametrize("name", names_table.CALLS)
def test_arguments_by_hand(name):
    task = {"index": 0, "name": name, "base": name, "dtype": "-", "kind": "forward"}
    result = run(task, WRITTEN)
    assert result["agree"] or result["decided"]
    assert not result["differences"]


def test_it_finds_differences(monkeypatch):
    """Another result, an error where the CPU computes, and a kernel that a stub lacks."""
    task = {"index": 0, "name": "aten::sin", "base": "aten::sin", "dtype": "-", "kind": "forward"}
    real = names.SUBJECTS["aten::sin"]

    def differences(change):
        subject = real()

        def call(sample, device):
            return subject.function if torch.device(device).type == "cpu" else change

        monkeypatch.setattr(subject, "call", call)
        monkeypatch.setitem(names.SUBJECTS, "aten::sin", lambda: subject)
        return {d["kind"] for d in run(task, WRITTEN)["differences"]}

    def refuse(x):
        raise RuntimeError("DispatchStub: missing kernel for ocl")

    assert differences(torch.cos) == {"value"}
    assert differences(refuse) == {"error"}
    assert not differences(torch.sin)
