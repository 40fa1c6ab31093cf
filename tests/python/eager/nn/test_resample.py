"""Upsampling and padding against the CPU."""

import pytest
import torch
import torch.nn.functional as F
from support import FLOATS, TOLERANCE, output_of

MODES = {
    "nearest": (1, 2, 3),
    "nearest-exact": (1, 2, 3),
    "linear": (1,),
    "bilinear": (2,),
    "bicubic": (2,),
    "trilinear": (3,),
    "bilinear-antialias": (2,),
    "bicubic-antialias": (2,),
}
CASES = [(mode, dims) for mode, all_dims in MODES.items() for dims in all_dims]
SIZES = [(6, 4, 5), (9, 13, 14), (12, 10, 9), (3, 7, 4), (1, 1, 1)]  # depth, height, width
INPUT = (6, 5, 7)
CHANNELS_LAST = {2: torch.channels_last, 3: torch.channels_last_3d}


def shape_of(dims, channels=3):
    return (2, channels, *INPUT[3 - dims :])


def check(device, function, x, tolerance):
    """The result and its gradient; the CPU computes in float32 what it has no kernel for."""
    reference = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    gradient, results = None, []
    for tensor in (reference, x.to(device)):
        leaf = tensor.detach().clone()
        leaf.requires_grad_(leaf.is_floating_point() or leaf.is_complex())
        y = function(leaf)
        if leaf.requires_grad:
            if gradient is None:
                gradient = torch.randn_like(y)
            y.backward(gradient.to(device=y.device, dtype=y.dtype))
        results.append([y.detach(), leaf.grad])
    for expected, actual in zip(*results):
        if expected is None:
            continue
        assert actual.dtype == x.dtype and actual.device.type == "ocl"
        assert actual.stride() == expected.stride()
        rtol = tolerance or 0
        torch.testing.assert_close(actual.cpu(), expected.to(x.dtype), rtol=rtol, atol=rtol)


def interpolate(mode, **options):
    name = mode.removesuffix("-antialias")
    return lambda x: F.interpolate(x, mode=name, antialias=name != mode, **options)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("mode,dims", CASES)
def test_sizes(device, mode, dims, size, dtype):
    x = torch.randn(shape_of(dims)).to(dtype)
    check(device, interpolate(mode, size=size[3 - dims :]), x, TOLERANCE[dtype])


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("mode,dims", [c for c in CASES if "near" not in c[0]])
def test_aligned_corners(device, mode, dims, size):
    x = torch.randn(shape_of(dims))
    check(device, interpolate(mode, size=size[3 - dims :], align_corners=True), x, 1e-5)


@pytest.mark.parametrize("factor", [2, 0.5, 1.7, 0.37])
@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("mode,dims", CASES)
def test_scale_factors(device, mode, dims, factor, recompute):
    x = torch.randn(shape_of(dims))
    options = {"scale_factor": factor, "recompute_scale_factor": recompute}
    check(device, interpolate(mode, **options), x, 1e-5)


@pytest.mark.parametrize("channels", [3, 40])
@pytest.mark.parametrize("mode,dims", [c for c in CASES if c[1] > 1])
def test_channels_last(device, mode, dims, channels):
    x = torch.randn(shape_of(dims, channels)).contiguous(memory_format=CHANNELS_LAST[dims])
    check(device, interpolate(mode, size=(8, 9, 5)[3 - dims :]), x, 1e-5)


@pytest.mark.parametrize("mode,dims", CASES)
def test_strided_input_and_out(operator_device, mode, dims):
    x = torch.randn(*shape_of(dims)[:-1], 14)[..., ::2].transpose(0, 1)
    function = interpolate(mode, size=(8, 9, 5)[3 - dims :])
    check(operator_device, function, x, 1e-5)


def test_out_of_another_layout(device):
    x = torch.randn(2, 4, 6, 6)
    out = torch.empty(2, 4, 9, 9, device=device).contiguous(memory_format=torch.channels_last)
    result = torch._C._nn.upsample_bilinear2d(x.to(device), (9, 9), False, out=out)
    assert result.is_contiguous(memory_format=torch.channels_last)
    expected = F.interpolate(x, (9, 9), mode="bilinear")
    torch.testing.assert_close(out.cpu(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_bytes_nearest(device, mode, dims):
    x = torch.randint(0, 256, shape_of(dims), dtype=torch.uint8)
    check(device, interpolate(mode, size=SIZES[1][3 - dims :]), x, None)


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("size", SIZES[:-1])  # the CPU fails with one pixel
@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "bilinear-antialias", "bicubic-antialias"])
def test_bytes(device, mode, size, align_corners):
    """At most one off: the CPU's own kernels round in different ways."""
    x = torch.randint(0, 256, shape_of(2), dtype=torch.uint8)
    function = interpolate(mode, size=size[1:], align_corners=align_corners)
    difference = function(x.to(device)).cpu().int() - function(x).int()
    assert difference.abs().max() <= 1


@pytest.mark.sample
@pytest.mark.parametrize("mode,dims", CASES)
def test_small(device, mode, dims):
    x = torch.randn(shape_of(dims))
    check(device, interpolate(mode, size=(8, 4, 5)[3 - dims :]), x, 1e-5)


def test_large(device):
    """Positions are computed in single precision, as on the CPU."""
    x = torch.randn(1, 2, 3, 3001)
    check(device, interpolate("bilinear", size=(4, 4099)), x, 1e-4)
    check(device, interpolate("nearest", size=(4, 4099)), x, 1e-4)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("factor", [2, 0.5])
@pytest.mark.parametrize("width", [16, 75])
@pytest.mark.parametrize("mode", [mode for mode, dims in MODES.items() if 2 in dims])
def test_wide(device, mode, width, factor, dtype):
    """Adjacent outputs, or adjacent outputs of the gradient, with the same weights."""
    x = torch.randn(1, 2, 6, width).to(dtype)
    check(device, interpolate(mode, scale_factor=factor), x, TOLERANCE[dtype])


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_infinite_gradients_stay_in_place(device, memory_format):
    x = torch.zeros(1, 2, 5, 40).contiguous(memory_format=memory_format)
    gradient = torch.ones(1, 2, 10, 80)
    gradient[0, 0, 4, 7] = float("inf")
    gradient[0, 1, 9, 79] = float("nan")
    results = []
    for leaf in (x.requires_grad_(), x.detach().to(device).requires_grad_()):
        F.interpolate(leaf, scale_factor=2).backward(gradient.to(leaf.device))
        results.append(leaf.grad.cpu())
    torch.testing.assert_close(results[1], results[0], equal_nan=True)


def test_infinities_of_nearest_neighbours_stay_in_place(device):
    x = torch.tensor([[[1.0, float("inf"), 2.0, float("nan")]]])
    expected = F.interpolate(x, 7)
    torch.testing.assert_close(F.interpolate(x.to(device), 7).cpu(), expected, equal_nan=True)


def test_empty_batch(device):
    assert F.interpolate(torch.empty(0, 3, 4, 4, device=device), 8).shape == (0, 3, 8, 8)


PADDINGS = [(1, 2), (0, 3), (-1, 2), (3, -2), (-1, -2)]  # before and after


def padded(mode, dims, first):
    pairs = [PADDINGS[(first + d) % len(PADDINGS)] for d in range(dims)]
    return lambda x: F.pad(x, [n for pair in pairs for n in pair], mode=mode)


@pytest.mark.parametrize("dtype", [*FLOATS, torch.complex64, torch.complex128])
@pytest.mark.parametrize("first", range(len(PADDINGS)))
@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("mode", ["reflect", "replicate"])
def test_padding(device, mode, dims, first, dtype):
    x = torch.randn(shape_of(dims), dtype=torch.complex64 if dtype.is_complex else None).to(dtype)
    tolerance = TOLERANCE.get(dtype, 1e-5)
    for leading in (x, x[0]):
        check(device, padded(mode, dims, first), leading, tolerance)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.int64])
@pytest.mark.parametrize("mode", ["reflect", "replicate"])
def test_padding_of_integers(device, mode, dtype):
    for dims in (1, 2, 3):
        x = torch.randint(0, 99, shape_of(dims), dtype=dtype)
        check(device, padded(mode, dims, 0), x, None)


@pytest.mark.parametrize("dims", [2, 3])
@pytest.mark.parametrize("mode", ["reflect", "replicate"])
def test_padding_of_channels_last_and_strided(operator_device, mode, dims):
    x = torch.randn(shape_of(dims))
    for tensor in (x.contiguous(memory_format=CHANNELS_LAST[dims]), x.transpose(0, 1)):
        check(operator_device, padded(mode, dims, 0), tensor, 1e-5)


@pytest.mark.sample
@pytest.mark.parametrize("mode", ["reflect", "replicate"])
def test_padding_small(device, mode):
    for dims in (1, 2, 3):
        x = torch.randn(shape_of(dims))
        check(device, padded(mode, dims, 0), x, 1e-5)


def test_padding_errors(device):
    x = torch.zeros(1, 1, 3, 3, device=device)
    with pytest.raises(RuntimeError, match="less than the corresponding input dimension"):
        F.pad(x, (3, 0, 0, 0), mode="reflect")
    with pytest.raises(RuntimeError, match="too small"):
        F.pad(x, (-2, -2, 0, 0), mode="reflect")
    with pytest.raises(RuntimeError, match="grad_output has sizes"):
        torch.ops.aten.replication_pad2d_backward(x, x, (1, 1, 1, 1))


def test_padding_out(device):
    x = torch.randn(2, 4, 5, 5)
    out = torch.empty(0, device=device)
    torch._C._nn.reflection_pad2d(x.to(device), (1, 2, 3, 4), out=out)
    assert torch.equal(out.cpu(), F.pad(x, (1, 2, 3, 4), mode="reflect"))


@pytest.mark.parametrize("operator", ["_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa"])
def test_scale_of_a_size_that_stays(device, operator):
    """The CPU reads no neighbours along a dimension of the same size, whatever the scale; the
    derivative does."""
    x = torch.randn(1, 2, 5, 6, generator=torch.Generator().manual_seed(1))
    forward = getattr(torch.ops.aten, operator)
    backward = getattr(torch.ops.aten, operator + "_backward")
    for size in ((5, 6), (3, 6), (5, 4)):
        gradient = x[..., : size[0], : size[1]].contiguous()
        arguments = (size, x.shape, False, 0.7, 1.9)
        torch.testing.assert_close(
            forward(x.to(device), size, False, 0.7, 1.9).cpu(), forward(x, size, False, 0.7, 1.9)
        )
        torch.testing.assert_close(
            backward(gradient.to(device), *arguments).cpu(), backward(gradient, *arguments)
        )


def touched(mode, dims, size, position, **options):
    """Finds the outputs that depend on an input: a huge number there changes the result in
    float64."""
    x = torch.ones(shape_of(dims), dtype=torch.float64)
    ones = interpolate(mode, size=size, **options)(x)
    x[(0, 1, *position)] = 1e30
    return interpolate(mode, size=size, **options)(x) != ones


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("size", SIZES[:4])
@pytest.mark.parametrize("mode,dims", [c for c in CASES if "near" not in c[0]])
def test_infinity_stays_with_its_outputs(device, mode, dims, size, channels_last, last):
    position = [-2] * dims if last else [1] * dims
    marked = touched(mode, dims, size[3 - dims :], position)
    x = torch.ones(shape_of(dims))
    x[(0, 1, *position)] = torch.nan
    if channels_last and dims > 1:
        x = x.to(memory_format=CHANNELS_LAST[dims])
    y = interpolate(mode, size=size[3 - dims :])(x.to(device)).cpu()
    assert torch.equal(y.isnan(), marked)


@pytest.mark.parametrize("size", SIZES[:4])
@pytest.mark.parametrize("mode,dims", [c for c in CASES if "near" not in c[0]])
def test_infinite_gradients_stay_with_their_inputs(device, mode, dims, size):
    function = interpolate(mode, size=size[3 - dims :])
    x = torch.ones(shape_of(dims), requires_grad=True)
    y = function(x)
    gradient = torch.zeros_like(y)
    gradient[(0, 1, *[-1] * dims)] = 1e30
    marked = torch.autograd.grad(y, x, gradient)[0] != 0
    leaf = x.detach().to(device).requires_grad_()
    gradient[(0, 1, *[-1] * dims)] = torch.inf
    (actual,) = torch.autograd.grad(function(leaf), leaf, gradient.to(device))
    assert torch.equal(~actual.cpu().isfinite(), marked)


@pytest.mark.parametrize(
    "mode,dims", [c for c in CASES if "near" not in c[0] and "cubic" not in c[0]]
)
def test_negative_zero(device, mode, dims):
    x = torch.full(shape_of(dims), -0.0)
    for size in SIZES:
        assert interpolate(mode, size=size[3 - dims :])(x.to(device)).cpu().signbit().all()


MARGINS = [(3, 2), (0, 4), (-1, 3), (2, -2), (-2, 0), (-7, 5), (5, -7)]
MARGINS += [(11, 2), (0, 11), (-1, 11), (11, -2), (-13, 11), (11, -13), (11, 11)]


@pytest.mark.parametrize("margins", MARGINS, ids=str)
@pytest.mark.parametrize("mode", ["reflect", "replicate"])
def test_gradients_of_paddings_of_any_sign(device, mode, margins):
    x = torch.randn(2, 3, 12, 12)
    both = [*margins, *margins[::-1]]
    check(device, lambda y: F.pad(y, margins, mode=mode), x[0], 1e-5)
    check(device, lambda y: F.pad(y, both, mode=mode), x, 1e-5)
    check(
        device, lambda y: F.pad(y, both, mode=mode), x.to(memory_format=torch.channels_last), 1e-5
    )


def test_gradient_of_a_long_padding(device):
    """The memory on the host does not grow with size * padding."""
    code = """
        import resource
        import torch
        import torch.nn.functional as F
        x = torch.randn(1, 1, 32768, device="ocl", requires_grad=True)
        F.pad(x, (4, 4), mode="reflect").sum().backward()
        torch.ocl.synchronize()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        F.pad(x, (1024, 1024), mode="reflect").sum().backward()
        F.pad(x, (1024, 1024), mode="replicate").sum().backward()
        torch.ocl.synchronize()
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    """
    assert int(output_of(code)) < 200_000  # KiB


def test_scale_beyond_all_inputs(device):
    """Positions that int64 does not hold: such a scale comes from direct calls only."""
    x = torch.arange(1.0, 5, device=device).reshape(1, 1, 4)
    nearest = torch.ops.aten.upsample_nearest1d(x, [7], 1e-30)
    assert nearest.flatten().tolist() == [1, 4, 4, 4, 4, 4, 4]
    linear = torch.ops.aten.upsample_linear1d(x, [7], False, 1e-30)
    assert linear.flatten().tolist() == [4] * 7
    planes = x.reshape(1, 1, 2, 2)
    for name in ("upsample_bicubic2d", "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa"):
        result = getattr(torch.ops.aten, name)(planes, [3, 3], False, 1e-320, 1e-320)
        assert result.isfinite().all()
