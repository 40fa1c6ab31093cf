"""Lists the OpenCL devices that torch-ocl finds, and says what to do when there is none.

python -m torch_ocl.info
"""

import ctypes
import importlib.metadata
import os
import pathlib
import platform
import sys

import torch

NO_DEVICE = """\
No OpenCL device found.
  {here}
To get one:
  a GPU           install the vendor's driver package, for example nvidia-opencl-icd,
                  intel-opencl-icd or mesa-opencl-icd on Debian and Ubuntu
  any CPU         apt install pocl-opencl-icd
  an x86-64 CPU   pip install torch-ocl[runtime]
Inside a container, GPUs must be handed in (--device /dev/dri, or --gpus all).\
"""


def opencl_here():
    """Lines about the loader and the drivers on this machine."""
    try:
        ctypes.CDLL("libOpenCL.so.1")
        loader = "OpenCL loader (libOpenCL.so.1): found"
    except OSError:
        loader = "OpenCL loader (libOpenCL.so.1): missing; apt install ocl-icd-libopencl1"
    vendors = pathlib.Path(os.environ.get("OCL_ICD_VENDORS", "/etc/OpenCL/vendors"))
    names = sorted(file.name for file in vendors.glob("*.icd"))
    return [loader, f"drivers in {vendors}: {', '.join(names) or 'none'}"]


def no_device_help():
    """Describes the OpenCL installation of this machine, and packages to install."""
    return NO_DEVICE.format(here="\n  ".join(opencl_here()))


def wrong_setting():
    """The error in an environment variable, or the driver, that hides all devices; else None."""
    try:
        torch.ocl.init()
    except ValueError as error:
        return str(error)
    except (AttributeError, RuntimeError) as error:
        return str(error) if "OCL_LISTING_TIMEOUT" in str(error) else None


def size(count):
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**10:.0f} KiB"


def describe(index):
    from torch_ocl import _C

    p = torch.ocl.get_device_properties(index)
    flags = ["fp64", "fp16", "int64_atomics", "subgroups"]
    has = [name.replace("_", " ") for name in flags if getattr(p, f"has_{name}")]
    lacks = [name.replace("_", " ") for name in flags if not getattr(p, f"has_{name}")]
    rows = {
        "platform": f"{p.platform}, {p.version}, driver {p.driver_version}",
        "type": f"{p.type} by {p.vendor}, {p.max_compute_units} compute units",
        "memory": f"{size(p.total_memory)}, largest buffer {size(p.max_allocation)}"
        + (", shared with the host" if p.host_unified_memory else ""),
        "work-groups": f"up to {p.max_work_group_size}, local memory {size(p.local_memory)}, "
        f"{p.native_vector_width_float} floats per vector",
        "has": ", ".join(has) or "OpenCL 1.2 and fp32 only",
        "lacks": ", ".join(lacks) or "nothing",
        "kernels": f"{p.kernel_family} family",
        "matrix unit": _C.matrix_unit(index),
    }
    print(f'\nocl:{index} "{p.name}"')
    for key, value in rows.items():
        print(f"  {key:12} {value}")
    for name, reason, source in p.quirks:
        print(f"  {'quirk':12} {name}: {reason} ({source})")


def print_skipped():
    from torch_ocl import _C

    skipped = _C.skipped_devices()
    if skipped:
        print("\nnot used (OCL_ALL_DEVICES=1 uses them, where their drivers answer):")
    for name, reason in skipped:
        print(f"  {name}: {reason}")


def versions():
    version = importlib.metadata.version("torch-ocl")
    return f"torch-ocl {version}, PyTorch {torch.__version__}, Python {platform.python_version()}"


def print_variables():
    """All variables of torch-ocl and of the OpenCL loader, even names that docs/environment.md
    lacks: they may be misspelt."""
    for name, value in sorted(os.environ.items()):
        if name.startswith("OCL_") or name == "TORCH_DEVICE_BACKEND_AUTOLOAD":
            print(f"{name}={value}")


def main():
    print(versions())
    print_variables()
    if not (hasattr(torch, "ocl") and torch.ocl.is_available()):
        wrong = wrong_setting()
        if not wrong:
            print_skipped()
        sys.exit("\n" + (wrong or no_device_help()))
    for index in range(torch.ocl.device_count()):
        describe(index)
    print_skipped()


if __name__ == "__main__":
    main()
