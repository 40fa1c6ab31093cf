"""torchvision's operators on ocl, which need no torchvision (kernels/vision)."""

import pytest
import torch
import vision_formulas as formulas
from support import FLOATS, HALVES, TOLERANCE, assert_same
from vision_formulas import OPS, random, random_boxes, random_rois

ROI_ALIGN = {
    "whole": (0.5, 3, 2, 2, False),
    "aligned": (0.5, 3, 2, 0, True),
    "as many as pixels": (1.0, 1, 4, -1, False),
}
# (operator, gradient, what follows rois, what the gradient has after the sizes of the input)
ROI = {
    **{
        f"roi_align {name}": ("roi_align", "_roi_align_backward", case[:3], case[3:])
        for name, case in ROI_ALIGN.items()
    },
    "ps_roi_align": ("ps_roi_align", "_ps_roi_align_backward", (0.5, 3, 2), (2,)),
    "ps_roi_align as many": ("ps_roi_align", "_ps_roi_align_backward", (1.0, 3, 2), (0,)),
    "roi_pool": ("roi_pool", "_roi_pool_backward", (0.5, 3, 2), ()),
    "roi_pool larger": ("roi_pool", "_roi_pool_backward", (2.0, 2, 5), ()),
    "ps_roi_pool": ("ps_roi_pool", "_ps_roi_pool_backward", (0.5, 3, 2), ()),
}
# stride, padding and dilation by rows and columns, groups, groups of offsets, whether with a mask
DEFORM = {
    "plain": (1, 1, 0, 0, 1, 1, 1, 1, False),
    "mask": (1, 1, 1, 1, 1, 1, 1, 1, True),
    "groups": (2, 1, 1, 2, 1, 2, 2, 2, True),
    "groups of offsets": (1, 2, 2, 0, 2, 1, 1, 4, False),
}


def in_types(cases, *few):
    """(name, type): float32, and bfloat16 of these few; the others are slow to compile."""
    return [
        pytest.param(name, dtype, marks=() if quick else pytest.mark.slow)
        for name in cases
        for dtype in FLOATS
        for quick in [dtype == torch.float32 or (dtype == torch.bfloat16 and name in few)]
    ]


def convert(dtype, device, *tensors):
    """The tensors on the device, and the same numbers in float64 on the CPU, as leaves."""
    moved = [x.to(dtype).to(device) for x in tensors]
    return moved, [x.cpu().double().requires_grad_() for x in moved]


def assert_near(actual, expected, like):
    """Within the error of one rounding to the type of the first operand, and of float32 sums."""
    assert actual.dtype == like.dtype and actual.device == like.device
    near = TOLERANCE[like.dtype]
    torch.testing.assert_close(actual.cpu().double(), expected.detach(), rtol=near, atol=near)


def roi_operands(size=(20, 30), channels=12, images=3, count=9):
    """Images, and boxes of the last test cases' scale in them and outside."""
    rois = random_rois(count, images, torch.tensor(size[::-1], dtype=torch.float64))
    return random(images, channels, *size), rois


def forward(name, x, rois):
    """(result, second result or None)"""
    operator, _, numbers, more = ROI[name]
    result = getattr(OPS, operator)(x, rois, *numbers, *more)
    return result if isinstance(result, tuple) else (result, None)


def backward(name, grad, rois, second, sizes):
    operator, gradient, numbers, more = ROI[name]
    seconds = [] if second is None else [second]
    after = (*more, *sizes) if operator == "ps_roi_align" else (*sizes, *more)
    return getattr(OPS, gradient)(grad, rois, *seconds, *numbers, *after)


@pytest.mark.parametrize(
    "name, dtype", in_types(ROI, "roi_align aligned", "ps_roi_align", "roi_pool", "ps_roi_pool")
)
def test_regions(device, name, dtype):
    (x, rois), (images, boxes) = convert(dtype, device, *roi_operands())
    result, second = forward(name, x, rois)
    operator, _, numbers, more = ROI[name]
    expected = getattr(formulas, operator)(images, boxes.detach(), *numbers, *more)
    assert_near(result, expected, x)

    (grad,), (like,) = convert(dtype, device, random(*expected.shape, seed=3))
    (wanted,) = torch.autograd.grad(expected, images, like)
    if operator != "ps_roi_pool":
        assert_near(backward(name, grad, rois, second, x.shape), wanted, x)


def test_gradient_of_ps_roi_pool(device):
    """The mean leaves out the last row and column of the image. Its gradient does not, and is what
    torchvision has on the CPU and CUDA."""
    rois = torch.tensor([[0, 0, 0, 4, 4.0]])
    x, grad = torch.ones(1, 4, 4, 4), torch.ones(1, 1, 2, 2)
    result, second = OPS.ps_roi_pool(x.to(device), rois.to(device), 1.0, 2, 2)
    assert result.tolist() == [[[[1, 1], [1, 1]]]]
    numbers = (1.0, 2, 2, 1, 4, 4, 4)
    got = OPS._ps_roi_pool_backward(grad.to(device), rois.to(device), second, *numbers)
    quarters = torch.zeros(1, 4, 4, 4)
    quarters[0, 0, :2, :2] = quarters[0, 1, :2, 2:] = 0.25
    quarters[0, 2, 2:, :2] = quarters[0, 3, 2:, 2:] = 0.25
    assert_same(got, quarters)


@pytest.mark.parametrize("name", ROI)
def test_layouts_of_regions(device, name):
    x, rois = (t.float().to(device) for t in roi_operands())
    expected, second = forward(name, x, rois)
    grad = random(*expected.shape).float().to(device)
    gradient = backward(name, grad, rois, second, x.shape)
    last = x.to(memory_format=torch.channels_last)
    strided = x.repeat_interleave(2, 3)[..., ::2]
    boxes = rois.t().contiguous().t()
    for other in (last, strided):
        result, second = forward(name, other, boxes)
        assert torch.equal(result, expected)
        turned = grad.transpose(2, 3).contiguous().transpose(2, 3)
        if second is not None:
            second = second.transpose(0, 1).contiguous().transpose(0, 1)
        got = backward(name, turned, boxes, second, x.shape)
        torch.testing.assert_close(got, gradient, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ROI)
def test_empty_regions(device, name):
    for images, channels, count in ((2, 12, 0), (2, 0, 3), (0, 12, 0)):
        x = torch.ones(images, channels, 5, 5, device=device)
        rois = torch.zeros(count, 5, device=device)
        result, second = forward(name, x, rois)
        assert result.numel() == 0 and result.shape[0] == count
        gradient = backward(name, result, rois, second, x.shape)
        assert gradient.shape == x.shape and not gradient.any()


@pytest.mark.parametrize("name", ROI)
def test_unusual_boxes(device, name):
    """Far outside nothing is read; no area, turned round, infinite and NaN end well, too."""
    x = torch.ones(1, 12, 6, 6)
    far, inf, nan = 1e6, float("inf"), float("nan")
    rows = [[far, far, far + 5, far + 5], [-far, -far, 5 - far, 5 - far], [2, 2, 2, 2]]
    rows += [
        [5, 5, 1, 1],
        [nan] * 4,
        [-inf, -inf, inf, inf],
        [0, 0, inf, 2],
        [-far, -far, far, far],
    ]
    rois = torch.tensor([[0, *row] for row in rows], device=device)
    result, second = forward(name, x.to(device), rois)
    torch.ocl.synchronize(device)
    assert not result[:2].any()
    gradient = backward(name, torch.ones_like(result), rois, second, x.shape)
    assert gradient.shape == x.shape
    torch.ocl.synchronize(device)


@pytest.mark.parametrize("number", [2, -1, float("nan"), 1e9])
@pytest.mark.parametrize("name", ROI)
def test_image_out_of_range(device, name, number):
    x, rois = (t.float().to(device) for t in roi_operands(images=2, count=3))
    grad, second = forward(name, x, rois)
    rois[1, 0] = number
    for call in (
        lambda: forward(name, x, rois),
        lambda: backward(name, grad, rois, second, x.shape),
    ):
        call()
        with pytest.raises(RuntimeError, match="index of an image in rois"):
            torch.ocl.synchronize(device)


@pytest.mark.parametrize("name", ["roi_align whole", "ps_roi_align", "roi_pool", "ps_roi_pool"])
def test_refused_regions(device, name):
    x, rois = (t.float().to(device) for t in roi_operands())
    result, second = forward(name, x, rois)
    for images, boxes, text in (
        (x, rois[:, :4], r"rois must have shape as Tensor\[K, 5\]"),
        (x[0], rois, "input must have 4 dimensions"),
        (x, rois.half(), "should have the same type as rois"),
        (x, rois.cpu(), "rois is on cpu, but input is on ocl"),
        (x.int(), rois.int(), "Int"),
    ):
        with pytest.raises(RuntimeError, match=text):
            forward(name, images, boxes)
    with pytest.raises(RuntimeError, match="grad has sizes"):
        backward(name, result[1:], rois, second, x.shape)
    if name.startswith("ps"):
        with pytest.raises(RuntimeError, match="must be a multiple of"):
            forward(name, x[:, :11], rois)


@pytest.mark.parametrize("ratio", [2**31, 2**63 - 1])
def test_sampling_ratios_beyond_the_types(device, ratio):
    x, rois = torch.ones(1, 4, 3, 3, device=device), torch.ones(0, 5, device=device)
    for call in (
        lambda: OPS.roi_align(x, rois, 1.0, 2, 2, ratio, False),
        lambda: OPS.ps_roi_align(x, rois, 1.0, 2, 2, ratio),
        lambda: OPS._roi_align_backward(x[:0], rois, 1.0, 3, 3, *x.shape, ratio, False),
    ):
        with pytest.raises(RuntimeError, match=f"sampling_ratio is {ratio}, but must be below"):
            call()


def test_gradients_in_the_same_order(device):
    """Deterministic algorithms add the gradients of many boxes in one order."""
    x, rois = (t.float().to(device) for t in roi_operands(count=600))
    grad = random(600, 12, 3, 2).float().to(device)
    torch.use_deterministic_algorithms(True)
    try:
        first, second = (backward("roi_align whole", grad, rois, None, x.shape) for _ in range(2))
    finally:
        torch.use_deterministic_algorithms(False)
    assert torch.equal(first, second)
    torch.testing.assert_close(
        first, backward("roi_align whole", grad, rois, None, x.shape), rtol=1e-4, atol=1e-4
    )


def deform_operands(name, images=2, channels=8, size=(7, 9), kernel=(3, 2)):
    sy, sx, py, px, dy, dx, groups, parts, _ = DEFORM[name]
    rows, columns = (
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, p, d, k, s in zip(size, (py, px), (dy, dx), kernel, (sy, sx), strict=True)
    )
    taps = kernel[0] * kernel[1]
    moved = (images, parts * 2 * taps, rows, columns)
    # No place is a whole number, where derivatives jump, in any type.
    offset = torch.randint(-32, 32, moved, generator=formulas.generator(2)) / 8 + 1 / 16
    return (
        random(images, channels, *size),
        random(2 * groups, channels // groups, *kernel, seed=1),
        offset.double(),
        random(images, parts * taps, rows, columns, seed=3),
        random(2 * groups, seed=4),
    )


@pytest.mark.parametrize("name, dtype", in_types(DEFORM, "mask"))
def test_deform_conv2d(device, name, dtype):
    operands, exact = convert(dtype, device, *deform_operands(name))
    result = OPS.deform_conv2d(*operands, *DEFORM[name])
    expected = formulas.deform_conv2d(*exact, *DEFORM[name])
    # Sums of 24 to 48 products, whose operands are rounded to the type.
    assert_sums_near(result, expected)

    (grad,), (like,) = convert(dtype, device, random(*expected.shape, seed=5))
    wanted = torch.autograd.grad(expected, exact, like, materialize_grads=True)
    gradients = OPS._deform_conv2d_backward(grad, *operands, *DEFORM[name])
    for gradient, want, operand in zip(gradients, wanted, operands, strict=True):
        assert gradient.shape == operand.shape and gradient.dtype == dtype
        assert_sums_near(gradient, want)


def assert_sums_near(actual, expected):
    near = TOLERANCE[actual.dtype]
    scale = max(expected.abs().max().item(), 1)
    torch.testing.assert_close(
        actual.cpu().double(), expected.detach(), rtol=near, atol=near * scale
    )


def test_layouts_of_deform_conv2d(device):
    operands = [x.float().to(device) for x in deform_operands("groups")]
    expected = OPS.deform_conv2d(*operands, *DEFORM["groups"])
    grad = torch.ones_like(expected)
    gradients = OPS._deform_conv2d_backward(grad, *operands, *DEFORM["groups"])
    last = [x.to(memory_format=torch.channels_last) for x in operands[:4]] + operands[4:]
    assert torch.equal(OPS.deform_conv2d(*last, *DEFORM["groups"]), expected)
    grad = grad.to(memory_format=torch.channels_last)
    again = OPS._deform_conv2d_backward(grad, *last, *DEFORM["groups"])
    torch.testing.assert_close(again, gradients, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("images", [0, 40])
def test_batches_of_deform_conv2d(device, images):
    """More images than are computed at once, and none."""
    operands = deform_operands("mask", images)
    moved = [x.float().to(device) for x in operands]
    result = OPS.deform_conv2d(*moved, *DEFORM["mask"])
    gradients = OPS._deform_conv2d_backward(result, *moved, *DEFORM["mask"])
    assert [g.shape for g in gradients] == [x.shape for x in operands]
    if images:
        exact = [x.requires_grad_() for x in operands]
        expected = formulas.deform_conv2d(*exact, *DEFORM["mask"])
        assert_sums_near(result, expected)
        wanted = torch.autograd.grad(expected, exact, expected.detach())
        for gradient, want in zip(gradients, wanted, strict=True):
            assert_sums_near(gradient, want)


def test_refused_deform_conv2d(device):
    operands = [x.float().to(device) for x in deform_operands("mask")]

    def call(place, tensor, **numbers):
        changed = [*operands]
        changed[place] = tensor
        case = list(DEFORM["mask"])
        for number, value in numbers.items():
            case[["sy", "sx", "py", "px", "dy", "dx", "groups", "parts"].index(number)] = value
        return OPS.deform_conv2d(*changed, *case)

    x, weight, offset, mask, bias = operands
    for text, place, tensor, numbers in (
        ("input must have 4 dimensions", 0, x[0], {}),
        ("does not fit an input of 8 channels", 1, weight[:, :3], {}),
        ("offset has sizes", 2, offset[:, :4], {}),
        ("mask has sizes", 3, mask[:1], {}),
        ("bias has sizes", 4, bias[:1], {}),
        ("stride is 0 x 1", 0, x, {"sy": 0}),
        ("groups of offsets do not divide", 0, x, {"parts": 3}),
        ("mask is on cpu", 3, mask.cpu(), {}),
        ("(?i)half", 2, offset.half(), {}),
    ):
        with pytest.raises(RuntimeError, match=text):
            call(place, tensor, **numbers)


def test_dilation_of_deform_conv2d_beyond_the_types(device):
    """Four of it overflow to 4, so that the sizes fit."""
    operands = [x.float().to(device) for x in deform_operands("mask", kernel=(5, 2))]
    with pytest.raises(RuntimeError, match="dilation is 4611686018427387905 x 1, but must be"):
        OPS.deform_conv2d(*operands, 1, 1, 1, 1, 2**62 + 1, 1, 1, 1, True)


@pytest.mark.parametrize("dtype", HALVES)
def test_autocast(device, dtype):
    """Operands of two types, as a network gives them, are computed in float32."""
    x, rois = (t.float().to(device) for t in roi_operands())
    boxes, scores = random_boxes(50, 20).float().to(device), random(50).float().to(device)
    with torch.autocast("ocl", dtype=dtype):
        for name in ROI:
            result, _ = forward(name, x.to(dtype), rois)
            expected, _ = forward(name, x.to(dtype).float(), rois)
            assert result.dtype == dtype and expected.dtype == torch.float32
            assert torch.equal(result, expected.to(dtype))
        half = boxes.to(dtype)
        idxs = torch.zeros(50, device=device, dtype=torch.int64)
        kept = OPS.nms(half.float(), scores, 0.5)
        assert torch.equal(OPS.nms(half, scores, 0.5), kept)
        assert torch.equal(torch.ops.ocl.batched_nms(half, scores, idxs, 0.5), kept)
        operands = [t.float().to(device) for t in deform_operands("mask")]
        operands[0] = operands[0].to(dtype)
        result = OPS.deform_conv2d(*operands, *DEFORM["mask"])
        assert result.dtype == dtype
