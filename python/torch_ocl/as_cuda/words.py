"""The word "cuda": what it means, and who asks."""

import sys

import torch

from . import visible

# Of torch.device as PyTorch made it, before devices.py lets it speak of cuda.
type_of = torch.device.type.__get__

_OWN = ("torch.", "torch_ocl.")
# Where torch.compile evaluates what the program asks: modules, and names of functions there.
_TRACER = "torch._dynamo.variables."
_TRACED = {"const_getattr", "var_getattr", "method_attr_is_cuda", "call_function"}


def to_ocl(device):
    """The ocl device that a cuda device (a string or torch.device) means; all else as it is."""
    if isinstance(device, str):
        if device.startswith("cuda") and device[4:5] in ("", ":"):
            visible.apply()
            return "ocl" + device[4:]
    elif isinstance(device, torch.device) and type_of(device) == "cuda":
        return torch.device("ocl" if device.index is None else f"ocl:{device.index}")
    return device


def to_cuda(name: str) -> str:
    """The name of an ocl device, as programs know it; all else as it is."""
    return "cuda" + name[3:] if name[:3] == "ocl" and name[3:4] in ("", ":") else name


def asked_by_program(depth: int = 1) -> bool:
    """Whether a program asks, not PyTorch or torch_ocl, `depth` frames above the caller.

    torch.compile asks for the program that it traces.
    """
    frame = sys._getframe(depth + 1)
    module = frame.f_globals.get("__name__") or ""
    if module.startswith(_TRACER) and frame.f_code.co_name in _TRACED:
        traced = frame.f_locals.get("tx")
        module = getattr(traced, "f_globals", {}).get("__name__") or module
    return not (module.startswith(_OWN) or module in ("torch", "torch_ocl"))
