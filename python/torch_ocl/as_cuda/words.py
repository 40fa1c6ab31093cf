"""Translates the word "cuda", and finds out whether a program or PyTorch asks."""

import sys

import torch

from . import visible

# torch.device's own attribute, from before devices.py changes it.
type_of = torch.device.type.__get__

_OWN = ("torch.", "torch_ocl.")
# Functions, by module, in which torch.compile evaluates the program's questions.
_TRACER = "torch._dynamo.variables."
_TRACED = {"const_getattr", "var_getattr", "method_attr_is_cuda", "call_function"}


def to_ocl(device):
    """Translates a cuda device (string or torch.device) to the ocl device; returns other values
    unchanged."""
    if isinstance(device, str):
        if device.startswith("cuda") and device[4:5] in ("", ":"):
            visible.apply()
            return "ocl" + device[4:]
    elif isinstance(device, torch.device) and type_of(device) == "cuda":
        return torch.device("ocl" if device.index is None else f"ocl:{device.index}")
    return device


def to_cuda(name: str) -> str:
    """Translates the name of an ocl device to the one that programs know; returns other values
    unchanged."""
    return "cuda" + name[3:] if name[:3] == "ocl" and name[3:4] in ("", ":") else name


def asked_by_program(depth: int = 1) -> bool:
    """Whether the code `depth` frames above the caller is a program, not PyTorch or torch_ocl.

    torch.compile counts as the program that it traces.
    """
    frame = sys._getframe(depth + 1)
    module = frame.f_globals.get("__name__") or ""
    if module.startswith(_TRACER) and frame.f_code.co_name in _TRACED:
        traced = frame.f_locals.get("tx")
        module = getattr(traced, "f_globals", {}).get("__name__") or module
    return not (module.startswith(_OWN) or module in ("torch", "torch_ocl"))
