"""The runtime of `pip install torch-ocl[runtime]`, in an environment like the one pip makes."""

import importlib.metadata
import os
import pathlib
import shutil
import subprocess
import sys

import pytest
from support import ROOT

PACKAGE = ROOT / "build/python"
NAMES = """
import torch
names = [torch.ocl.get_device_properties(i).platform for i in range(torch.ocl.device_count())]
x = torch.arange(6.0, device=f"ocl:{len(names) - 1}").reshape(2, 3)
assert (x @ x.T).tolist() == [[5, 14], [14, 50]]
print(*names, sep=";")
"""
INTEL = "Intel(R) OpenCL"
RUNTIMES_OF_THE_USER = ["OCL_ICD_VENDORS", "OCL_ICD_FILENAMES", "LD_LIBRARY_PATH"]


def link_package(site):
    """Makes links to the built package in a folder for packages."""
    (site / "torch_ocl").mkdir(parents=True)
    for file in (PACKAGE / "torch_ocl").iterdir():
        (site / "torch_ocl" / file.name).symlink_to(file)
    for folder in PACKAGE.glob("*.dist-info"):
        (site / folder.name).symlink_to(folder)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """PREFIX/lib/pythonX.Y/site-packages with torch_ocl; Intel's libraries are in PREFIX/lib."""
    try:
        files = importlib.metadata.files("intel-opencl-rt")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("Intel's OpenCL runtime is not installed: make intel-runtime")
    installed = next(f.locate() for f in files if f.name == "libintelocl.so").resolve().parent
    lib = tmp_path_factory.mktemp("prefix") / "lib"
    site = lib / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    link_package(site)
    for file in installed.iterdir():
        if file.is_file():
            (lib / file.name).symlink_to(file)
    return site


def platforms(site, *prefix, **variables):
    """The platforms of the devices in a process that finds torch_ocl in `site`."""
    hidden = [*RUNTIMES_OF_THE_USER, "OCL_VISIBLE_DEVICES", "OCL_KERNEL_FAMILY"]
    hidden.append("OPENCL_LAYERS")  # the stern device
    clean = {k: v for k, v in os.environ.items() if k not in hidden}
    command = [*prefix, sys.executable, "-c", NAMES]
    environment = {**clean, "PYTHONPATH": str(site), **variables}
    result = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip().split(";")


def hiding(mount):
    """A command that runs another one without some of the system's files."""
    prefix = ["unshare", "--map-root-user", "--mount"]
    if subprocess.run([*prefix, "true"], capture_output=True).returncode != 0:
        pytest.skip("this system does not let a process have mounts of its own")
    return [*prefix, "sh", "-c", f'{mount} && exec "$@"', "sh"]


def test_is_found_beside_the_systems_runtimes(site):
    found = platforms(site)
    assert found.count(INTEL) == 1


def test_needs_no_runtime_of_the_system(site, tmp_path):
    vendors = pathlib.Path("/etc/OpenCL/vendors")
    if not vendors.exists():
        assert platforms(site) == [INTEL]
        return
    assert platforms(site, *hiding(f"mount --bind {tmp_path} {vendors}")) == [INTEL]


def test_needs_no_loader_of_the_system(site):
    mount = (
        "for file in $(PATH=$PATH:/sbin ldconfig -p | sed -n 's/.*libOpenCL.so.* => //p'); "
        "do mount --bind /dev/null $(readlink -f $file) || exit 1; done"
    )
    assert platforms(site, *hiding(mount)) == [INTEL]


def test_is_not_used_where_the_user_chose_runtimes(site):
    vendors = pathlib.Path("/etc/OpenCL/vendors")
    if not (vendors / "pocl.icd").exists():
        pytest.skip("PoCL is not installed")
    assert platforms(site, OCL_ICD_VENDORS=str(vendors / "pocl.icd")) == [
        "Portable Computing Language"
    ]


@pytest.fixture(scope="module")
def telling_library(tmp_path_factory):
    """A library that makes the file TELL when it is loaded."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not compiler:
        pytest.skip("no compiler of C is installed")
    folder = tmp_path_factory.mktemp("library")
    source = "#include <stdio.h>\n#include <stdlib.h>\n"
    source += '__attribute__((constructor)) void tell(void) { fopen(getenv("TELL"), "w"); }'
    (folder / "tell.c").write_text(source)
    command = [compiler, "-shared", "-fPIC", "-o", folder / "tell.so", folder / "tell.c"]
    subprocess.run(command, check=True)
    return folder / "tell.so"


@pytest.mark.parametrize(
    "folder, mode_of_folder, mode_of_file, is_loaded",
    [
        ("lib/python3.x/site-packages", 0o755, 0o644, True),
        ("lib/python3.x/site-packages", 0o775, 0o664, True),
        ("lib64/python3.x/dist-packages", 0o755, 0o644, True),
        ("lib/python3.x/site-packages", 0o755, 0o646, False),
        ("lib/python3.x/site-packages", 0o757, 0o644, False),
        ("lib/python3.x/site-packages", 0o1777, 0o644, False),
        ("tmp/a/packages", 0o755, 0o644, False),
        ("lib/a/site-packages", 0o755, 0o644, False),
        ("tmp/python3.x/site-packages", 0o755, 0o644, False),
    ],
)
def test_library_of_others_is_not_loaded(
    tmp_path, telling_library, folder, mode_of_folder, mode_of_file, is_loaded
):
    site = tmp_path / folder
    link_package(site)
    lib = site.parents[1]
    shutil.copy(telling_library, lib / "libintelocl.so").chmod(mode_of_file)
    lib.chmod(mode_of_folder)
    clean = {k: v for k, v in os.environ.items() if k not in RUNTIMES_OF_THE_USER}
    result = subprocess.run(
        [sys.executable, "-c", "import torch; torch.ocl.get_device_properties(0)"],
        env={**clean, "PYTHONPATH": str(site), "TELL": str(tmp_path / "loaded")},
        capture_output=True,
        text=True,
    )
    assert (tmp_path / "loaded").exists() == is_loaded, result.stderr
    refused = folder.startswith("lib/python") and not is_loaded
    assert ("is not used: other users can write" in result.stderr) == refused, result.stderr
