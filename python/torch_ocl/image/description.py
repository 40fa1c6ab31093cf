"""What a tensor says about the image in it: kept with the tensor, honoured by the operators."""

from dataclasses import dataclass

import torch

from torch_ocl import _C

COLOR_SPACES = ("sRGB", "linear", "YCbCr", "HSV", "Lab")
CHANNEL_ORDERS = ("L", "LA", "RGB", "BGR", "RGBA", "BGRA", "YCbCr", "HSV", "Lab")


@dataclass(frozen=True)
class Description:
    """What :func:`description` found; None where nothing was said.

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
    """Says what the image [..., channels, height, width] in `tensor` is, and returns `tensor`.

    What is not given is left unsaid, whatever was said before. The description is kept by
    clone(), detach(), deepcopy, copies between ocl devices or types, and torch.save; a copy to
    the CPU, a view or another operator's result has none. The operators of torch_ocl.image
    honour it and pass it on: the order of channels says which is red and which is alpha, "linear"
    colours have another luminance than "sRGB" ones, value_range is where results are clamped.

    color_space: one of COLOR_SPACES. channel_order: one of CHANNEL_ORDERS, of as many channels as
    the tensor has. value_range: the numbers of black and white; (0, 255) is understood for uint8
    and (0, 1) for floating point where nothing is said.

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
    """What :func:`describe` said about the tensor; empty if nothing."""
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
