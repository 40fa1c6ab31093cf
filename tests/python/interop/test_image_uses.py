"""The image operators with descriptions, wrong arguments, autocast, pipelines and torch.compile."""

import math

import pytest
import torch
from graph_support import capture
from image_cases import DIFFERENTIABLE, OPERATORS, photograph, to_tensor
from support import has_fp64

from torch_ocl import image
from torch_ocl.image import describe, description


@pytest.fixture(scope="module")
def picture():
    return photograph()


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


@pytest.mark.parametrize("name", ["normalize", "brightness", "contrast", "saturation", "hue"])
def test_the_gradient_honours_the_description_of_a_saved_image(device, name):
    """Hooks that save the image on the CPU lose its description."""
    numbers = torch.rand(4, 5, 6, device=device) * 255

    def gradient():
        x = describe(numbers.clone(), channel_order="BGRA", value_range=(0, 255)).requires_grad_()
        operator = {
            **DIFFERENTIABLE,
            "normalize": lambda x: image.normalize(x, 0.0, 1.0),
        }[name]
        return x, operator(x)

    x, y = gradient()
    weights = torch.rand(y.shape, device=device)
    expected = torch.autograd.grad(y, x, weights)[0]
    with torch.autograd.graph.save_on_cpu():
        x, y = gradient()
    assert torch.equal(torch.autograd.grad(y, x, weights)[0], expected)
    x, y = gradient()
    describe(x)  # after the image was used
    assert torch.equal(torch.autograd.grad(y, x, weights)[0], expected)


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
    "an empty image": (lambda x: image.resize(x[:, :0], 4), ValueError, "the image is empty"),
    "an empty row": (lambda x: image.resize(x[..., :0], 4), ValueError, "the image is empty"),
    "size 0": (lambda x: image.resize(x, (0, 2)), ValueError, r"size is \[0, 2\]"),
    "filter": (lambda x: image.resize(x, 4, "lanczos"), ValueError, "'lanczos', but must be"),
    "type": (lambda x: image.gaussian_blur(x.int()), TypeError, "the tensor is Int"),
    "radius": (lambda x: image.gaussian_blur(x, -1), ValueError, "radius is -1"),
    "radius inf": (lambda x: image.gaussian_blur(x, math.inf), ValueError, "radius is inf"),
    "angle": (lambda x: image.rotate(x, math.nan), ValueError, "angle is nan, but must be finite"),
    "center": (
        lambda x: image.rotate(x, 9, center=(1, math.inf)),
        ValueError,
        "center is inf, but must be finite",
    ),
    "matrix of nan": (
        lambda x: image.affine(x, [1, 0, math.nan, 0, 1, 0]),
        ValueError,
        "matrix holds nan",
    ),
    "fill of bytes": (
        lambda x: image.rotate(x.byte(), 5, fill=300),
        ValueError,
        "fill is 300, but uint8 holds 0 to 255",
    ),
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
    for place in (device, "cpu"):
        if (what, place) == ("paste across devices", "cpu"):
            continue
        with pytest.raises(error, match=message):
            call(X.to(place))


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
    # Without float64, a rotated uint8 pixel may be a grey level off; what follows makes it two.
    coarse = place == "ocl" and dtype == torch.uint8 and not has_fp64(0)
    torch.testing.assert_close(result.cpu(), reference, atol=0.05 if coarse else 2e-3, rtol=1e-3)


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


NOT_CONTIGUOUS = {
    "transposed gray": lambda x: x[:, :1].transpose(-1, -2),
    "channels last": lambda x: x.contiguous(memory_format=torch.channels_last),
    "empty": lambda x: x.transpose(-1, -2)[:, :, :0],
}


@pytest.mark.parametrize("form", NOT_CONTIGUOUS)
@pytest.mark.parametrize("name", ["brightness", "contrast", "saturation", "hue", "gaussian_blur"])
def test_strides_under_compile(device, name, form):
    """The compiler relies on the strides that it was told: of results and of gradients."""
    torch.compiler.reset()
    x = NOT_CONTIGUOUS[form](torch.rand(2, 3, 8, 10, device=device))

    def twice(x):
        x = DIFFERENTIABLE[name](x)
        return x.view(-1).sum() if form != "empty" else x.view(-1)

    expected_of, actual_of = x.clone().requires_grad_(), x.clone().requires_grad_()
    expected, actual = twice(expected_of), torch.compile(twice, fullgraph=True)(actual_of)
    torch.testing.assert_close(actual, expected)
    expected.sum().backward()
    actual.sum().backward()
    torch.testing.assert_close(actual_of.grad, expected_of.grad)


@pytest.mark.parametrize("warm_up", [False, True])
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_capture(device, name, warm_up):
    """Tables are made during the capture where the warm-up, on another stream, made none."""
    x = torch.rand(3, 31, 37 if warm_up else 38, device=device)
    given = x.clone()
    graph, y = capture(lambda: DIFFERENTIABLE[name](given), warm_up=warm_up)
    given.copy_(x.flip(0))
    graph.replay()
    assert torch.equal(y, DIFFERENTIABLE[name](x.flip(0)))


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


@pytest.mark.parametrize("name", [name for name in OPERATORS if name in DIFFERENTIABLE])
def test_transforms_of_functions(device, name):
    """vmap takes the samples one by one; derivatives of C++ are an error, for every device."""
    x, function = torch.rand(2, 3, 8, 8, device=device), OPERATORS[name]
    torch.testing.assert_close(torch.vmap(function)(x), torch.stack([function(t) for t in x]))
    if name == "rotate_quarter":  # a composition of PyTorch's operators
        return
    with pytest.raises(RuntimeError, match="functorch transforms"):
        torch.func.grad(lambda t: function(t).sum())(x)
