"""A process ends with its own status, without an abort or a message, whatever is under way."""

import json
import pathlib
import subprocess
import sys

import exit_states
import pytest
from support import child_environment


@pytest.fixture(scope="module")
def results(request):
    """{state: (exit status, what it printed)} of the tests that were chosen."""
    tests = [item for item in request.session.items if item.module is request.module]
    states = [item.callspec.params["state"] for item in tests]
    script = pathlib.Path(exit_states.__file__)
    printed = subprocess.run(
        [sys.executable, script, *states], env=child_environment(), capture_output=True, text=True
    )
    lines = [json.loads(line) for line in printed.stdout.splitlines() if line.startswith("[")]
    return {name: result for name, *result in lines}


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    "state",
    [
        pytest.param(state, marks=[] if state in exit_states.OFTEN else SLOW)
        for state in exit_states.STATES
    ],
)
def test_exit(device, state, results):
    status, printed = results[state]
    assert status == 0, printed
    for word in ("Exception ignored", "terminate called", "Fatal Python error", "Traceback"):
        assert word not in printed, printed
