"""Checks what a release ships: the wheel's content, version, licences, sizes and dependencies.

usage: release_check.py WHEEL.. [--offline]

`make release-check` builds and tests the wheels, and the pages, first. Prints a line for each
check, and fails if one of them fails. pip-audit asks PyPI for known vulnerabilities of the packages
that each wheel was tested with, in build/wheels/test_cp311_torch2_13. --offline leaves that out.
"""

import argparse
import email
import pathlib
import re
import subprocess
import sys
import tomllib
import zipfile

import wheels

ROOT = pathlib.Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
MOST_MEGABYTES = 60
SHIPPED = re.compile(
    r"torch_ocl/torch\d+_\d+/(_C\.[\w.-]+\.so|count_devices)|torch_ocl/include/[\w/]+\.h"
    r"|torch_ocl/[\w/]+\.py|torch_ocl-[\d.]+\.dist-info/[\w./-]+"
)


def version_problems(changelog, version):
    """The changelog's newest heading is this version, with the date of its release."""
    heading = re.search(r"^## (\S+) \(([^)]*)\)", changelog, re.MULTILINE)
    if heading[1] != version:
        yield f"CHANGELOG.md is at {heading[1]}, pyproject.toml at {version}"
    elif not re.fullmatch(r"\d{4}-\d\d-\d\d", heading[2]):
        yield f"CHANGELOG.md says of {version}: {heading[2]}"


def python_problems(abis):
    """There is a wheel for each Python in pyproject.toml."""
    pythons = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    missing = [each for each in pythons if "cp" + each.replace(".", "") not in abis]
    if missing:
        yield f"no wheel for Python {', '.join(missing)}: WHEEL_PYTHONS names them"


def content_problems(names, releases, abi):
    """Nothing is shipped by accident, and nothing is missing."""
    strangers = [name for name in names if not SHIPPED.fullmatch(name)]
    if strangers:
        yield f"not expected: {strangers}"
    for release in releases:
        start = f"torch_ocl/{wheels.folder_of(release)}/_C."
        found = [name for name in names if name.startswith(start)]
        wanted = f"{start}cpython-{abi.removeprefix('cp')}-"
        if len(found) != 1 or not found[0].startswith(wanted):
            yield f"one extension is needed, {wanted}*, not {found}"
    for licence in ("LICENSE", "NOTICE"):
        if not any(name.endswith(f"/{licence}") for name in names):
            yield f"{licence} is missing"


def size_problems(size):
    if size > MOST_MEGABYTES * 1e6:
        yield f"{size / 1e6:.0f} MB, the most is {MOST_MEGABYTES}"


def names_of(requirements):
    return sorted(re.match(r"[\w-]+", each)[0] for each in requirements)


def metadata_problems(metadata):
    """The wheels' metadata have the project's dependencies."""
    wanted = names_of(PROJECT["dependencies"])
    found = names_of(each for each in metadata.get_all("Requires-Dist") if ";" not in each)
    if found != wanted:
        yield f"the wheel requires {found}, the project {wanted}"


def vulnerability_problems(abi, folder=ROOT / "build/wheels"):
    environment = folder / f"test_{abi}_{wheels.folder_of(wheels.supported()[-1])}"
    [packages] = environment.glob("lib/python3.*/site-packages")
    python = wheels.environment(folder / "tools", "pip-audit")
    command = [python, "-m", "pip_audit", "--progress-spinner=off", "--path", packages]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        yield (result.stdout.strip() or result.stderr.strip()).splitlines()[-1]


def checks_of(wheel, offline):
    """{what is checked: its problems}"""
    abi = wheels.tags(wheel)[1]
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/")]
        information = next(name for name in names if name.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(archive.read(information))
    checks = {
        "version": version_problems((ROOT / "CHANGELOG.md").read_text(), metadata["Version"]),
        "content": content_problems(names, wheels.supported(), abi),
        "dependencies": metadata_problems(metadata),
        f"size, {wheel.stat().st_size / 1e6:.1f} MB": size_problems(wheel.stat().st_size),
    }
    if not offline:
        checks["known vulnerabilities"] = vulnerability_problems(abi)
    return {f"{abi}, {name}": problems for name, problems in checks.items()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("wheels", nargs="+", type=pathlib.Path)
    parser.add_argument("--offline", action="store_true")
    args = parser.parse_args()
    checks = {"Pythons": python_problems({wheels.tags(wheel)[1] for wheel in args.wheels})}
    for wheel in args.wheels:
        checks |= checks_of(wheel, args.offline)
    failed = False
    for name, problems in checks.items():
        problems = list(problems)
        failed |= bool(problems)
        print(f"{name}: {'; '.join(problems) or 'ok'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
