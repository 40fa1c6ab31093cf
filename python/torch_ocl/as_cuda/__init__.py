"""For programs that know only CUDA: in this process, the word "cuda" means ocl.

    python -m torch_ocl.run --cuda script.py

OCL_AS_CUDA=1 does the same for each Python process that imports torch. docs/as_cuda.md lists which
names work and which are refused.

PyTorch itself keeps its own words: its modules see devices of type "ocl", and a torch.cuda that is
not available. All other modules count as programs, and see "cuda". words.py finds out who asks.
"""

import importlib
import os
import warnings

# Each module handles one concern, and has a function install().
FILES = (
    "devices",
    "functions",
    "tensors",
    "amp",
    "cuda_module",
    "backends",
    "checkpoints",
    "kernels",
    "distributed",
    "profiling",
    "extensions",
)
VARIABLE = "OCL_AS_CUDA"

_installed = False


def enabled() -> bool:
    """Whether "cuda" means ocl in this process."""
    return _installed


def wanted() -> bool:
    """Whether OCL_AS_CUDA asks for it."""
    return os.environ.get(VARIABLE) == "1"


def refusal() -> str | None:
    """Why "cuda" cannot mean ocl here, or None."""
    from torch_ocl import _pytorch_has_a_gpu

    if _pytorch_has_a_gpu():
        return (
            "this PyTorch has a GPU of its own, for which programs mean the word cuda: leave out "
            "--cuda or OCL_AS_CUDA, or install a PyTorch without CUDA (docs/install.md)"
        )
    return None


def install_if_wanted() -> None:
    """Called when torch is imported. Only warns if it is impossible, because the import must not
    fail."""
    if not wanted():
        return
    try:
        install()
    except Exception as error:
        warnings.warn(f"{VARIABLE}=1 has no effect: {error}", stacklevel=2)


def install() -> None:
    """Lets "cuda" mean ocl from now on, in all threads; torch_ocl.run --cuda calls it.

    Raises RuntimeError where PyTorch has a GPU of its own.
    """
    global _installed
    if _installed:
        return
    if reason := refusal():
        raise RuntimeError(reason)
    from . import visible

    visible.apply()
    for name in FILES:
        importlib.import_module(f"{__name__}.{name}").install()
    from torch_ocl import integrations

    integrations.apply("torch")  # functions of PyTorch with lists of devices that have CUDA
    os.environ[VARIABLE] = "1"  # processes that this one starts do the same
    _installed = True
