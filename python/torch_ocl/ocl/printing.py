"""Printing tensors of devices without float64: PyTorch computes the format in float64."""

import torch

from .devices import get_device_properties


def print_without_float64() -> None:
    """Formats such tensors on the CPU."""
    original = torch._tensor_str._tensor_str

    def formatted(tensor, indent):
        if tensor.device.type == "ocl" and not get_device_properties(tensor.device).has_fp64:
            tensor = tensor.cpu()
        return original(tensor, indent)

    torch._tensor_str._tensor_str = formatted
