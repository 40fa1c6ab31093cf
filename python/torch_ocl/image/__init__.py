"""Image operators with Pillow's semantics, for tensors [..., channels, height, width].

They run on ocl and on the CPU, with gradients, under autocast and torch.compile. The same
operators are torch.ops.torch_ocl.crop and so on.
"""

from .description import CHANNEL_ORDERS, COLOR_SPACES, Description, describe, description
from .operators import (
    adjust_brightness,
    adjust_contrast,
    adjust_hue,
    adjust_saturation,
    affine,
    crop,
    flip,
    gaussian_blur,
    normalize,
    paste,
    resize,
    rotate,
)

__all__ = [
    "CHANNEL_ORDERS",
    "COLOR_SPACES",
    "Description",
    "adjust_brightness",
    "adjust_contrast",
    "adjust_hue",
    "adjust_saturation",
    "affine",
    "crop",
    "describe",
    "description",
    "flip",
    "gaussian_blur",
    "normalize",
    "paste",
    "resize",
    "rotate",
]
