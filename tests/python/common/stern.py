"""Runs Python on the stern device, which imitates a GPU (docs/stern.md)."""

import functools
import os
import subprocess
import sys
import textwrap

import pytest
from support import DEADLINE, ROOT

PROFILES = ROOT / "tests" / "stern" / "profiles"
WITH_STERN = [sys.executable, ROOT / "tools" / "with_runtime.py", "stern", sys.executable]
PLATFORM_AND_LOADER = """
import ctypes
opencl = ctypes.CDLL("libOpenCL.so.1")
platform, name, vendor = ctypes.c_void_p(), *(ctypes.create_string_buffer(99) for _ in range(2))
if opencl.clGetPlatformIDs(1, ctypes.byref(platform), None) == 0:
    opencl.clGetPlatformInfo(platform, 0x902, 99, name, None)  # CL_PLATFORM_NAME
if hasattr(opencl, "clGetICDLoaderInfoOCLICD"):
    opencl.clGetICDLoaderInfoOCLICD(4, 99, vendor, None)  # CL_ICDL_VENDOR
print(name.value.decode(), vendor.value.decode(), sep=",")
"""


@functools.cache
def why_not_here():
    """Why this machine cannot have the stern device; None where it can."""
    result = subprocess.run(
        [*WITH_STERN, "-c", PLATFORM_AND_LOADER],
        env={**os.environ, "STERN_PROFILE": "smallest"},
        capture_output=True,
        text=True,
    )
    if "is not installed" in result.stderr:
        return result.stderr.strip().splitlines()[-1]
    if result.returncode != 0:
        return None
    platform, loader = result.stdout.strip().split(",")
    # A layer that does not work with ocl-icd, for which it is made, fails the tests.
    if platform != "Smallest" and not loader.startswith("OCL Icd"):
        return f"the OpenCL loader ({loader or 'of an unknown vendor'}) does not take the layer"
    return None


def skip_without_the_stern_device():
    if reason := why_not_here():
        pytest.skip(reason)


def changed_profile(folder, profile, **values):
    """Writes a copy of the profile with other values, and returns its path."""
    text = (PROFILES / f"{profile}.profile").read_text()
    lines = [line for line in text.splitlines() if line.split(" =")[0] not in values]
    path = folder / "changed.profile"
    path.write_text("\n".join([*lines, *(f"{key} = {value}" for key, value in values.items())]))
    return path


def on_stern(profile, *arguments, status=None, **variables):
    """The output of `python ARGUMENTS` on the stern device; skips the test if this machine cannot
    have it. `status`: the expected exit status; None: any."""
    skip_without_the_stern_device()
    environment = {**os.environ, "STERN_PROFILE": str(profile)}
    environment.update({name: str(value) for name, value in variables.items()})
    for name in ("OCL_KERNEL_FAMILY", "OPENCL_LAYERS", "OCL_CACHE_DIR"):
        if name not in variables:
            environment.pop(name, None)
    result = subprocess.run(
        [*WITH_STERN, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=DEADLINE,
    )
    printed = result.stdout + result.stderr
    assert status in (None, result.returncode), f"status {result.returncode}: {printed}"
    return printed


def stern_output_of(profile, code, **variables):
    """The output of the code on the stern device; fails if it does not reach its end."""
    printed = on_stern(profile, "-c", textwrap.dedent(code) + "\nprint('done')", **variables)
    assert "done" in printed.splitlines(), printed
    return printed
