"""Raises errors for kernels in CUDA C++ and Triton, which need NVIDIA's compilers."""

import functools

from torch_ocl.inductor.import_hook import after_import

from .refusals import refuse

_SOURCES = "which has no compiler for CUDA C++: write the kernel in OpenCL C, for {}"
_HERE = "torch.ocl.compile_kernel (docs/interop.md)"


def _has_cuda_sources(sources) -> bool:
    sources = [sources] if isinstance(sources, str) else sources or ()
    return any(str(source).endswith((".cu", ".cuh")) for source in sources)


def _refuse_sources(original, name):
    def call(*args, **kwargs):
        wanted = kwargs.get("cuda_sources") or kwargs.get("with_cuda")
        wanted = wanted or (name == "load_inline" and len(args) > 2 and args[2])
        sources = kwargs.get("sources", args[1] if len(args) > 1 else ())
        if wanted or name == "CUDAExtension" or _has_cuda_sources(sources):
            refuse(f"torch.utils.cpp_extension.{name}", _SOURCES.format(_HERE))()
        return original(*args, **kwargs)

    return functools.wraps(original)(call)


def _refuse_cuda_sources() -> None:
    import torch.utils.cpp_extension as module

    for name in ("load", "load_inline", "CUDAExtension"):
        setattr(module, name, _refuse_sources(getattr(module, name), name))


def _refuse_triton() -> None:
    from triton.runtime import jit

    reason = "for which Triton has no compiler: use the program's path without Triton, or "
    jit.JITFunction.run = refuse("the launch of a Triton kernel", f"{reason}{_HERE}")


def install() -> None:
    after_import("torch.utils.cpp_extension", _refuse_cuda_sources)
    after_import("triton.runtime.jit", _refuse_triton)
