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
import venv

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


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("venv", type=pathlib.Path)
    parser.add_argument("--torch", metavar="VERSION")
    parser.add_argument("--import-from", type=pathlib.Path)
    parser.add_argument("--extra", action="append")
    args = parser.parse_args()

    folder = args.venv.resolve()
    python = folder / "bin" / "python"
    if not python.exists():
        print(f"Making {folder}")
        venv.create(folder, with_pip=True, symlinks=True)
    site = folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}/site-packages"

    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    packages = []
    for extra in args.extra or ["demo", "dev"]:
        packages += wanted["optional-dependencies"][extra]
    torch_site = None
    if args.torch:
        torch_link = site / "existing_torch.pth"
        inside = pathlib.Path(sys.prefix).resolve() == folder
        torch_site = None if inside else existing_torch(wanted["dependencies"])
        # pip must not see that folder's packages: their commands are not in this venv.
        torch_link.unlink(missing_ok=True)
        if torch_site is None:
            torch = [f"torch=={args.torch}"] if args.torch != "newest" else []
            packages = [*torch, *wanted["dependencies"], *packages]
    environment = {**os.environ, "PYTHONPATH": ""}
    pip = [python, "-m", "pip", "install", "--disable-pip-version-check"]
    subprocess.run([*pip, *packages], check=True, env=environment)

    if torch_site is not None:
        print(f"Using PyTorch from {torch_site}")
        torch_link.write_text(f"{torch_site}\n")
    if args.import_from:
        (site / "torch_ocl_build.pth").write_text(f"{args.import_from.resolve()}\n")


if __name__ == "__main__":
    main()
