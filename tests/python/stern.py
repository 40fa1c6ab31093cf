"""Runs Python on the stern device, which plays a GPU (docs/stern.md)."""

import os
import pathlib
import subprocess
import sys
import textwrap

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROFILES = ROOT / "tests" / "stern" / "profiles"


def changed_profile(folder, profile, **values):
    """Writes the profile with other lines."""
    text = (PROFILES / f"{profile}.profile").read_text()
    lines = [line for line in text.splitlines() if line.split(" =")[0] not in values]
    path = folder / "changed.profile"
    path.write_text("\n".join([*lines, *(f"{key} = {value}" for key, value in values.items())]))
    return path


def on_stern(profile, *arguments, **variables):
    """What `python ARGUMENTS` prints there; skips the test where this machine cannot have it."""
    environment = {**os.environ, "STERN_PROFILE": str(profile)}
    environment.update({name: str(value) for name, value in variables.items()})
    for name in ("OCL_KERNEL_FAMILY", "OPENCL_LAYERS", "OCL_CACHE_DIR"):
        if name not in variables:
            environment.pop(name, None)
    runtime = [sys.executable, ROOT / "tools" / "with_runtime.py", "stern"]
    result = subprocess.run(
        [*runtime, sys.executable, *arguments], env=environment, capture_output=True, text=True
    )
    if "is not installed" in result.stderr:
        pytest.skip(result.stderr.strip())
    return result.stdout + result.stderr


def stern_output_of(profile, code, **variables):
    """What the code prints there; a failure when it does not reach its end."""
    printed = on_stern(profile, "-c", textwrap.dedent(code) + "\nprint('done')", **variables)
    assert "done" in printed.splitlines(), printed
    return printed
