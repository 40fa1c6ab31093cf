"""A fast part of the conformance runs (tests/conformance): two samples of every entry of PyTorch's
operator database and all its inputs that must be refused. `make conformance` runs all of it."""

import pathlib
import types

import harness as h
import opdb
import pytest
import torch
from support import has_fp64

TABLES = pathlib.Path(opdb.__file__).parent
OPTIONS = h.parse_args(h.make_parser("", opdb.KINDS, "forward"), opdb.KINDS, ["--max-samples=2"])


def names_in(table):
    """{name: reason} of a table of lines "name  reason"."""
    lines = (TABLES / table).read_text().splitlines()
    return dict(line.split(maxsplit=1) for line in lines if line and not line.startswith("#"))


ON_THE_CPU = names_in("on_the_cpu.txt")
NEEDS_FLOAT64 = names_in("needs_float64.txt")
KNOWN_FAILURES = names_in("known_failures.txt")


def entries(kind):
    options = types.SimpleNamespace(**vars(OPTIONS))
    options.kinds, options.dtype_list = [kind], [torch.float32]
    return [
        pytest.param(
            task,
            id=task["name"],
            marks=[pytest.mark.xfail(strict=True, reason=KNOWN_FAILURES[f"{kind}:{task['name']}"])]
            if f"{kind}:{task['name']}" in KNOWN_FAILURES
            else [],
        )
        for task in opdb.make_tasks(options)
    ]


@pytest.fixture(scope="module")
def context():
    h.unfreeze_seeded_wrappers()
    device = torch.device("ocl:0")
    return h.Context(OPTIONS, device, h.FallbackMeter(device.type), [0, 0, 0])


def run(task, context):
    result = opdb.run_task(task, context)
    if result["category"] == "skip":
        pytest.skip(f"nothing to compare: {result['message']}")
    assert result["category"] == "pass", result["message"]
    return result


@pytest.mark.parametrize("task", entries("forward"))
def test_forward(task, context, monkeypatch):
    lacks_float64 = task["name"] in NEEDS_FLOAT64 and not has_fp64(0)
    on_the_cpu = task["name"] in ON_THE_CPU or lacks_float64
    if on_the_cpu:
        monkeypatch.setenv("OCL_FALLBACK", "allow")
    result = run(task, context)
    assert bool(result["fallbacks"]) == on_the_cpu, "a table of tests/conformance is wrong"


@pytest.mark.fallback_allowed
@pytest.mark.parametrize("task", entries("errors"))
def test_errors(task, context):
    run(task, context)
