"""A plugin of pytest that writes the launches of each test to the file RECORDED_LAUNCHES.

A line is JSON: [test, kernel, global size, local size, shapes of the operator's inputs]. The file
RECORDED_STATUS gets pytest's status. RECORDED_CASES chooses cases: "optimized" those that Oclgrind
computes with optimized kernels, "unoptimized" the others, which have an attribute of this name.
"""

import json
import os
import pathlib
import tempfile

import pytest
from torch.profiler import ProfilerActivity, profile

BOTH = [ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]


def launches(prof):
    """[kernel, global size, local size, shapes of inputs], each once."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "trace.json"
        prof.export_chrome_trace(str(path))
        events = json.loads(path.read_text())["traceEvents"]
    inputs = {
        event["args"]["External id"]: event["args"].get("Input Dims")
        for event in events
        if event.get("cat") == "cpu_op"
    }
    found = {}
    for event in events:
        if event.get("cat") == "kernel":
            given = event["args"]
            shapes = inputs.get(given.get("External id"))
            launch = [event["name"], given.get("global size"), given.get("local size"), shapes]
            found[json.dumps(launch)] = launch
    return list(found.values())


def pytest_collection_modifyitems(config, items):
    if chosen := os.environ.get("RECORDED_CASES"):
        plain = [hasattr(item.callspec.params["case"], "unoptimized") for item in items]
        kept = [i for i, each in zip(items, plain) if each == (chosen == "unoptimized")]
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = kept


def pytest_sessionfinish(exitstatus):
    if "RECORDED_STATUS" in os.environ:
        pathlib.Path(os.environ["RECORDED_STATUS"]).write_text(str(int(exitstatus)))


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem):
    """Tests that profile themselves are not recorded: there is one profiler."""
    if "profile" in pyfuncitem.nodeid:
        return (yield)
    with profile(activities=BOTH, record_shapes=True) as prof:
        result = yield
    with pathlib.Path(os.environ["RECORDED_LAUNCHES"]).open("a") as file:
        for launch in launches(prof):
            file.write(json.dumps([pyfuncitem.nodeid, *launch]) + "\n")
    return result
