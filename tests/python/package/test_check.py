"""python -m torch_ocl.check: what passes, what fails, and what it says then."""

import ast
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
import torch
from stern import on_stern
from support import KERNELS, has_fp64, skip_in_a_simulator

from torch_ocl.check import report, sections
from torch_ocl.check.families import FAMILIES
from torch_ocl.check.inputs import AWKWARD, Family, Skip, compare

GENERATOR = KERNELS / "codegen" / "generate.py"
# Scripts of the build.
NO_KERNELS = {pathlib.Path("codegen")}


def run(output, *sections, **variables):
    command = [sys.executable, "-m", "torch_ocl.check", "--report", str(output)]
    command += ["--only", *sections]
    environment = {**os.environ, **variables}
    return subprocess.run(command, env=environment, capture_output=True, text=True)


@pytest.mark.sample
def test_sections_pass(tmp_path):
    skip_in_a_simulator()
    result = run(tmp_path / "report", "attention", "recurrent networks", "copies", "streams")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "4 rows passed, 0 failed, 0 were skipped" in result.stdout
    written = (tmp_path / "report").read_text()
    assert written in result.stdout
    assert 'ocl:0 "' in written and "attention" in written and "pinned memory" in written
    assert "processor: " in written and "display adapters: " in written and "driver" in written


def test_report_that_cannot_be_written_is_told_first(tmp_path):
    result = run(tmp_path / "missing" / "report", "copies")
    assert result.returncode == 2 and "name another file with --report" in result.stderr
    assert not result.stdout


def test_personal_names_are_replaced(monkeypatch, tmp_path):
    for name, folder in {"HOME": "/home/ada", "LOGNAME": "ada_l"}.items():
        monkeypatch.setenv(name, folder)
    monkeypatch.setattr(report.platform, "node", lambda: "difference-engine")
    monkeypatch.chdir(tmp_path)
    for text, expected in {
        "/home/ada/x.cl, /home/ada": "~/x.cl, ~",
        "/home/adam/x.cl, /srv/home/ada/x": "/home/adam/x.cl, /srv/home/ada/x",
        f"{tmp_path}/a {tmp_path}": "WORKING_FOLDER/a WORKING_FOLDER",
        "/data/ada_l/x of ada_l on difference-engine": "/data/USER/x of USER on HOST",
        "ada_lovelace": "ada_lovelace",
    }.items():
        assert report.anonymous(text) == expected
    for name in ("root", "al"):
        monkeypatch.setenv("LOGNAME", name)
        text = f"{name} /home/{name}/x"
        assert report.anonymous(text) == f"{name} /home/USER/x"


def test_a_report_without_a_device(tmp_path):
    result = run(tmp_path / "report", "copies", OCL_ICD_VENDORS=str(tmp_path / "none"))
    assert result.returncode == 1
    written = (tmp_path / "report").read_text()
    assert "No OpenCL device" in written and "processor: " in written
    assert written in result.stdout


def test_memory_training_and_speed(tmp_path):
    result = run(tmp_path / "report", "memory", "training", "speed", OCL_MEMORY_MB="384")
    assert result.returncode == 0, result.stdout + result.stderr
    for text in ("GiB", "loss from", "GB/s", "of the copy", "attention", "GFLOP/s", "of the mul"):
        assert text in result.stdout


def test_what_a_release_of_pytorch_refuses_is_no_failure_of_the_device():
    known = re.search(r"^SINCE = (\{.*?^\})", GENERATOR.read_text(), re.MULTILINE | re.DOTALL)
    names = ast.literal_eval(known[1])[2, 12]
    assert {f"aten::{name}" for name in names} == sections.REFUSED_BY_2_11
    refused = NotImplementedError("aten::var.correction is not implemented for ocl (...)")
    assert sections.refused_operator(refused, "2.11.0+cu130") == "aten::var.correction"
    for error, release in [
        (refused, "2.13.0"),
        (NotImplementedError("aten::add.Tensor is not implemented for ocl (...)"), "2.11.0"),
        (RuntimeError("aten::var.correction is wrong"), "2.11.0"),
    ]:
        assert sections.refused_operator(error, release) is None


@pytest.mark.parametrize("section", FAMILIES)
def test_cases_agree(device, section):
    for name, function in FAMILIES[section].cases.items():
        try:
            compare(function, device)
        except Skip as reason:
            lacks_fp64 = "no float64" in str(reason) and not has_fp64(device)
            assert lacks_fp64 or "torchvision cannot be imported" in str(reason)
        except Exception as error:
            if not sections.refused_operator(error):
                pytest.fail(f"{name}: {error}")


def folders_with_kernels():
    return {path.parent.relative_to(KERNELS) for path in KERNELS.glob("**/*.cl")}


def covers(family, folder):
    return any(pathlib.PurePath(name) in (folder, *folder.parents) for name in family.folders)


def test_no_folder_of_kernels_is_forgotten():
    # Folders without a kernel launch those of others, or what a program brings.
    hosts = {path.relative_to(KERNELS) for path in KERNELS.iterdir() if path.is_dir()}
    for folder in (folders_with_kernels() | hosts) - NO_KERNELS:
        assert any(covers(family, folder) for family in FAMILIES.values()), (
            f"no family of python -m torch_ocl.check has kernels/{folder}"
        )
    for family in FAMILIES.values():
        for name in family.folders:
            assert (KERNELS / name).is_dir(), name


def test_every_family_has_awkward_shapes():
    for section, family in FAMILIES.items():
        assert set(AWKWARD) <= set(family.cases), section


def test_wrong_numbers_are_found(tmp_path):
    folder = tmp_path / "kernels"
    shutil.copytree(KERNELS, folder)
    for path in folder.glob("softmax/*.cl"):
        path.write_text(path.read_text().replace("exp(", "exp2("))
    result = run(tmp_path / "report", "pooling", "softmax", OCL_KERNEL_DIR=str(folder))
    assert result.returncode == 1, result.stdout
    assert "FAILED   softmax" in result.stdout
    assert "softmax: AssertionError: result 0: Tensor-likes are not close!" in result.stdout
    assert "passed   pooling" in result.stdout
    assert "softmax: no setting helps" in result.stdout


def test_a_setting_that_helps_is_found(tmp_path):
    """And the report has the compiler's log, but no personal names."""
    home = tmp_path / "people" / "ada_lovelace"
    folder = home / "kernels"
    shutil.copytree(KERNELS, folder)
    for path in [*folder.glob("conv/cpu/*.cl"), *folder.glob("conv/gpu/*.cl")]:
        path.write_text(f"#error not in {home}\n")
    cache = os.environ.get("XDG_CACHE_HOME", str(pathlib.Path.home() / ".cache"))
    variables = {"HOME": str(home), "LOGNAME": "ada_lovelace", "OCL_KERNEL_DIR": str(folder)}
    variables["XDG_CACHE_HOME"] = cache  # programs are kept there
    result = run(tmp_path / "report", "convolutions", **variables)
    assert result.returncode == 1
    written = (tmp_path / "report").read_text()
    assert "builds failed; the file has their logs" in result.stdout
    log = re.search(r"^---- conv_\w+\ncannot build (conv_.*\n(?:.+\n)+)", written, re.M)
    assert log and "not in ~" in log[1], written
    assert "OCL_KERNEL_DIR=~/kernels\n" in written
    for each in (written, result.stdout.replace(str(tmp_path / "report"), "")):
        assert "lovelace" not in each
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


def play(monkeypatch, folder, script):
    """Lets a shell script play the process that runs sections."""
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setattr(sections.sys, "executable", str(path))


@pytest.mark.parametrize(
    "last, expected",
    [("kill -9 $$", "signal 9"), ("exit 3", "exit code 3"), ("sleep 600", "no answer")],
)
def test_a_driver_that_crashes_or_hangs(monkeypatch, tmp_path, last, expected):
    play(monkeypatch, tmp_path, f'echo \'result: ["rows", "passed", ""]\'\nexec 2>&-\n{last}')
    monkeypatch.setattr(sections, "TIMEOUT", 3)
    (outcome,) = sections.outcomes(["reductions"], "ocl:0")
    passed, failed = outcome.results
    assert outcome.state == sections.FAILED
    assert passed == ("rows", sections.PASSED, "")
    assert failed.name == "the next one" and expected in failed.text


def test_what_a_driver_prints_is_no_result(monkeypatch, tmp_path):
    play(monkeypatch, tmp_path, "echo '[driver] loaded'\necho 'result: [1.5]'")
    (outcome,) = sections.outcomes(["reductions"], "ocl:0")
    assert outcome.results == [] and outcome.seconds == 1.5
    assert outcome.state == sections.FAILED


def test_a_new_process_after_a_failure(monkeypatch, tmp_path):
    """And no section runs twice."""
    script = """
    while [ "$1" != --sections ]; do shift; done
    shift
    for section; do
      case $section in reductions) state=FAILED;; *) state=passed;; esac
      echo "result: [\\"$$ $section\\", \\"$state\\", \\"\\"]"
      echo "result: [1.5]"
    done
    """
    play(monkeypatch, tmp_path, script)
    names = ["softmax", "reductions", "losses", "copies", "memory", "training", "speed"]
    found = list(sections.outcomes(names, "ocl:0"))
    processes, ran = zip(*(outcome.results[0].name.split() for outcome in found))
    assert list(ran) == names
    # Memory has a process of its own.
    assert processes[0] == processes[1] and processes[2] == processes[3]
    assert processes[5] == processes[6]
    assert len(set(processes)) == 4
    assert [outcome.section for outcome in found if outcome.state == "FAILED"] == ["reductions"]


@pytest.mark.parametrize("chosen, expected", [(None, "error"), ("allow", "allow")])
def test_no_operator_runs_on_the_cpu_instead(monkeypatch, tmp_path, chosen, expected):
    if chosen:
        monkeypatch.setenv("OCL_FALLBACK", chosen)
    else:
        monkeypatch.delenv("OCL_FALLBACK", raising=False)
    script = 'echo "result: [\\"$OCL_FALLBACK\\", \\"passed\\", \\"\\"]"\necho "result: [1]"'
    play(monkeypatch, tmp_path, script)
    (outcome,) = sections.outcomes(["softmax"], "ocl:0")
    assert outcome.results[0].name == expected


def test_results_on_the_cpu_are_an_error(device):
    with pytest.raises(AssertionError, match="result 1 is on cpu"):
        compare(lambda t: [t.x(3), torch.ones(3)], device)


def test_a_case_that_the_device_cannot_have(monkeypatch, capsys):
    def impossible(t):
        if not t.on_cpu:
            raise Skip("the device has no float64")

    cases = {"one": lambda t: t.x(3), "two": impossible}
    monkeypatch.setitem(sections.FAMILIES, "softmax", Family(("softmax",), cases))
    sections.run_sections(["softmax"], "ocl:0")
    one, two, seconds = capsys.readouterr().out.splitlines()
    assert one == 'result: ["one", "passed", ""]'
    assert two == 'result: ["two", "skipped", "the device has no float64"]'
    assert seconds.startswith("result: [")


def test_a_device_without_float64(tmp_path):
    options = ["--report", str(tmp_path / "report"), "--only", "element-wise"]
    printed = on_stern("nvidia_ampere", "-m", "torch_ocl.check", *options)
    assert "passed   element-wise" in printed and "float64: skipped" not in printed
    printed = on_stern("smallest", "-m", "torch_ocl.check", *options)
    assert "passed   element-wise" in printed
    assert "float64: skipped, the device has no float64" in printed


def test_memory_that_the_driver_does_not_have(tmp_path):
    """This GPU says that it has 512 MiB, and grants 384."""
    options = ["--report", str(tmp_path / "report"), "--only", "memory"]
    printed = on_stern("smallest", "-m", "torch_ocl.check", *options)
    assert "the driver grants 384 MiB of 512" in printed
    assert "memory: set OCL_MEMORY_MB=384, with which it passes" in printed
