"""Drivers that hang, crash or print while the devices are counted (tests/failures/driver.c)."""

import os
import pathlib
import shutil
import signal
import subprocess

import pytest
from support import ROOT, output_of, run_python

SOURCE = ROOT / "tests" / "failures" / "driver.c"
COMPILER = shutil.which("cc")
pytestmark = pytest.mark.skipif(not COMPILER, reason="no C compiler (cc) is found")

# Asks nothing of ocl, at first.
ON_THE_CPU = """
    import torch
    x = torch.ones(3, requires_grad=True)
    x.mul(2).sum().backward()
    print(x.grad.tolist(), torch.ocl.is_available(), torch.accelerator.is_available())
    for _ in range(2):
        try:
            torch.ones(3, device="ocl")
        except RuntimeError as error:
            print(str(error).splitlines()[0])
"""


@pytest.fixture
def vendors(tmp_path):
    """A function that makes a folder for OCL_ICD_VENDORS, with a driver of this kind."""

    def make(how):
        library = tmp_path / f"lib{how.lower()}.so"
        command = [COMPILER, "-shared", "-fPIC", f"-DHOW={how}", SOURCE, "-o", library]
        subprocess.run(command, check=True)
        (tmp_path / "zz_misbehaves.icd").write_text(f"{library}\n")
        return tmp_path

    return make


@pytest.mark.parametrize(
    "how", ["HANGS_AT_LOAD", "HANGS_IN_LIST", "HANGS_AND_BLOCKS_SIGNALS"], ids=str.lower
)
def test_a_driver_that_hangs(vendors, how):
    """The CPU works, and the first use of ocl says why there is none."""
    folder = vendors(how)
    result = run_python(ON_THE_CPU, OCL_ICD_VENDORS=str(folder), OCL_LISTING_TIMEOUT="1")
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0] == "[2.0, 2.0, 2.0] False False"
    named = how != "HANGS_AND_BLOCKS_SIGNALS"
    driver = f"the OpenCL driver {folder}/lib{how.lower()}.so" if named else "an OpenCL driver"
    told = f"{driver} did not answer within 1 seconds"
    assert result.stderr.count(told) == 1 and result.stderr.count("Warning") == 1
    assert len(lines) == 3 and lines[1] == lines[2] and told in lines[1]


@pytest.mark.parametrize(
    "how, what",
    [("CRASHES", "crashed"), ("ABORTS", "crashed"), ("EXITS", "an OpenCL driver ended")],
    ids=["crashes", "aborts", "exits"],
)
def test_a_driver_that_ends_the_process(vendors, how, what):
    """It ends a process of its own, with a warning."""
    folder = vendors(how)
    code = "import torch; print(torch.ocl.device_count(), torch.ones(2).sum().item())"
    result = run_python(code, OCL_ICD_VENDORS=str(folder))
    assert result.stdout == "0 2.0\n", result.stderr
    assert what in result.stderr and result.stderr.count("the process that counts them") == 1
    assert (f"{folder}/lib{how.lower()}.so" in result.stderr) == (what == "crashed")


@pytest.mark.parametrize(
    "how",
    ["PRINTS_A_NUMBER", "PRINTS_A_LINE", "LEAVES_A_DAEMON", "CLOSES_STREAMS", "IGNORES_SIGNALS"],
    ids=str.lower,
)
def test_a_driver_next_to_others(device, vendors, how):
    """A driver's damage to its process does not affect the devices of other drivers."""
    own = os.environ.get("OCL_ICD_VENDORS", "/etc/OpenCL/vendors")
    folder = vendors(how)
    for icd in pathlib.Path(own).glob("*.icd"):
        shutil.copy(icd, folder)
    code = "import torch; print(torch.ocl.device_count())"
    daemons = folder / "daemons"
    variables = {"OCL_ICD_VENDORS": str(folder), "DRIVER_DAEMONS": str(daemons)}
    try:
        assert output_of(code, **variables) == output_of(code)
    finally:
        for number in daemons.read_text().split() if daemons.exists() else []:
            os.kill(int(number), signal.SIGKILL)


FORK_MEANWHILE = """
    import os, pathlib, signal, sys, threading, time, torch
    first = {first}
    thread = threading.Thread(target=first)
    thread.start()
    while not os.path.exists(os.environ["DRIVER_WAITS"]):
        time.sleep(0.001)
    if (child := os.fork()) == 0:
        signal.alarm(60)
        pathlib.Path(os.environ["DRIVER_GOES_ON"]).touch()
        try:
            print(torch.ocl.device_count(), torch.ocl._is_in_bad_fork(), flush=True)
            torch.ones(1, device="ocl")
        except RuntimeError as error:
            print(str(error).splitlines()[0], flush=True)
        sys.exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    thread.join()
    print(torch.ocl.device_count())
"""
NO_DEVICE = "No OpenCL device"
IN_A_FORK = "ocl cannot be used again in a forked process"


@pytest.mark.parametrize(
    "first, program, is_loader, told",
    [
        ("torch.ocl.device_count", "count_devices", False, NO_DEVICE),
        ("torch.ocl.init", "python", False, IN_A_FORK),
        ("torch.ocl.device_count", "python", True, NO_DEVICE),
    ],
    ids=["counts", "lists", "loads"],
)
def test_a_fork_while_another_thread_waits_for_a_driver(
    vendors, tmp_path, first, program, is_loader, told
):
    """The locks that it holds are locked in the child for ever."""
    variables = {"OCL_ICD_VENDORS": str(vendors("WAITS")), "DRIVER_WAITS_IN": program}
    if is_loader:
        (tmp_path / "libwaits.so").rename(tmp_path / "libOpenCL.so.1")
        variables["LD_LIBRARY_PATH"] = str(tmp_path)
    variables |= {"DRIVER_WAITS": f"{tmp_path}/waits", "DRIVER_GOES_ON": f"{tmp_path}/goes_on"}
    code = FORK_MEANWHILE.format(first=first)
    result = run_python(code, **variables)
    lines = result.stdout.splitlines()
    assert lines[0] == f"0 {told == IN_A_FORK}" and lines[1].startswith(told), result
    assert lines[2:] == ["0", "0"] and "Warning" not in result.stderr, result


def test_ctrl_c_while_a_driver_hangs(vendors):
    code = """
    import signal, torch
    def interrupt(*_):
        raise KeyboardInterrupt
    signal.signal(signal.SIGALRM, interrupt)
    for ask in (torch.ocl.is_available, torch.ocl.device_count):
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.5)
            ask()
        except KeyboardInterrupt:
            print("interrupted")
    """
    variables = {"OCL_ICD_VENDORS": str(vendors("HANGS_IN_LIST")), "OCL_LISTING_TIMEOUT": "100000"}
    assert output_of(code, **variables).split() == ["interrupted"] * 2


def test_info_names_a_driver_that_hangs(vendors):
    code = "import runpy; runpy.run_module('torch_ocl.info', run_name='__main__')"
    folder = vendors("HANGS_IN_LIST")
    result = run_python(code, OCL_ICD_VENDORS=str(folder), OCL_LISTING_TIMEOUT="1")
    assert "libhangs_in_list.so did not answer within 1 seconds" in result.stderr
    assert "OCL_LISTING_TIMEOUT=1" in result.stdout and result.returncode == 1


def test_a_limit_that_is_no_number(vendors):
    code = "import torch; print(torch.ocl.device_count())"
    folder = vendors("PRINTS_A_LINE")
    result = run_python(code, OCL_ICD_VENDORS=str(folder), OCL_LISTING_TIMEOUT="soon")
    assert result.stdout == "0\n"
    assert 'OCL_LISTING_TIMEOUT must be a number of seconds, not "soon"' in result.stderr
