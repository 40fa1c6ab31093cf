"""The image operators against Pillow on a photograph, their gradients, types and layouts."""

import math

import numpy
import pytest
import torch
from PIL import Image, ImageEnhance, ImageFilter, ImageOps
from sklearn.datasets import load_sample_image
from support import FLOATS, has_fp64

from torch_ocl import image
from torch_ocl.image import describe, description

SIZES = [(50, 77), (300, 250), (201, 160), (7, 400)]  # of a 201 x 160 photograph
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


def assert_as_pillow(actual, picture):
    """The same bytes."""
    expected = to_tensor(picture)
    assert actual.dtype == torch.uint8 and actual.shape == expected.shape
    difference = (actual.cpu().int() - expected.int()).abs()
    assert difference.max() == 0, (difference.max(), difference.count_nonzero())


def assert_transformed_as_pillow(actual, picture):
    """The same bytes where there is float64; else, what lies on the border between two values may
    be one off, and what lies on that of the image may be fill."""
    if actual.device.type == "cpu" or has_fp64(actual.device):
        return assert_as_pillow(actual, picture)
    difference = (actual.cpu().int() - to_tensor(picture).int()).abs()
    assert (difference > 1).sum() <= 1e-3 * difference.numel()
    assert difference.count_nonzero() <= 0.15 * difference.numel()


@pytest.fixture(params=["ocl", "cpu"])
def place(request):
    """Each device of ocl's default, and the CPU: the operators run there, too."""
    if request.param == "ocl" and not torch.ocl.is_available():
        pytest.skip("no OpenCL device is visible")
    return request.param


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
@pytest.mark.sample
def test_crop(picture, place, box):
    actual = image.crop(to_tensor(picture, place), box)
    assert_as_pillow(actual, picture.crop(box)) if actual.numel() else None
    assert actual.shape == (3, box[3] - box[1], box[2] - box[0])


@pytest.mark.parametrize("coord", [(10, 20), (-30, -15), (140, 190), (300, 0), (0, 0)])
@pytest.mark.sample
def test_paste(picture, place, coord):
    patch = picture.crop((30, 40, 91, 80))
    expected = picture.copy()
    expected.paste(patch, coord)
    assert_as_pillow(
        image.paste(to_tensor(picture, place), to_tensor(patch, place), coord), expected
    )


@pytest.mark.sample
def test_flip(picture, place):
    x = to_tensor(picture, place)
    assert_as_pillow(image.flip(x), ImageOps.mirror(picture))
    assert_as_pillow(image.flip(x, horizontal=False, vertical=True), ImageOps.flip(picture))
    assert_as_pillow(image.flip(x, True, True), picture.transpose(Image.Transpose.ROTATE_180))


@pytest.mark.sample
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("interpolation", ["nearest", "bilinear", "bicubic"])
def test_resize(picture, place, size, interpolation):
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


@pytest.mark.sample
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


@pytest.mark.sample
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


@pytest.mark.sample
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


@pytest.mark.sample
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


@pytest.mark.sample
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


@pytest.mark.parametrize("shape", [(3, 7, 6), (2, 3, 5, 6)])
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradcheck(place, name, shape):
    if place == "ocl" and not has_fp64("ocl:0"):
        pytest.skip("gradcheck needs float64")
    x = torch.rand(shape, dtype=torch.float64).to(place).requires_grad_()
    assert torch.autograd.gradcheck(DIFFERENTIABLE[name], x)


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


FORMS = {
    "one": lambda x: x,
    "batch": lambda x: x.expand(2, 3, *x.shape[-2:]).flip(0).contiguous(),
    "nested batch": lambda x: x.expand(2, 2, 3, *x.shape[-2:]).contiguous(),
    "channels last": lambda x: x[None].contiguous(memory_format=torch.channels_last),
    "every other column": lambda x: x[..., ::2],
    "a view with an offset": lambda x: x[:, 3:, 5:],
    "transposed": lambda x: x.transpose(-1, -2),
}
OPERATORS = {
    **{k: v for k, v in DIFFERENTIABLE.items() if not k.startswith("paste")},
    "bytes": lambda x: image.gaussian_blur(image.resize((x * 255).byte(), (20, 31)), 1),
    "bytes_hue": lambda x: image.adjust_hue((x * 255).byte(), 0.2),
    "bytes_contrast": lambda x: image.adjust_contrast((x * 255).byte(), 1.2),
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


# ---- descriptions

SAID = {"color_space": "sRGB", "channel_order": "RGB", "value_range": (0.0, 1.0)}


@pytest.mark.parametrize("name", OPERATORS)
def test_descriptions_are_passed_on(device, name):
    if name.startswith("bytes"):
        pytest.skip("makes another tensor first")
    x = describe(torch.rand(3, 20, 20, device=device), **SAID)
    found = description(OPERATORS[name](x))
    assert (found.color_space, found.channel_order) == ("sRGB", "RGB")
    assert found.value_range == (None if name == "normalize" else (0.0, 1.0))


@pytest.mark.parametrize("name", ["contrast", "saturation", "hue"])
def test_channel_order_is_honoured(device, name):
    x = torch.rand(3, 9, 9, device=device)
    expected = OPERATORS[name](x)
    swapped = describe(x.flip(0), channel_order="BGR")
    torch.testing.assert_close(OPERATORS[name](swapped).flip(0), expected)


def test_value_range_is_honoured(device):
    x = torch.rand(3, 9, 9, device=device)
    wide = describe(x * 255, value_range=(0, 255))
    for operator in (image.adjust_brightness, image.adjust_contrast, image.adjust_saturation):
        torch.testing.assert_close(operator(wide, 1.7) / 255, operator(x, 1.7))
    mean, std = [0.5, 0.4, 0.3], [0.2, 0.2, 0.1]
    torch.testing.assert_close(image.normalize(wide, mean, std), image.normalize(x, mean, std))
    centred = describe(x * 2 - 1, value_range=(-1, 1))
    torch.testing.assert_close(
        (image.adjust_brightness(centred, 0.5) + 1) / 2, image.adjust_brightness(x, 0.5)
    )


def test_the_gradient_honours_the_description(device):
    if not has_fp64(device):
        pytest.skip("gradcheck needs float64")
    x = torch.rand(4, 5, 6, dtype=torch.float64, device=device) * 10
    describe(x, channel_order="BGRA", value_range=(1, 9)).requires_grad_()
    for name in ("brightness", "contrast", "saturation", "hue"):
        assert torch.autograd.gradcheck(DIFFERENTIABLE[name], x), name
    assert torch.autograd.gradcheck(lambda x: image.normalize(x, 0.5, 0.25), x)


def test_linear_light_has_another_luminance(device):
    x = torch.rand(3, 9, 9)
    weights = torch.tensor([0.2126, 0.7152, 0.0722])[:, None, None]
    linear = describe(x.to(device), color_space="linear")
    gray = image.adjust_saturation(linear, 0).cpu()
    torch.testing.assert_close(gray, (x * weights).sum(0).expand(3, 9, 9), atol=1e-4, rtol=0)


def test_other_color_spaces_have_no_hue(device):
    x = describe(torch.rand(3, 9, 9, device=device), color_space="YCbCr", channel_order="YCbCr")
    with pytest.raises(ValueError, match=r"adjust_hue: expected a gray or RGB image.*'YCbCr'"):
        image.adjust_hue(x, 0.1)
    with pytest.raises(ValueError, match=r"paste: the color spaces .* 'YCbCr' and 'sRGB'"):
        image.paste(x, describe(torch.rand(3, 2, 2, device=device), color_space="sRGB"), (0, 0))


# ---- errors

X = torch.zeros(3, 8, 9)
WRONG = {
    "a box of three": (lambda x: image.crop(x, (1, 2, 3)), ValueError, "box has 3 numbers"),
    "a box turned": (lambda x: image.crop(x, (5, 2, 3, 4)), ValueError, "right, 3, .* left, 5"),
    "two dimensions": (
        lambda x: image.resize(x[0], (2, 2)),
        ValueError,
        r"channels, height, width",
    ),
    "size 0": (lambda x: image.resize(x, (0, 2)), ValueError, r"size is \[0, 2\]"),
    "filter": (lambda x: image.resize(x, 4, "lanczos"), ValueError, "'lanczos', but must be"),
    "type": (lambda x: image.gaussian_blur(x.int()), TypeError, "the tensor is Int"),
    "radius": (lambda x: image.gaussian_blur(x, -1), ValueError, "radius is -1"),
    "matrix": (lambda x: image.affine(x, [1, 2]), ValueError, "matrix has 2 numbers"),
    "fill": (lambda x: image.rotate(x, 5, fill=[1, 2]), ValueError, "fill has 2 numbers.* 3 ch"),
    "mean": (lambda x: image.normalize(x, [1, 2], 1), ValueError, "mean has 2 numbers"),
    "std": (lambda x: image.normalize(x, 0, 0), ValueError, "std holds a zero"),
    "hue": (lambda x: image.adjust_hue(x, 0.6), ValueError, "factor is 0.6"),
    "channels": (
        lambda x: image.adjust_saturation(x.expand(5, 3, 8, 9).transpose(0, 1), 2),
        ValueError,
        "expected a gray or RGB image",
    ),
    "paste of types": (lambda x: image.paste(x, x.half(), (0, 0)), TypeError, "Float and Half"),
    "paste of shapes": (lambda x: image.paste(x, x[:2], (0, 0)), ValueError, "shapes are"),
    "paste across devices": (lambda x: image.paste(x, X, (0, 0)), RuntimeError, "same device"),
}


@pytest.mark.parametrize("what", WRONG)
def test_errors(device, what):
    call, error, message = WRONG[what]
    with pytest.raises(error, match=message):
        call(X.to(device))


# ---- under autocast and torch.compile


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_autocast_keeps_the_type(device, name, dtype):
    x = torch.rand(3, 20, 20, device=device, dtype=dtype)
    expected = OPERATORS[name](x)
    with torch.autocast("ocl", dtype=torch.float16):
        actual = OPERATORS[name](x)
    assert actual.dtype == expected.dtype
    assert torch.equal(actual, expected)


def test_paste_promotes_under_autocast(device):
    im1, im2 = torch.rand(3, 5, 5, device=device).half(), torch.rand(3, 2, 2, device=device)
    with torch.autocast("ocl", dtype=torch.float16):
        assert image.paste(im1, im2, (1, 1)).dtype == torch.float32
        assert image.paste(im1, im1[:, :2], (1, 1)).dtype == torch.float16


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_opcheck(place, name):
    """torch.library.opcheck of each operator that the function calls."""
    calls = []

    class Record(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            if function.namespace == "torch_ocl" and not function.__name__.startswith("_"):
                calls.append((function, args, kwargs or {}))
            return function(*args, **(kwargs or {}))

    with Record():
        DIFFERENTIABLE[name](torch.rand(3, 12, 11, device=place))
    tests = ["test_schema", "test_faketensor", "test_aot_dispatch_dynamic"]
    if place == "cpu":  # opcheck knows the keys of CPU, CUDA and XPU only
        tests.append("test_autograd_registration")
    for function, args, kwargs in calls:
        args = [
            x.detach().clone().requires_grad_() if isinstance(x, torch.Tensor) else x for x in args
        ]
        torch.library.opcheck(function, tuple(args), kwargs, test_utils=tests)
    assert calls or name == "rotate_quarter"


class Transform(torch.nn.Module):
    """One step of a pipeline, as torchvision.transforms.v2 has them."""

    def __init__(self, operator, *arguments):
        super().__init__()
        self.operator, self.arguments = operator, arguments

    def forward(self, x):
        return self.operator(x, *self.arguments)


def pipeline():
    return torch.nn.Sequential(
        Transform(image.resize, 40),
        Transform(image.crop, (4, 2, 36, 38)),
        Transform(image.flip),
        Transform(image.rotate, 10, "bilinear"),
        Transform(image.adjust_brightness, 1.1),
        Transform(image.adjust_contrast, 0.9),
        Transform(image.adjust_saturation, 1.2),
        Transform(image.adjust_hue, -0.1),
        Transform(image.gaussian_blur, 0.7),
        Transform(image.normalize, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    )


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_pipeline(picture, place, dtype):
    x = to_tensor(picture, place)
    x = x if dtype == torch.uint8 else x / 255
    batch = torch.stack([x, image.flip(x)])
    result = pipeline()(batch)
    assert result.shape == (2, 3, 36, 32) and result.dtype == torch.float32
    reference = pipeline()(batch.cpu())
    torch.testing.assert_close(result.cpu(), reference, atol=2e-3, rtol=1e-3)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_pipeline_under_compile(device, backend, dynamic):
    """One graph, the same numbers and gradients; another size when shapes may change."""
    torch.compiler.reset()
    compiled = torch.compile(pipeline(), fullgraph=True, backend=backend, dynamic=dynamic)
    for size in [(50, 60), (70, 64)] if dynamic else [(50, 60)]:
        x = torch.rand(2, 3, *size, device=device)
        expected_of, actual_of = x.clone().requires_grad_(), x.clone().requires_grad_()
        expected, actual = pipeline()(expected_of), compiled(actual_of)
        torch.testing.assert_close(actual, expected)
        expected.square().sum().backward()
        actual.square().sum().backward()
        torch.testing.assert_close(actual_of.grad, expected_of.grad)


@pytest.mark.parametrize("name", OPERATORS)
def test_each_operator_under_compile(device, name):
    torch.compiler.reset()
    x = torch.rand(3, 20, 20, device=device)
    compiled = torch.compile(OPERATORS[name], fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), OPERATORS[name](x))


def test_paste_under_compile_takes_part_in_a_graph(device):
    torch.compiler.reset()

    def mix(a, b):
        return image.paste(a * 2, image.crop(b, (0, 0, 4, 4)) + 1, (2, 3)).sum()

    a = torch.rand(2, 3, 9, 9, device=device, requires_grad=True)
    b = torch.rand(2, 3, 9, 9, device=device, requires_grad=True)
    expected = torch.autograd.grad(mix(a, b), (a, b))
    actual = torch.autograd.grad(torch.compile(mix, fullgraph=True)(a, b), (a, b))
    for one, other in zip(actual, expected, strict=True):
        assert torch.equal(one, other)
