"""The runtime of `pip install torch-ocl[runtime]`, in an environment like the one pip makes."""

import importlib.metadata
import os
import pathlib
import subprocess
import sys

import pytest

PACKAGE = pathlib.Path(__file__).resolve().parents[2] / "build/python"
NAMES = """
import torch
names = [torch.ocl.get_device_properties(i).platform for i in range(torch.ocl.device_count())]
x = torch.arange(6.0, device=f"ocl:{len(names) - 1}").reshape(2, 3)
assert (x @ x.T).tolist() == [[5, 14], [14, 50]]
print(*names, sep=";")
"""
INTEL = "Intel(R) OpenCL"


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
    (site / "torch_ocl").mkdir(parents=True)
    for file in installed.iterdir():
        if file.is_file():
            (lib / file.name).symlink_to(file)
    for file in (PACKAGE / "torch_ocl").iterdir():
        (site / "torch_ocl" / file.name).symlink_to(file)
    for folder in PACKAGE.glob("*.dist-info"):
        (site / folder.name).symlink_to(folder)
    return site


def platforms(site, *prefix, **variables):
    """The platforms of the devices in a process that finds torch_ocl in `site`."""
    hidden = ["OCL_ICD_VENDORS", "LD_LIBRARY_PATH", "OCL_VISIBLE_DEVICES", "OCL_KERNEL_FAMILY"]
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
