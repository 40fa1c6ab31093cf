"""Descriptions of the images in tensors: kept with the tensor, and used by the operators."""

from dataclasses import dataclass

import torch

from torch_ocl import _C

COLOR_SPACES = ("sRGB", "linear", "YCbCr", "HSV", "Lab")
CHANNEL_ORDERS = ("L", "LA", "RGB", "BGR", "RGBA", "BGRA", "YCbCr", "HSV", "Lab")


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
    torch_ocl.image use it and pass it on: channel_order tells which channel is red and which is
    alpha, "linear" colours have another luminance than "sRGB" ones, and results are clamped to
    value_range.

    color_space: one of COLOR_SPACES. channel_order: one of CHANNEL_ORDERS, of as many channels as
    the tensor has. value_range: the numbers of black and white; by default (0, 255) for uint8 and
    (0, 1) for floating point.

    Raises ValueError for a tensor that is not on ocl, for unknown names, for a channel order of
    another number of channels, and for a range that is empty or holds numbers outside of uint8.
    """
    if color_space is not None and color_space not in COLOR_SPACES:
        raise ValueError(f"color_space is {color_space!r}, but must be one of {COLOR_SPACES}")
    if channel_order is not None:
        _check_order(tensor, channel_order)
    if value_range is not None:
        value_range = _checked_range(tensor, value_range)
    _C.describe(tensor, _C.ImageDescription(color_space or "", channel_order or "", value_range))
    return tensor


def description(tensor: torch.Tensor) -> Description:
    """The description that :func:`describe` gave to the tensor; empty if there is none."""
    found = _C.description(tensor)
    return Description(found.color_space or None, found.channel_order or None, found.value_range)


def _check_order(tensor: torch.Tensor, order: str) -> None:
    if order not in CHANNEL_ORDERS:
        raise ValueError(f"channel_order is {order!r}, but must be one of {CHANNEL_ORDERS}")
    channels = 3 if order == "YCbCr" else len(order)
    if tensor.dim() < 3 or tensor.size(-3) != channels:
        raise ValueError(
            f"channel_order {order!r} has {channels} channels, but the tensor's shape is "
            f"{tuple(tensor.shape)}: images are [..., channels, height, width]"
        )


def _checked_range(tensor: torch.Tensor, value_range: tuple[float, float]) -> tuple[float, float]:
    low, high = (float(number) for number in value_range)
    if not low < high:
        raise ValueError(f"value_range is ({low:g}, {high:g}), but black must be below white")
    if tensor.dtype == torch.uint8 and (low < 0 or high > 255):
        raise ValueError(f"value_range is ({low:g}, {high:g}), but uint8 holds 0 to 255")
    return low, high
