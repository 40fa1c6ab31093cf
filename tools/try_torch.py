"""Tries a release of PyTorch that torch-ocl does not support yet.

usage: try_torch.py VERSION [--index URL|nightly] [--folder build/try_VERSION] [--since FACTS.json]
                    [--no-tests]

Makes an environment, builds, and runs the tests marked "sample". Everything goes into FOLDER; its
page.txt is also printed. The page says what differs from the PyTorch of the Python that runs this,
or from the facts.json of an earlier run: operators, implementations, the private functions that
torch_ocl uses. It also lists marks that name no operator, the build's warnings and errors, and the
sample's failures. Fails if the build or a test fails. `--index nightly` takes nightly builds for
CPUs; other indexes are URLs.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tomllib

import make_venv
import torch_facts

ROOT = pathlib.Path(__file__).resolve().parents[1]
NIGHTLY = "https://download.pytorch.org/whl/nightly/cpu"
MOST_LINES = 40  # per part of the page


def make_environment(folder, version, index):
    """The Python of an environment with this PyTorch and the packages that tests need."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    options = ["-q"]
    if index:
        options += ["--pre", "--extra-index-url", NIGHTLY if index == "nightly" else index]
    venv = folder / "venv"
    make_venv.environment(venv, f"torch=={version}", "numpy", pip=options)
    python = make_venv.environment(venv, *extras["dev"], *extras["demo"], pip=options)
    make_venv.link(venv, "torch_ocl_build").write_text(f"{folder / 'build/python'}\n")
    return python


def facts_of(python, file):
    environment = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    command = [python, ROOT / "tools/torch_facts.py", file]
    subprocess.run(command, check=True, env=environment, cwd=file.parent)
    return json.loads(file.read_text())


def run(command, log, **options):
    """Whether the command succeeds, and its output, which goes to the file, too."""
    print("+", *command, flush=True)
    options |= {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    done = subprocess.run([str(part) for part in command], cwd=ROOT, **options)
    log.write_text(done.stdout)
    return done.returncode == 0, done.stdout


def build(python, folder):
    """{title: lines} for the page, and whether the extension was built."""
    tree = folder / "build"
    options = [f"-DPython_EXECUTABLE={python}", "-DOCL_TRY_TORCH=ON", "-DOCL_BUILD_TESTS=ON"]
    made, text = run(
        ["cmake", "-S", ROOT, "-B", tree, "-G", "Ninja", *options], folder / "cmake.log"
    )
    if made:
        made, built = run(["cmake", "--build", tree, "--", "-k0"], folder / "build.log")
        text += built
    wanted = r"^(?!\[).*(?:\berror\b|\bwarning\b|Warning|Error|no operator of this torch).*$"
    lines = dict.fromkeys(re.findall(wanted, text, re.MULTILINE))
    return {"warnings and errors of the build (build.log)": list(lines)}, made


def sample(python, folder):
    command = [python, ROOT / "tools/with_runtime.py", "pocl"]
    run([*command, folder / "build/torch_ocl_tests", "--gtest_brief=1"], folder / "gtest.log")
    tests = [python, "-m", "pytest", "-n", "2", "-m", "sample", "-q", "-rfE"]
    _, text = run([*command, *tests], folder / "sample.log")
    failures = re.findall(r"^(?:FAILED|ERROR) .*$", text, re.MULTILINE)
    failures += re.findall(r"^\[  FAILED  \] .*$", (folder / "gtest.log").read_text(), re.MULTILINE)
    return {"failures of the sample (sample.log, gtest.log)": failures}, text.splitlines()[-1]


def page(titles, *ends):
    """One page of text; long parts are cut, and say so."""
    lines = []
    for title, found in titles.items():
        lines += [f"== {title}: {len(found)}", *(f"  {each}" for each in found[:MOST_LINES])]
        if len(found) > MOST_LINES:
            lines.append(f"  .. and {len(found) - MOST_LINES} more")
    return "\n".join([*lines, *ends]) + "\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("version")
    parser.add_argument("--index")
    parser.add_argument("--folder", type=pathlib.Path)
    parser.add_argument("--since", type=pathlib.Path)
    parser.add_argument("--no-tests", action="store_true")
    args = parser.parse_args()
    folder = (args.folder or ROOT / f"build/try_{args.version}").absolute()
    folder.mkdir(parents=True, exist_ok=True)

    python = make_environment(folder, args.version, args.index)
    if args.since:
        old = json.loads(args.since.read_text())
    else:
        old = facts_of(sys.executable, folder / "facts_before.json")
    new = facts_of(python, folder / "facts.json")
    private, texts = torch_facts.private_differences(old, new)
    (folder / "private.diff").write_text("\n".join(texts))
    titles = torch_facts.schema_differences(old, new) | torch_facts.native_differences(old, new)
    titles |= private
    built, made = build(python, folder)
    titles |= built
    end, is_right = "the sample did not run", made
    if made and not args.no_tests:
        failures, end = sample(python, folder)
        titles |= failures
        is_right = not any(failures.values())
    text = page({f"PyTorch {old['version']} -> {new['version']}": []} | titles, end)
    (folder / "page.txt").write_text(text)
    print(text)
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
