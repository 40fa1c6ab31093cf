"""The image operators against Pillow on a photograph, their gradients, types and layouts."""

import math

import numpy
import PIL
import pytest
import torch
from image_cases import DIFFERENTIABLE, MATRICES, OPERATORS, photograph, to_tensor
from PIL import Image, ImageEnhance, ImageFilter, ImageOps
from support import FLOATS, has_fp64

from torch_ocl import image

PILLOW = int(PIL.__version__.split(".")[0])
SIZES = [(50, 77), (300, 250), (201, 160), (7, 400)]  # new sizes of a 201 x 160 photograph


def assert_as_pillow(actual, picture):
    """The same bytes."""
    expected = to_tensor(picture)
    assert actual.dtype == torch.uint8 and actual.shape == expected.shape
    difference = (actual.cpu().int() - expected.int()).abs()
    assert difference.max() == 0, (difference.max(), difference.count_nonzero())


def assert_transformed_as_pillow(actual, picture):
    """The same bytes if there is float64. Otherwise numbers on the border between two values may be
    one off, and pixels on the image's border may be fill."""
    if actual.device.type == "cpu" or has_fp64(actual.device):
        return assert_as_pillow(actual, picture)
    difference = (actual.cpu().int() - to_tensor(picture).int()).abs()
    assert (difference > 1).sum() <= 1e-3 * difference.numel()
    assert difference.count_nonzero() <= 0.15 * difference.numel()


@pytest.fixture(scope="module")
def picture():
    return photograph()


def resampling(name):
    return getattr(Image.Resampling, name.upper())


# ---- compared with Pillow


@pytest.mark.parametrize(
    "box",
    [
        (10, 20, 90, 60),
        (-30, -40, 500, 20),
        (150, 190, 170, 300),
        (200, 300, 250, 310),
        (-9, -9, -1, -1),
        (5, 5, 5, 9),
        (0, 0, 160, 201),
    ],
)
def test_crop(picture, place, box):
    actual = image.crop(to_tensor(picture, place), box)
    assert_as_pillow(actual, picture.crop(box)) if actual.numel() else None
    assert actual.shape == (3, box[3] - box[1], box[2] - box[0])


@pytest.mark.parametrize("coord", [(10, 20), (-30, -15), (140, 190), (300, 0), (0, 0)])
def test_paste(picture, place, coord):
    patch = picture.crop((30, 40, 91, 80))
    expected = picture.copy()
    expected.paste(patch, coord)
    assert_as_pillow(
        image.paste(to_tensor(picture, place), to_tensor(patch, place), coord), expected
    )


def test_flip(picture, place):
    x = to_tensor(picture, place)
    assert_as_pillow(image.flip(x), ImageOps.mirror(picture))
    assert_as_pillow(image.flip(x, horizontal=False, vertical=True), ImageOps.flip(picture))
    assert_as_pillow(image.flip(x, True, True), picture.transpose(Image.Transpose.ROTATE_180))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("interpolation", ["nearest", "bilinear", "bicubic"])
def test_resize(picture, place, size, interpolation):
    if size == (7, 400) and interpolation != "nearest" and PILLOW < 13:
        pytest.skip("Pillow before 13 rounds differently where the height shrinks far more")
    actual = image.resize(to_tensor(picture, place), size, interpolation)
    assert_as_pillow(actual, picture.resize(size[::-1], resampling(interpolation)))


def test_resize_of_the_shorter_edge(picture, place):
    x = to_tensor(picture, place)
    assert image.resize(x, 80).shape == (3, 100, 80)
    assert image.resize(x.transpose(1, 2), 80).shape == (3, 80, 100)
    assert_as_pillow(image.resize(x, 80), picture.resize((80, 100)))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
def test_resize_without_antialias(picture, place, size, interpolation):
    x = to_tensor(picture).float() / 255
    expected = torch.nn.functional.interpolate(
        x[None], size, mode=interpolation, align_corners=False
    )[0]
    actual = image.resize(x.to(place), size, interpolation, antialias=False)
    torch.testing.assert_close(actual.cpu(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("interpolation", ["nearest", "bilinear", "bicubic"])
@pytest.mark.parametrize(
    "arguments",
    [
        {"angle": 30},
        {"angle": -75.5, "expand": True},
        {"angle": 200, "center": (10, 150), "fill": (255, 128, 7)},
        {"angle": 13, "translate": (20, -31)},
        {"angle": 90},
        {"angle": 90, "expand": True},
        {"angle": 180},
        {"angle": 270, "expand": True},
        {"angle": 720},
    ],
)
def test_rotate(picture, place, interpolation, arguments):
    named = dict(arguments)
    if "fill" in named:
        named["fillcolor"] = named.pop("fill")
    expected = picture.rotate(resample=resampling(interpolation), **named)
    actual = image.rotate(to_tensor(picture, place), interpolation=interpolation, **arguments)
    assert_transformed_as_pillow(actual, expected)


def test_paste_far_away(picture, place):
    x = to_tensor(picture, place)
    for number in (2**63 - 1, -(2**62)):
        for coord in ((number, 0), (0, number)):
            assert torch.equal(image.paste(x, x, coord), x)


@pytest.mark.parametrize("interpolation", ["nearest", "bilinear"])
def test_resize_beyond_all_tensors(picture, place, interpolation):
    with pytest.raises(ValueError, match=r"below 2\^31"):
        image.resize(to_tensor(picture, place), (2**62, 2), interpolation)


def test_rotate_far_away(picture, place):
    far = {"center": (1e308, 1e308), "translate": (1e308, 1e308)}
    with pytest.raises(ValueError, match="too far away for expand"):
        image.rotate(to_tensor(picture, place), 45, expand=True, **far)


def test_bytes_of_nan(picture):
    """Infinity times 0: each byte that comes of it is 0 on the CPU."""
    black = torch.zeros_like(to_tensor(picture))
    assert not image.adjust_saturation(black, 1e300).any()


@pytest.mark.parametrize("interpolation", ["nearest", "bilinear", "bicubic"])
@pytest.mark.parametrize("matrix", MATRICES)
@pytest.mark.parametrize("size", [None, (90, 233)])
def test_affine(picture, place, interpolation, matrix, size):
    numbers = MATRICES[matrix]
    actual = image.affine(to_tensor(picture, place), numbers, size, interpolation, fill=9)
    expected = picture.transform(
        size[::-1] if size else picture.size,
        Image.Transform.AFFINE,
        numbers,
        resampling(interpolation),
        fillcolor=(9, 9, 9),
    )
    assert_transformed_as_pillow(actual, expected)


@pytest.mark.parametrize("radius", [2, 0.4, 7.3, 40, (3, 0), (0, 5)])
def test_gaussian_blur(picture, place, radius):
    expected = picture.filter(ImageFilter.GaussianBlur(radius))
    assert_as_pillow(image.gaussian_blur(to_tensor(picture, place), radius), expected)


def test_gaussian_blur_with_a_radius_above_the_size(place):
    small = photograph(9, 5)
    actual = image.gaussian_blur(to_tensor(small, place), 30)
    assert_as_pillow(actual, small.filter(ImageFilter.GaussianBlur(30)))


def test_gaussian_blur_comes_close_to_a_gaussian(place):
    spot = torch.zeros(1, 101, 101)
    spot[0, 50, 50] = 1
    blurred = image.gaussian_blur(spot.to(place), 6).cpu()[0]
    distance = torch.arange(101) - 50.0
    expected = torch.exp(-(distance**2) / (2 * 6**2)) / math.sqrt(2 * math.pi * 6**2)
    torch.testing.assert_close(blurred, expected[:, None] * expected, rtol=0, atol=6e-4)
    variance = (blurred.sum(0) * distance**2).sum().item()
    assert variance == pytest.approx(36, rel=1e-5)
    assert blurred.sum().item() == pytest.approx(1, abs=1e-4)


ENHANCERS = {
    "brightness": (image.adjust_brightness, ImageEnhance.Brightness),
    "contrast": (image.adjust_contrast, ImageEnhance.Contrast),
    "saturation": (image.adjust_saturation, ImageEnhance.Color),
}


@pytest.mark.parametrize("factor", [0, 0.37, 1, 1.8])
@pytest.mark.parametrize("mode", ["RGB", "L", "RGBA", "LA"])
@pytest.mark.parametrize("name", ENHANCERS)
def test_enhance(picture, place, name, mode, factor):
    operator, enhancer = ENHANCERS[name]
    converted = picture.convert(mode)
    if mode.endswith("A"):
        converted.putalpha(picture.convert("L").transpose(Image.Transpose.FLIP_TOP_BOTTOM))
    expected = enhancer(converted).enhance(factor)
    assert_as_pillow(operator(to_tensor(converted, place), factor), expected)


@pytest.mark.parametrize("factor", [0, 0.2, -0.3, 0.5])
def test_hue(picture, place, factor):
    hsv = numpy.array(picture.convert("HSV"))
    hsv[..., 0] += numpy.uint8(int(factor * 255) % 256)
    expected = Image.fromarray(hsv, "HSV").convert("RGB")
    exact = place == "cpu" or has_fp64("ocl:0")
    x = to_tensor(picture, place)
    if exact:
        assert_as_pillow(image.adjust_hue(x, factor), expected)
    else:  # the hue may be one of 256 steps off
        difference = image.adjust_hue(x, factor).cpu().int() - to_tensor(expected).int()
        assert difference.abs().max() <= 6 and difference.count_nonzero() < 1e-2 * x.numel()


def test_every_color_turns_as_in_pillow(place):
    """All hues and saturations: ties of the rounding, too."""
    steps = torch.arange(0, 256, 5, dtype=torch.uint8)
    colors = torch.cartesian_prod(steps, steps, steps).T.reshape(3, 52, 2704).contiguous()
    picture = Image.fromarray(colors.permute(1, 2, 0).numpy())
    hsv = numpy.array(picture.convert("HSV"))
    hsv[..., 0] += numpy.uint8(25)
    if place == "ocl" and not has_fp64("ocl:0"):
        pytest.skip("without float64 a hue may be one step off")
    actual = image.adjust_hue(colors.to(place), 0.1)
    assert_as_pillow(actual, Image.fromarray(hsv, "HSV").convert("RGB"))


# ---- floating point, gradients


@pytest.mark.parametrize("shape", [(3, 7, 6), (2, 3, 5, 6)])
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradcheck(place, name, shape):
    if place == "ocl" and not has_fp64("ocl:0"):
        pytest.skip("gradcheck needs float64")
    x = torch.rand(shape, dtype=torch.float64).to(place).requires_grad_()
    assert torch.autograd.gradcheck(DIFFERENTIABLE[name], x)


ON_BYTES = {
    "resize": lambda x: image.resize(x, (9, 30)),
    "resize_plain": lambda x: image.resize(x, (40, 12), "bilinear", antialias=False),
    "nearest": lambda x: image.resize(x, (40, 12), "nearest"),
    "rotate": lambda x: image.rotate(x, 20, fill=7),
    "rotate_bilinear": lambda x: image.rotate(x, 20, "bilinear"),
    "rotate_bicubic": lambda x: image.rotate(x, 20, "bicubic", fill=(1, 2, 3)),
    "gaussian_blur": lambda x: image.gaussian_blur(x, 1.5),
    "brightness": lambda x: image.adjust_brightness(x, 1.3),
    "contrast": lambda x: image.adjust_contrast(x, 1.3),
    "saturation": lambda x: image.adjust_saturation(x, 1.3),
    "hue": lambda x: image.adjust_hue(x, 0.2),
    "normalize": lambda x: image.normalize(x, 0.4, 0.3),
    "paste": lambda x: image.paste(x, image.flip(image.crop(x, (-1, 2, 8, 9))), (3, 4)),
}


@pytest.mark.sample
@pytest.mark.parametrize("name", ON_BYTES)
def test_bytes_as_on_the_cpu(operator_device, name):
    x = to_tensor(photograph(21, 33))
    expected, actual = ON_BYTES[name](x), ON_BYTES[name](x.to(operator_device)).cpu()
    if has_fp64(operator_device) or not name.startswith(("rotate_", "hue")):
        assert torch.equal(actual, expected)
    else:  # a step of the hue, or a hair's breadth, off
        wrong = ((actual.int() - expected.int()).abs() > 6).sum()
        assert wrong <= 0.01 * expected.numel()


@pytest.mark.sample
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_types_and_gradients_as_on_the_cpu(operator_device, name, dtype):
    if dtype == torch.float64 and not has_fp64(operator_device):
        pytest.skip("the device has no float64")
    x = torch.rand(2, 3, 17, 37, dtype=dtype)
    here, there = x.clone().requires_grad_(), x.to(operator_device).requires_grad_()
    expected, actual = (DIFFERENTIABLE[name](tensor) for tensor in (here, there))
    grad = torch.rand(expected.shape, dtype=dtype)
    expected.backward(grad)
    actual.backward(grad.to(operator_device))
    tolerance = {torch.float16: 2e-3, torch.bfloat16: 2e-2}.get(dtype, 2e-5)
    assert actual.device == torch.device(operator_device)
    torch.testing.assert_close(actual.detach().cpu(), expected.detach(), atol=tolerance, rtol=1e-2)
    torch.testing.assert_close(there.grad.cpu(), here.grad, atol=4 * tolerance, rtol=1e-2)


@pytest.mark.parametrize(
    "matrix, size, out",
    [
        ((0.70711, 0, 0.3, 0, 0.70711, 0.1), (700, 700), (1000, 1000)),
        ((1.3, 0, -9, 0, -0.4, 30), (40, 33), (50, 60)),
        ((1, 0, 500, 0, 1, 0), (9, 9), (9, 9)),
        ((0, 0, 3, 0, 0, 4), (9, 9), (5, 6)),
        # A large enlargement: positions are rounded to 2^-16.
        (tuple(n / 65536 for n in (489.49, 151.49, 0, -151.49, 489.49, 0)), (16, 16), (2048, 2048)),
    ],
    ids=["scaled", "mirrored", "outside", "a point", "enlarged"],
)
def test_the_nearest_pixels_get_the_gradient(place, matrix, size, out):
    """The gradient is the transpose of what was computed. The sums of whole numbers are exact."""
    x = torch.randint(1, 9, (1, *size)).float().to(place).requires_grad_()
    y = image.affine(x, matrix, out)
    weights = torch.randint(0, 3, y.shape).float().to(place)
    grad = torch.autograd.grad(y, x, weights)[0]
    assert grad.double().cpu().mul(x.cpu()).sum() == weights.cpu().double().mul(y.cpu()).sum()
    if y.any():
        assert grad.any()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("fill", [65510.0, 1e6, -1e39, 1e300, (1e6, 0, 1), float("inf")], ids=str)
def test_fill_beyond_the_type(operator_device, dtype, fill):
    x = torch.rand(3, 6, 7).to(dtype)
    for matrix in ((1, 0.2, 0.3, 0.1, 0.9, 5.2), (1, 0, 3, 0, 1, 0)):
        actual = image.affine(x.to(operator_device), matrix, fill=fill)
        assert torch.equal(actual.cpu(), image.affine(x, matrix, fill=fill))


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
def test_positions_beyond_all_numbers_are_outside(place, interpolation):
    if place == "ocl" and not has_fp64("ocl:0"):
        pytest.skip("without fp64, positions are numbers of 32.32 bits, which end before these")
    x = torch.rand(3, 6, 7).to(place)
    actual = image.affine(x, (1e39, 0, 0, 0, 1e300, 0), None, interpolation, fill=7)
    assert actual.eq(7).all()


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_second_derivatives_are_right_or_refused(place, name):
    x = torch.rand(3, 9, 8).to(place).requires_grad_()

    def gradient(x):
        return torch.autograd.grad(DIFFERENTIABLE[name](x).square().sum(), x, create_graph=True)[0]

    first = gradient(x)
    try:
        second = torch.autograd.grad(first.sum(), x)[0]
    except RuntimeError as error:
        assert "is not implemented" in str(error)
        return
    step, direction = 1e-2, torch.rand(x.shape).to(place)
    upper = gradient((x + step * direction).detach().requires_grad_())
    lower = gradient((x - step * direction).detach().requires_grad_())
    expected = (upper - lower).sum() / (2 * step)
    torch.testing.assert_close((second * direction).sum(), expected, rtol=1e-2, atol=1e-2)


FORMS = {
    "one": lambda x: x,
    "batch": lambda x: x.expand(2, 3, *x.shape[-2:]).flip(0).contiguous(),
    "nested batch": lambda x: x.expand(2, 2, 3, *x.shape[-2:]).contiguous(),
    "channels last": lambda x: x[None].contiguous(memory_format=torch.channels_last),
    "every other column": lambda x: x[..., ::2],
    "a view with an offset": lambda x: x[:, 3:, 5:],
    "transposed": lambda x: x.transpose(-1, -2),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", OPERATORS)
def test_batches_and_strides(place, picture, name, form):
    """Each image of a batch, however it lies in memory, gets what it gets alone."""
    x = FORMS[form](to_tensor(picture.crop((0, 0, 40, 32)), place).float() / 255)
    result = OPERATORS[name](x)
    assert result.is_contiguous()
    images = x.reshape(-1, *x.shape[-3:])
    alone = torch.stack([OPERATORS[name](each.clone()) for each in images])
    # Sums of another grouping differ in their last bits.
    torch.testing.assert_close(result.reshape(alone.shape), alone, atol=2e-6, rtol=1e-5)
