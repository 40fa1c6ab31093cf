"""python -m torch_ocl.check: what passes, what fails, and what it says then."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest
import torch
from stern import on_stern
from support import skip_in_a_simulator

from torch_ocl import check
from torch_ocl.check_cases import FAMILIES

KERNELS = pathlib.Path(__file__).resolve().parents[2] / "kernels"


def run(output, *sections, **variables):
    command = [sys.executable, "-m", "torch_ocl.check", "--output", str(output)]
    command += ["--only", *sections]
    environment = {**os.environ, **variables}
    return subprocess.run(command, env=environment, capture_output=True, text=True)


@pytest.mark.sample
def test_sections_pass(tmp_path):
    skip_in_a_simulator()
    result = run(tmp_path / "report", "attention", "recurrent networks", "copies", "streams")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "All sections passed." in result.stdout
    written = (tmp_path / "report").read_text()
    assert written in result.stdout
    assert 'ocl:0 "' in written and "attention" in written and "pinned memory" in written


def test_memory_training_and_speed(tmp_path):
    result = run(tmp_path / "report", "memory", "training", "speed", OCL_MEMORY_MB="384")
    assert result.returncode == 0, result.stdout + result.stderr
    for text in ("GiB", "loss from", "GB/s", "of the copy", "GFLOP/s", "of the multiply-adds"):
        assert text in result.stdout


@pytest.mark.parametrize("section", FAMILIES)
def test_cases_agree(device, section):
    for name, function in FAMILIES[section][0].items():
        try:
            check.compare(function, device)
        except Exception as error:
            pytest.fail(f"{name}: {error}")


def test_wrong_numbers_are_found(tmp_path):
    folder = tmp_path / "kernels"
    shutil.copytree(KERNELS, folder)
    for path in folder.glob("softmax/*.cl"):
        path.write_text(path.read_text().replace("exp(", "exp2("))
    result = run(tmp_path / "report", "normalisation, softmax", OCL_KERNEL_DIR=str(folder))
    assert result.returncode == 1, result.stdout
    assert "FAILED  normalisation, softmax" in result.stdout
    assert "softmax: AssertionError: result 0: Tensor-likes are not close!" in result.stdout
    assert "layer norm:" not in result.stdout
    assert "normalisation, softmax: no setting helps" in result.stdout


def test_a_setting_that_helps_is_found(tmp_path):
    folder = tmp_path / "kernels"
    shutil.copytree(KERNELS, folder)
    for path in [*folder.glob("conv/cpu/*.cl"), *folder.glob("conv/gpu/*.cl")]:
        path.write_text("#error no\n")
    result = run(tmp_path / "report", "convolutions", OCL_KERNEL_DIR=str(folder))
    assert result.returncode == 1
    family = torch.ocl.get_device_properties(0).kernel_family
    setting = "OCL_CONV_ALGORITHM=plain" if family == "cpu" else "OCL_DISABLE=tiles,direct"
    assert f"convolutions: set {setting}, with which it passes" in result.stdout


def test_a_family_to_disable_is_found(tmp_path):
    folder = tmp_path / "kernels"
    shutil.copytree(KERNELS, folder)
    for path in folder.glob("attention/sdpa_*.cl"):
        path.write_text(path.read_text().replace("exp(", "exp2("))
    result = run(tmp_path / "report", "attention", OCL_KERNEL_DIR=str(folder))
    assert result.returncode == 1
    assert "attention: set OCL_DISABLE=fused_attention, with which it passes" in result.stdout


@pytest.mark.parametrize(
    "last, expected",
    [("kill -9 $$", "signal 9"), ("exit 3", "exit code 3"), ("sleep 600", "no answer")],
)
def test_a_driver_that_crashes_or_hangs(monkeypatch, tmp_path, last, expected):
    script = tmp_path / "python"
    script.write_text(f"#!/bin/sh\necho '[\"rows\", null]'\n{last}\n")
    script.chmod(0o755)
    monkeypatch.setattr(check.sys, "executable", str(script))
    monkeypatch.setattr(check, "TIMEOUT", 3)
    (passed, failed) = check.results_of("reductions", "ocl:0")
    assert passed == ("rows", None)
    assert failed[0] == "the next one" and expected in failed[1]


def test_memory_that_the_driver_does_not_have(tmp_path):
    """This GPU says that it has 512 MiB, and grants 384."""
    options = ["--output", str(tmp_path / "report"), "--only", "memory"]
    printed = on_stern("smallest", "-m", "torch_ocl.check", *options)
    assert "the driver grants 384 MiB of 512" in printed
    assert "memory: set OCL_MEMORY_MB=384, with which it passes" in printed
