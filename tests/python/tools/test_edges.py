"""A small sample of the sweep over the edges of operators (tests/conformance/edges.py), the same at
every run. `make edges` runs all of it."""

import edges
import harness as h
import pytest
import torch

SAMPLE = ["--fraction", "0.004", "--cases", "2", "--dtypes", "float32,int64", "--max-samples", "1"]
OPTIONS = edges.parse(SAMPLE)
TASKS = edges.make_tasks(OPTIONS)


@pytest.fixture(scope="module")
def context():
    h.unfreeze_seeded_wrappers()
    return h.Context(OPTIONS, torch.device("ocl:0"), None, [0, 0, 0])


def named(task):
    return f"{task['name']}-{task['dtype']}-{task['kind']}"


@pytest.mark.fallback_allowed
@pytest.mark.parametrize("task", TASKS, ids=named)
def test_sample(task, context):
    result = edges.run_task(task, context)
    assert not result["differences"]


@pytest.mark.fallback_allowed
def test_it_finds_differences(context, monkeypatch):
    """A wrong sign of zero, a missing error, and a wrong value do not pass."""
    add = next(s for s in edges.SUBJECTS if s.name == "add")
    task = {"index": edges.SUBJECTS.index(add), "base": "add", "name": "add", "dtype": "float32"}
    real = add.call

    def call(change):
        def wrong(sample, device):
            on_device = torch.device(device).type != "cpu"
            return change if on_device else real(sample, device)

        return wrong

    def kinds(edge, change):
        monkeypatch.setattr(add, "call", call(change))
        result = edges.run_task(task | {"kind": edge}, context)
        return {d["kind"] for d in result["differences"]}

    monkeypatch.setattr(context, "args", edges.parse(["--max-samples", "1"]))
    assert "sign of zero" in kinds("special", lambda *a, **k: torch.add(*a, **k) * 1 + 0.0)
    assert "value" in kinds("special", lambda *a, **k: torch.add(*a, **k) + 1)
    assert "no error" in kinds("empty", lambda a, b, **k: a + 1)
    assert "dtype" in kinds("promotion", lambda *a, **k: torch.add(*a, **k).float())


def test_crashes_of_the_cpu_are_left_out():
    task = {"name": "add", "base": "add", "dtype": "float32", "kind": "out"}
    lost = [("number 3", "crash of the CPU"), ("number 4", "crash")]
    task["lost"] = [{"case": case, "kind": kind, "message": ""} for case, kind in lost]
    outcome = edges.Outcome(task)
    outcome.name_lost(3, "a")
    outcome.name_lost(4, "b")
    assert outcome.result["left"] == {"crash of the CPU": 1}
    assert [d["case"] for d in outcome.result["differences"]] == ["b"]
