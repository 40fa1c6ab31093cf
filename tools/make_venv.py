"""Makes the virtual environment that torch-ocl is built and tested in.

usage: python make_venv.py VENV [--torch VERSION|newest] [--import-from FOLDER] [--extra NAME]...

PyTorch comes from the Python that runs this script if that has a release that pyproject.toml
allows, otherwise from PyPI: the VERSION, or the newest that pyproject.toml allows. Everything else
is what pyproject.toml lists under the extras (default: demo and dev).
"""

import argparse
import importlib.metadata
import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[1]


def numbers(version):
    """(2, 13) for "2.13.0+cpu"."""
    return tuple(int(part) for part in version.split(".")[:2])


def supported_torch(dependencies):
    """(2, 11), (2, 14): the oldest supported release of PyTorch, and the first that is too new."""
    wanted = next(each for each in dependencies if each.startswith("torch"))
    least, beyond = re.fullmatch(r"torch>=([\d.]+),<([\d.]+)", wanted).groups()
    return numbers(least), numbers(beyond)


def existing_torch(dependencies):
    """The site-packages folder of a usable torch of this Python, or None."""
    least, beyond = supported_torch(dependencies)
    try:
        version = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return None
    if not least <= numbers(version) < beyond:
        print(f"PyTorch {version} is not supported: installing another in the venv")
        return None
    return pathlib.Path(importlib.util.find_spec("torch").origin).parents[1]


def make(folder, python=sys.executable):
    """The Python of a virtual environment, which is made if it does not exist."""
    if not (folder / "bin/pip").exists():
        print(f"Making {folder}", flush=True)
        subprocess.run([python, "-m", "venv", folder], check=True)
    return folder / "bin/python"


def environment(folder, *packages, python=sys.executable, pip=()):
    """The Python of a virtual environment with these packages; `pip`: further options of pip."""
    inside = make(folder, python)
    install = [inside, "-m", "pip", "install", "--disable-pip-version-check", *pip, *packages]
    subprocess.run(install, check=True, env={**os.environ, "PYTHONPATH": ""})
    return inside


def link(folder, name):
    """The .pth file by which an environment imports from another folder, too."""
    return next((folder / "lib").glob("python*")) / f"site-packages/{name}.pth"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("venv", type=pathlib.Path)
    parser.add_argument("--torch", metavar="VERSION")
    parser.add_argument("--import-from", type=pathlib.Path)
    parser.add_argument("--extra", action="append")
    args = parser.parse_args()

    folder = args.venv.resolve()
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    packages = []
    for extra in args.extra or ["demo", "dev"]:
        packages += wanted["optional-dependencies"][extra]
    torch_site = None
    if args.torch:
        make(folder)
        inside = pathlib.Path(sys.prefix).resolve() == folder
        torch_site = None if inside else existing_torch(wanted["dependencies"])
        # pip must not see that folder's packages: their commands are not in this venv.
        link(folder, "existing_torch").unlink(missing_ok=True)
        if torch_site is None:
            torch = [f"torch=={args.torch}"] if args.torch != "newest" else []
            packages = [*torch, *wanted["dependencies"], *packages]
    environment(folder, *packages)

    if torch_site is not None:
        print(f"Using PyTorch from {torch_site}")
        link(folder, "existing_torch").write_text(f"{torch_site}\n")
    if args.import_from:
        link(folder, "torch_ocl_build").write_text(f"{args.import_from.resolve()}\n")


if __name__ == "__main__":
    main()
