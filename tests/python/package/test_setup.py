"""Set-up: Makefile, pyproject.toml and docs agree with each other and with the code."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tomllib

import pytest
from support import ROOT

from torch_ocl import _C, info

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
ENVIRONMENT = ROOT / "docs/environment.md"


def dry_run(*arguments):
    """The commands that make would run."""
    clean = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL", "RUNTIME")}
    command = ["make", "--dry-run", "--no-print-directory", *arguments]
    result = subprocess.run(command, cwd=ROOT, env=clean, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_autoload_entry_point_exists():
    entry_point = PROJECT["entry-points"]["torch.backends"]["torch_ocl"]
    module, function = entry_point.split(":")
    assert module == "torch_ocl"
    source = (ROOT / "python/torch_ocl/__init__.py").read_text()
    assert re.search(rf"^def {function}\(\)", source, re.MULTILINE)


def test_pytorch_is_a_dependency_but_no_build_requirement():
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    assert not any(requirement.startswith("torch") for requirement in build)
    assert any(requirement.startswith("torch>=") for requirement in PROJECT["dependencies"])


@pytest.mark.parametrize("page", ["README.md", "docs/install.md"])
def test_docs_name_the_supported_releases(page):
    [range_] = [r for r in PROJECT["dependencies"] if r.startswith("torch")]
    first, end = map(int, re.fullmatch(r"torch>=2\.(\d+),<2\.(\d+)", range_).groups())
    assert f"PyTorch 2.{first} to 2.{end - 1}" in (ROOT / page).read_text()


@pytest.mark.parametrize("target", ["demo", "test"])
def test_main_targets_do_the_set_up(target):
    commands = dry_run(target)
    assert "system_packages.sh" in commands
    assert "cmake --build build" in commands
    assert "intel" not in commands, "the download of Intel's runtime is only for those who ask"


@pytest.mark.parametrize("target", ["demo", "test"])
def test_runtime_can_be_chosen(target):
    assert re.search(r"with_runtime\.py intel .*", dry_run(target, "RUNTIME=intel"))


def test_trying_another_pytorch_keeps_the_one_of_the_environment():
    commands = dry_run("try-torch", "TORCH_VERSION=9.9.0", "INDEX=nightly")
    assert re.search(r"try_torch\.py 9\.9\.0 --index nightly", commands)
    assert "--torch 9.9.0" not in commands


def test_help_lists_targets():
    text = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True).stdout
    for target in ("demo", "test", "lint", "format", "build", "wheel", "info", "clean"):
        assert re.search(rf"^  {target} ", text, re.MULTILINE), text


def test_system_packages_names_what_is_missing(tmp_path):
    """Without root and sudo, nothing is installed, and the message says what to install."""
    for name in ("sh", "ldconfig", "grep"):
        found = shutil.which(name, path="/bin:/usr/bin:/sbin:/usr/sbin")
        (tmp_path / name).symlink_to(found)
    for name, script in {"dpkg-query": "exit 1", "id": "echo 1000"}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    script = ROOT / "tools/system_packages.sh"
    variables = {"PATH": str(tmp_path), "PYTHON": sys.executable}
    # The script looks for ldconfig in /sbin; sudo is in /usr/bin, which this PATH leaves out.
    result = subprocess.run(["sh", script, "extra"], env=variables, capture_output=True, text=True)
    assert result.returncode == 1
    assert re.search(r"apt-get install .*ninja-build .*pocl-opencl-icd .*extra", result.stderr)


def test_built_files_load_libraries_from_named_folders_only():
    """An empty or relative folder is one of the current folder, where anybody's library may be."""
    if not shutil.which("readelf"):
        pytest.skip("readelf (binutils) is not installed")
    for file in pathlib.Path(_C.__file__).parent.iterdir():
        command = ["readelf", "-d", file]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        [path] = re.findall(r"\((?:RUNPATH|RPATH)\).*\[(.*)\]", text)
        for folder in path.split(":"):
            assert folder.startswith(("/", "$ORIGIN/")), (file.name, path)


def test_runtime_that_is_not_known_is_refused():
    script = ROOT / "tools/with_runtime.py"
    result = subprocess.run(
        [sys.executable, script, "cuda", "true"], capture_output=True, text=True
    )
    assert result.returncode != 0
    assert "pocl|intel|intel-avx2|both|rusticl|oclgrind" in result.stderr


def test_every_environment_variable_is_documented():
    used = set()
    for folder in ("backend", "generator", "guard", "serialization", "kernels", "python"):
        for file in (ROOT / folder).rglob("*"):
            if file.suffix in (".cpp", ".h", ".py"):
                text = file.read_text()
                used |= set(re.findall(r'environment(?:_flag)?\("(OCL_\w+)"', text))
                used |= set(re.findall(r'environ(?:\.get)?[\[(]"(OCL_\w+)"', text))
    documented = set(re.findall(r"^\| `(OCL_\w+)`", ENVIRONMENT.read_text(), re.MULTILINE))
    assert used
    assert used <= documented, f"not in docs/environment.md: {sorted(used - documented)}"


def test_info_shows_variables(monkeypatch, capsys):
    monkeypatch.setenv("OCL_MISSPELT", "1")
    monkeypatch.setenv("TORCH_DEVICE_BACKEND_AUTOLOAD", "1")
    info.print_variables()
    printed = capsys.readouterr().out.splitlines()
    assert {"OCL_MISSPELT=1", "TORCH_DEVICE_BACKEND_AUTOLOAD=1"} <= set(printed)


def test_helper_functions_of_kernels_are_static():
    """A plain inline function has no body where a compiler does not inline it: GPUs do not link."""
    for path in sorted((ROOT / "kernels").rglob("*.cl*")):
        plain = re.findall(r"^ *inline .*", path.read_text(), re.MULTILINE)
        assert not plain, (path.name, plain)


def test_helper_functions_with_local_memory_are_always_inlined():
    """If they are not inlined, PoCL 3.1 may share one array among all work-groups
    (ALWAYS_INLINE)."""
    function = re.compile(r"^ *(?:static )?inline\b[^;{}]*\)[\s\\]*\{", re.MULTILINE)
    for path in sorted((ROOT / "kernels").rglob("*.cl*")):
        for found in function.findall(path.read_text()):
            assert not re.search(r"__local|SCRATCH_ARGUMENT", found), (path.name, found)


def test_tests_that_the_page_on_security_names_exist():
    text = (ROOT / "docs/security.md").read_text()
    in_python = re.findall(r"`(test_\w+\.py)::(\w+)`", text)
    in_cpp = re.findall(r"`([A-Z]\w+)\.([A-Z]\w+)`", text)
    sources = "".join(path.read_text() for path in (ROOT / "tests/cpp").glob("*.cpp"))
    assert len(in_python) > 30 and len(in_cpp) > 10
    tests = {path.name: path.read_text() for path in (ROOT / "tests/python").rglob("test_*.py")}
    for file, name in in_python:
        assert f"\ndef {name}(" in tests[file], (file, name)
    for suite, name in in_cpp:
        assert re.search(rf"TEST(?:_[FP])?\({suite}, {name}\)", sources), (suite, name)


@pytest.mark.parametrize("page", ["where.md", "architecture.md", "add_an_op.md"])
def test_files_that_the_docs_name_exist(page):
    text = (ROOT / "docs" / page).read_text()
    named = set(re.findall(r"`((?:backend|kernels|python|tests|tools|include)/[\w./]*)`", text))
    missing = [path for path in sorted(named) if not list(ROOT.glob(path.rstrip("/") + "*"))]
    assert named and not missing
