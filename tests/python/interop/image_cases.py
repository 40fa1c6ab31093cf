"""Helpers for the tests of the image operators."""

import numpy
import torch
from PIL import Image
from sklearn.datasets import load_sample_image

from torch_ocl import image

MATRICES = {
    "rotated": [0.9, 0.31, -12.5, -0.28, 1.1, 7.25],
    "sheared": [1, 0.4, -20, 0, 1, 0],
    "shrunk": [2.5, 0, 3, 0, 1.7, -9],
    "enlarged": [0.3, 0.02, 40, -0.01, 0.25, 30],
}


def photograph(height=201, width=160):
    """An RGB photograph as PIL has it."""
    return Image.fromarray(load_sample_image("china.jpg")[100 : 100 + height, 200 : 200 + width])


def to_tensor(picture, device="cpu"):
    array = numpy.array(picture)
    array = array[None] if array.ndim == 2 else array.transpose(2, 0, 1)
    return torch.from_numpy(array.copy()).to(device)


DIFFERENTIABLE = {
    "crop": lambda x: image.crop(x, (-2, 1, 4, 9)),
    "paste": lambda x: image.paste(x, torch.ones_like(x)[..., 1:4, 2:4], (3, 4)),
    "paste_onto": lambda x: image.paste(torch.ones_like(x), x, (-2, 3)),
    "paste_itself": lambda x: image.paste(x, image.crop(x, (0, 0, 3, 2)), (2, 1)),
    "flip": lambda x: image.flip(x, True, True),
    "resize_smaller": lambda x: image.resize(x, (3, 4)),
    "resize_larger": lambda x: image.resize(x, (11, 9), "bilinear"),
    "resize_plain": lambda x: image.resize(x, (9, 5), "bicubic", antialias=False),
    "resize_nearest": lambda x: image.resize(x, (4, 9), "nearest"),
    "rotate": lambda x: image.rotate(x, 25, "bicubic", expand=True),
    "rotate_quarter": lambda x: image.rotate(x, 90, expand=True),
    "affine": lambda x: image.affine(x, MATRICES["sheared"], (5, 8), "bilinear", fill=0.5),
    "affine_larger": lambda x: image.affine(x, [0.3, 0.1, 1, -0.1, 0.4, 2], (9, 9), "bicubic"),
    "affine_smaller": lambda x: image.affine(x, [1.6, 0.2, -1, 0.3, 1.5, 0], None, "bicubic"),
    "affine_nearest": lambda x: image.affine(x, [0.8, 0.3, 0, -0.2, 0.9, 1], None, "nearest"),
    "affine_flat": lambda x: image.affine(x, [0.5, 0, 1, 0, 0, 2.2], (4, 4), "bilinear"),
    "normalize": lambda x: image.normalize(x, [0.4, 0.5, 0.1], [0.2, 0.3, 2]),
    "gaussian_blur": lambda x: image.gaussian_blur(x, (1.3, 0.8)),
    "brightness": lambda x: image.adjust_brightness(x, 1.4),
    "contrast": lambda x: image.adjust_contrast(x, 1.6),
    "saturation": lambda x: image.adjust_saturation(x, 1.5),
    "hue": lambda x: image.adjust_hue(x, 0.23),
}


OPERATORS = {
    **{k: v for k, v in DIFFERENTIABLE.items() if not k.startswith("paste")},
    "bytes": lambda x: image.gaussian_blur(image.resize((x * 255).byte(), (20, 31)), 1),
    "bytes_hue": lambda x: image.adjust_hue((x * 255).byte(), 0.2),
    "bytes_contrast": lambda x: image.adjust_contrast((x * 255).byte(), 1.2),
}
