"""Descriptions of the images in tensors: kept with the tensor, and used by the operators."""

from dataclasses import dataclass

import torch

from torch_ocl import _C

COLOR_SPACES = _C.COLOR_SPACES
CHANNEL_ORDERS = _C.CHANNEL_ORDERS


@dataclass(frozen=True)
class Description:
    """The result of :func:`description`; None for properties that were not described.

    color_space: one of COLOR_SPACES. channel_order: one of CHANNEL_ORDERS. value_range: the
    numbers of black and white.
    """

    color_space: str | None = None
    channel_order: str | None = None
    value_range: tuple[float, float] | None = None


def describe(
    tensor: torch.Tensor,
    *,
    color_space: str | None = None,
    channel_order: str | None = None,
    value_range: tuple[float, float] | None = None,
) -> torch.Tensor:
    """Describes the image [..., channels, height, width] in `tensor`, and returns `tensor`.

    It replaces the former description; arguments that are not given are unknown. The description
    is kept by clone(), detach(), deepcopy, copies between ocl devices or types, and torch.save. A
    copy to the CPU, a view or the result of another operator has none. The operators of
    torch_ocl.image use it and pass it on: channel_order says which channel is red and which is
    alpha, "linear" colours have another luminance than "sRGB" ones, and results are clamped to
    value_range.

    color_space: one of COLOR_SPACES. channel_order: one of CHANNEL_ORDERS, of as many channels as
    the tensor has. value_range: the numbers of black and white; by default (0, 255) for uint8 and
    (0, 1) for floating point.

    Raises ValueError for a tensor that is not on ocl, for unknown names, for a channel order of
    another number of channels, and for a range that is empty or holds numbers outside of uint8.
    """
    if value_range is not None:
        low, high = (float(number) for number in value_range)
        value_range = low, high
    _C.describe(tensor, _C.ImageDescription(color_space or "", channel_order or "", value_range))
    return tensor


def description(tensor: torch.Tensor) -> Description:
    """The description that :func:`describe` gave to the tensor; empty if there is none."""
    found = _C.description(tensor)
    return Description(found.color_space or None, found.channel_order or None, found.value_range)
