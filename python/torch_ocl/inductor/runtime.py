"""What programs that Inductor has written import."""

import os
from pathlib import Path

from torch._inductor.codecache import write

from torch_ocl import _C


def generated_kernel(name: str, signature: str, shape: str, local_size: int, source: str):
    """A callable that launches the kernel: tensors and sizes, then how many units of what cost.

    The source is kept in a file of Inductor's cache folder, which errors of the build name; it is
    built at the first launch, or its program loaded from the program cache.
    """
    return _C.generated_kernel(name, source_file(name, source), signature, shape, local_size)


def source_file(name: str, source: str) -> str:
    return write(source.replace("KERNEL_NAME", name), "cl")[1]


_INCLUDE = Path(__file__).parents[1] / "include"
HEADERS = tuple(sorted(str(path) for path in _INCLUDE.glob("torch_ocl/*.h")))


def find_headers() -> None:
    """Tells compilers of programs in C++ where the headers are; Inductor's options cannot."""
    name = "INCLUDE" if os.name == "nt" else "CPLUS_INCLUDE_PATH"
    folders = os.environ.get(name, "").split(os.pathsep)
    if str(_INCLUDE) not in folders:
        os.environ[name] = os.pathsep.join([str(_INCLUDE), *filter(None, folders)])
