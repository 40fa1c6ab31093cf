"""Writes the table of docs/from_cuda.md: each name of torch.cuda, and what torch.ocl has for it.

usage: python tools/cuda_names.py docs/from_cuda.md
"""

import pathlib
import sys

import torch

BEGIN, END = "<!-- table -->\n", "<!-- end of table -->"

_ERRORS = "no counterpart: calls of OpenCL that fail raise by themselves"
_COMPILED = "no counterpart: the driver compiles each kernel for its own device"
_PARTS = "no counterpart: OpenCL's sub-devices are not used"
_UNKNOWN = "the tool of the device's vendor: OpenCL does not report it"
# Names of torch.cuda that torch.ocl lacks: what to use instead, or the reason.
MISSING = {
    "CUDAGraph": "`torch.ocl.Graph`",
    "CUDAPluggableAllocator": "no counterpart: `torch.ocl.from_buffer` takes memory of others",
    "CudaError": "`torch.ocl.AcceleratorError`",
    "DEVICE_REQUIREMENT": _COMPILED,
    "DeferredCudaCallError": "`torch.ocl.AcceleratorError`",
    "GreenContext": _PARTS,
    "PYTORCH_RELEASES_CODE_CC": _COMPILED,
    "caching_allocator_alloc": "`torch.empty`; `torch.ocl.buffer` gives the buffer to others",
    "caching_allocator_delete": "`torch.empty`; `torch.ocl.buffer` gives the buffer to others",
    "caching_allocator_disabled": "`OCL_MEMORY_CACHING=0`",
    "caching_allocator_enable": "`OCL_MEMORY_CACHING=0`",
    "change_current_allocator": "no counterpart: `torch.ocl.from_buffer` takes memory of others",
    "check_error": _ERRORS,
    "clock_rate": _UNKNOWN,
    "cudaStatus": _ERRORS,
    "cudart": _ERRORS,
    "current_blas_handle": "no counterpart: there is no library with a handle",
    "current_solver_handle": "no counterpart: there is no library with a handle",
    "device_memory_used": _UNKNOWN,
    "gds": "no counterpart: OpenCL reads no files",
    "get_arch_list": _COMPILED,
    "get_gencode_flags": _COMPILED,
    "green_contexts": _PARTS,
    "has_half": "float16 works on every device",
    "has_magma": "`torch.linalg` works without it",
    "jiterator": "`torch.ocl.compile_kernel`",
    "list_gpu_processes": _UNKNOWN,
    "memory_usage": _UNKNOWN,
    "nccl": '`torch.distributed` with the backend `"occl"`',
    "nvtx": "`torch.profiler.record_function`",
    "power_draw": _UNKNOWN,
    "profiler": "`torch.profiler`",
    "sparse": "sparse tensors work without it",
    "temperature": _UNKNOWN,
    "tunable": "`python -m torch_ocl.tune`",
    "utilization": _UNKNOWN,
}


def public_names(module):
    """Functions and classes, without typed tensors, imported modules and helpers of typing."""
    skipped = ("Tensor", "Storage")
    helpers = {"Any", "Callable", "Device", "NewType", "Optional", "cast", "classproperty"}
    return {
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and callable(value)
        and not name.endswith(skipped)
        and name not in helpers | {"lru_cache"}
    }


def table():
    """The table in Markdown."""
    ours = public_names(torch.ocl)
    rows = [
        f"| `torch.cuda.{name}` | "
        + (f"`torch.ocl.{name}`" if name in ours else MISSING[name])
        + " |"
        for name in sorted(public_names(torch.cuda) | MISSING.keys())
    ]
    return "\n".join(["| torch.cuda | torch.ocl |", "| --- | --- |", *rows]) + "\n"


def main():
    page = pathlib.Path(sys.argv[1])
    head, rest = page.read_text().split(BEGIN)
    page.write_text(head + BEGIN + table() + END + rest.split(END)[1])


if __name__ == "__main__":
    main()
