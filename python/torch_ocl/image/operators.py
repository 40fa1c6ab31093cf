"""The operators: torch.ops.torch_ocl.* with Pillow's names, defaults and kinds of arguments."""

from collections.abc import Sequence

import torch

_ops = torch.ops.torch_ocl
Numbers = float | Sequence[float]


def _list(numbers: Numbers) -> list[float]:
    return [float(n) for n in (numbers if isinstance(numbers, Sequence) else [numbers])]


def crop(pic: torch.Tensor, box: Sequence[int]) -> torch.Tensor:
    """The rectangle `box` = (left, upper, right, lower) of images [..., channels, height, width].

    Outside of the image the result is 0, as in PIL.Image.crop. Any type.
    The gradient is 1 inside of the box and 0 outside.

    Raises ValueError for a box of other than four numbers, or whose right or lower edge comes
    before its left or upper one.
    """
    return _ops.crop(pic, box)


def paste(im1: torch.Tensor, im2: torch.Tensor, coord: Sequence[int]) -> torch.Tensor:
    """A copy of `im1` with `im2` at `coord` = (left, upper), cut off at the edges of `im1`.

    Both are [..., channels, height, width] and differ only in height and width, as for
    PIL.Image.paste (which changes `im1`). Any type.

    Raises ValueError for other shapes, or where the images' descriptions contradict each other;
    TypeError for images of two types (under autocast they are cast to the wider one).
    """
    return _ops.paste(im1, im2, coord)


def flip(img: torch.Tensor, horizontal: bool = True, vertical: bool = False) -> torch.Tensor:
    """Mirrored left to right (PIL.ImageOps.mirror), upside down (PIL.ImageOps.flip), or both.

    img: [..., channels, height, width], any type.
    """
    return _ops.flip(img, horizontal, vertical)


def resize(
    img: torch.Tensor,
    size: int | Sequence[int],
    interpolation: str = "bicubic",
    antialias: bool = True,
) -> torch.Tensor:
    """Images [..., channels, height, width], uint8 or floating point, in another size.

    size: (height, width) in pixels, or a number for the shorter edge; the other is proportional.
    interpolation: "nearest", "bilinear" or "bicubic". With `antialias` it computes PIL.Image.resize
    (the filter is stretched when the image shrinks; uint8 results are bit for bit equal), without
    it torch.nn.functional.interpolate with align_corners=False. "nearest" ignores it.

    Raises ValueError for an empty image or size, and TypeError for other types.
    """
    if isinstance(size, int):
        height, width = img.shape[-2:]
        size = (
            (size, int(size * width / (height or 1)))  # the operator refuses empty images
            if height <= width
            else (int(size * height / (width or 1)), size)
        )
    return _ops.resize(img, size, interpolation, antialias)


def rotate(
    img: torch.Tensor,
    angle: float,
    interpolation: str = "nearest",
    expand: bool = False,
    center: Sequence[float] | None = None,
    translate: Sequence[float] | None = None,
    fill: Numbers = 0,
) -> torch.Tensor:
    """Rotated by `angle` degrees counter-clockwise, as PIL.Image.rotate.

    img: [..., channels, height, width], uint8 or floating point. expand: the result is as large as
    the whole rotated image needs, if it is rotated around the middle and not translated. center:
    (x, y) in pixels from the upper left corner; by default the middle. translate: a shift by (x, y)
    pixels after the rotation. fill: the value outside of the image, one number or one per channel.

    Raises ValueError for numbers that are not finite, and for a fill that uint8 does not hold.
    """
    return _ops.rotate(img, float(angle), interpolation, expand, center, translate, _list(fill))


def affine(
    img: torch.Tensor,
    matrix: Sequence[float],
    size: Sequence[int] | None = None,
    interpolation: str = "nearest",
    fill: Numbers = 0,
) -> torch.Tensor:
    """The pixel at (x, y) of the result is that at (a x + b y + c, d x + e y + f) of `img`.

    As PIL.Image.transform(size, AFFINE, matrix): `matrix` is (a, b, c, d, e, f), for positions in
    pixels from the upper left corner, with the centres of pixels at halves. img: [..., channels,
    height, width], uint8 or floating point. size: (height, width), by default that of `img`. fill:
    see :func:`rotate`. "bicubic" is cubic convolution with a = -1, as in Pillow here.

    Raises ValueError for a matrix of other than six finite numbers, an unknown interpolation, and a
    fill that uint8 does not hold.
    """
    return _ops.affine(img, _list(matrix), size, interpolation, _list(fill))


def normalize(img: torch.Tensor, mean: Numbers, std: Numbers) -> torch.Tensor:
    """(img - mean) / std for each channel of [..., channels, height, width].

    mean, std: one number or one per channel, for values from 0 to 1. uint8 is divided by 255 first
    (and becomes float32); an image with a described value_range is mapped from that range.

    Raises ValueError for other counts of numbers and for a std of 0.
    """
    return _ops.normalize(img, _list(mean), _list(std))


def gaussian_blur(img: torch.Tensor, radius: Numbers = 2) -> torch.Tensor:
    """Blurred as PIL.ImageFilter.GaussianBlur: three box blurs that come close to a Gaussian.

    img: [..., channels, height, width], uint8 or floating point. radius: the standard deviation in
    pixels, from 0, which changes nothing, to 1e9; or (horizontal, vertical). Outside, the pixels of
    the edges repeat.
    (Gwosdek et al., Theoretical foundations of Gaussian convolution by extended box filtering,
    2011.)
    """
    return _ops.gaussian_blur(img, _list(radius))


def adjust_brightness(img: torch.Tensor, factor: float) -> torch.Tensor:
    """black + factor * (img - black), as PIL.ImageEnhance.Brightness; alpha does not change.

    img: [..., channels, height, width], uint8 or floating point. Results are clamped to the image's
    range: that of :func:`describe`, else (0, 255) for uint8 and (0, 1) for floating point.
    """
    return _ops.adjust_brightness(img, float(factor))


def adjust_contrast(img: torch.Tensor, factor: float) -> torch.Tensor:
    """gray + factor * (img - gray) with each image's mean luminance, as PIL.ImageEnhance.Contrast.

    img: gray or RGB, with or without alpha, else as for :func:`adjust_brightness`. Luminance: ITU-R
    601-2 (0.299, 0.587, 0.114), or BT.709 for images described as "linear".
    """
    return _ops.adjust_contrast(img, float(factor))


def adjust_saturation(img: torch.Tensor, factor: float) -> torch.Tensor:
    """luminance + factor * (img - luminance) of each pixel, as PIL.ImageEnhance.Color.

    img and luminance: see :func:`adjust_contrast`. A gray image stays as it is.
    """
    return _ops.adjust_saturation(img, float(factor))


def adjust_hue(img: torch.Tensor, factor: float) -> torch.Tensor:
    """Rotates the hue in HSV by `factor` of the circle, from -0.5 to 0.5.

    img: see :func:`adjust_contrast`. uint8 uses Pillow's HSV of 256 steps, bit for bit on devices
    with float64. A gray image stays as it is. Raises ValueError for another factor.
    """
    return _ops.adjust_hue(img, float(factor))
