"""torch_ocl.demo, torch_ocl.info and the example of the README, run as users run them."""

import re
import subprocess
import sys

import PIL.Image
import pytest
from support import child_environment, has_fp64


def run(*arguments, **variables):
    environment = child_environment(**{"OCL_FALLBACK": "error", **variables})
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


def test_demo(tmp_path):
    # GradScaler takes a reciprocal in float64, and some image operators compute in it.
    fallback, same = ("error", "1[01]") if has_fp64(0) else ("allow", "([89]|1[01])")
    arguments = ["-m", "torch_ocl.demo", "--device", "ocl:0", "--output", tmp_path]
    result = run(*arguments, OCL_FALLBACK=fallback)
    assert result.returncode == 0, result.stdout + result.stderr
    accuracies = [float(number) for number in re.findall(r"([\d.]+)%", result.stdout)]
    assert len(accuracies) == 3, result.stdout  # ocl, CPU, ocl after loading the checkpoint
    assert min(accuracies) >= 97
    assert (tmp_path / "loss.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "checkpoint.pt").exists()
    assert re.search(f"image_operators.png, {same} of 11 as Pillow's to the byte", result.stdout)
    with PIL.Image.open(tmp_path / "image_operators.png") as sheet:
        assert sheet.size == (1200, 6 * 218)
    assert "100%" in result.stderr, "no progress bar"


def test_demo_fails_below_the_required_accuracy(tmp_path):
    result = run("-m", "torch_ocl.demo", "--device", "cpu", "--epochs", "1", "--output", tmp_path)
    assert result.returncode == 1
    assert re.search(r"The accuracy .* is below 97%", result.stderr)


@pytest.mark.parametrize("name", ["ocl:99", "nonsense"])
def test_demo_refuses_a_device_that_does_not_exist(name):
    result = run("-m", "torch_ocl.demo", "--device", name)
    assert result.returncode == 2
    assert "--device" in result.stderr and "Traceback" not in result.stderr


def test_info():
    result = run("-m", "torch_ocl.info", OCL_LAUNCH_BLOCKING="0")
    assert result.returncode == 0, result.stdout + result.stderr
    assert re.search(r'^ocl:0 ".+"$', result.stdout, re.MULTILINE)
    assert "OCL_LAUNCH_BLOCKING=0" in result.stdout


@pytest.mark.parametrize("module", ["torch_ocl.info", "torch_ocl.demo"])
def test_without_a_device_both_say_what_to_install(module, tmp_path):
    result = run("-m", module, OCL_ICD_VENDORS=str(tmp_path))
    assert result.returncode == 1
    assert "No OpenCL device found" in result.stderr
    assert "apt install pocl-opencl-icd" in result.stderr
    assert "pip install torch-ocl[runtime]" in result.stderr
