"""The operators of PyTorch's tutorial on custom operators in Python: crop and paste with PIL."""

from collections.abc import Sequence

import torch
from PIL import Image
from torch import Tensor


def to_pil(image):
    """Like torchvision's function: floating-point numbers become bytes."""
    return Image.fromarray(image.mul(255).byte().permute(1, 2, 0).numpy())


def from_pil(image):
    data = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8)
    return data.view(image.height, image.width, 3).permute(2, 0, 1)


def plain_crop(image, box):
    return from_pil(to_pil(image.cpu()).crop(box)).to(image.device) / 255.0


@torch.library.custom_op("mylib::crop", mutates_args=())
def crop(image: Tensor, box: Sequence[int]) -> Tensor:
    return (from_pil(to_pil(image.cpu()).crop(box)) / 255.0).to(image.device, image.dtype)


@crop.register_fake
def _(image, box):
    x0, y0, x1, y1 = box
    return image.new_empty(y1 - y0, x1 - x0, image.shape[0]).permute(2, 0, 1)


@torch.library.custom_op("mylib::paste", mutates_args=())
def paste(image: Tensor, part: Tensor, corner: Sequence[int]) -> Tensor:
    assert image.device == part.device and image.dtype == part.dtype
    picture = to_pil(image.cpu())
    picture.paste(to_pil(part.cpu()), tuple(corner))
    return (from_pil(picture) / 255.0).to(image.device, image.dtype)


@paste.register_fake
def _(image, part, corner):
    channels, height, width = image.shape
    return image.new_empty(height, width, channels).permute(2, 0, 1)


def remember(ctx, inputs, output):
    image, box = inputs
    ctx.shape, ctx.corner = image.shape, box[:2]


def backward(ctx, gradient):
    return paste(gradient.new_zeros(ctx.shape), gradient, ctx.corner), None


crop.register_autograd(backward, setup_context=remember)
