"""The GPU family's convolutions: which kernel runs for which geometry, and what it computes."""

import textwrap

import pytest
import torch
from support import output_of

HEAD = """
    import torch
    import torch.nn.functional as F
    from torch_ocl import _C

    torch.manual_seed(0)

    def gradients(case, dtype, transposed):
        # -> the output and both gradients by CPU and device, and the kernels that ran
        shape, weight_shape, stride, padding, dilation, groups = case
        if transposed:
            shape = (shape[0], weight_shape[0], *shape[2:])
        channels = weight_shape[1] * groups if transposed else weight_shape[0]
        arguments = stride, padding, dilation, transposed, [0] * (len(shape) - 2), groups
        spread = [x if isinstance(x, tuple) else (x,) * (len(shape) - 2) for x in arguments[:3]]
        arguments = [*spread, *arguments[3:]]
        x, w, b = (torch.randn(s).to(dtype) for s in (shape, weight_shape, (channels,)))
        y = torch.convolution(x.float(), w.float(), b.float(), *arguments)
        grad = torch.randn(y.shape).to(dtype)
        expected = [y]
        for i in range(2):
            mask = [i == 0, i == 1, False]
            results = torch.ops.aten.convolution_backward(
                grad.float(), x.float(), w.float(), None, *arguments, mask)
            expected.append(results[i])
        x, w, b, grad = (t.to("ocl") for t in (x, w, b, grad))
        actual, ran = [torch.convolution(x, w, b, *arguments)], [_C.last_kernel()]
        for i in range(2):
            mask = [i == 0, i == 1, False]
            results = torch.ops.aten.convolution_backward(grad, x, w, None, *arguments, mask)
            actual.append(results[i])
            ran.append(_C.last_kernel())
        return expected, actual, ran

    def check(case, *kernels, dtype=torch.float32, tolerance=1e-4, transposed=False):
        # `kernels` of the output, the data gradient, the weight gradient
        expected, actual, ran = gradients(case, dtype, transposed)
        assert ran == list(kernels), (case, transposed, ran)
        for e, a in zip(expected, actual):
            torch.testing.assert_close(a.cpu().float(), e, rtol=tolerance, atol=10 * tolerance)

    def both(case, *kernels, **options):
        forward, data, weight = kernels
        check(case, forward, data, weight, **options)
        check(case, data, forward, weight, transposed=True, **options)

    TILES, DIRECT = ("conv_tiles", "conv_tiles"), ("conv_direct", "conv_direct")
    WEIGHT = "conv_weight_tiles"
"""


def run(code):
    code = textwrap.dedent(HEAD) + textwrap.dedent(code)
    return output_of(code, OCL_KERNEL_FAMILY="gpu")


@pytest.mark.sample
def test_strides_paddings_dilations_and_groups():
    """The data gradient has a pass for each remainder of the stride, some of them without taps."""
    run("""
    for case in [
        ((2, 16, 12, 13), (24, 16, 3, 3), 1, 1, 1, 1),
        ((2, 16, 12, 13), (24, 16, 3, 3), 2, 1, 1, 1),
        ((2, 16, 12, 13), (24, 16, 1, 1), 2, 0, 1, 1),
        ((2, 16, 12, 13), (24, 8, 5, 3), (3, 2), (2, 1), (1, 2), 2),
        ((2, 16, 12, 13), (24, 8, 3, 3), 2, 1, 2, 2),
        ((2, 16, 12, 13), (24, 8, 3, 2), (4, 6), 1, (6, 4), 2),
    ]:
        both(case, *TILES, WEIGHT)
    """)


def test_other_dimensions():
    run("""
    both(((2, 20, 20), (50, 20, 4), 3, 2, 1, 1), *TILES, WEIGHT)
    both(((2, 12, 5, 6, 7), (16, 12, 2, 3, 3), (1, 2, 1), (0, 1, 1), 1, 1), *TILES, WEIGHT)
    both(((2, 12, 5, 6, 7), (16, 12, 3, 1, 2), 2, 1, (2, 1, 1), 1), *TILES, WEIGHT)
    """)


@pytest.mark.slow
def test_long_filters():
    """More taps than bits: of an int, then of a long."""
    run("""
    both(((2, 8, 200), (8, 8, 40), 1, 0, 1, 1), *TILES, WEIGHT)
    check(((2, 8, 90), (8, 8, 70), 1, 0, 1, 1), "conv_forward", "conv_data_grad", WEIGHT)
    """)


@pytest.mark.slow
@pytest.mark.parametrize("tile", [0, 1, 3, 6, 7])
def test_every_tile(tile):
    """Rows and columns beyond one tile, on both sides of its edges."""
    run(f"""
    tile = _C.gemm_gpu_tiles()[{tile}]
    _C.force_tuned("conv_gpu", {tile})
    both(((1, tile.m + 1, 3, 50), (tile.m - 1, tile.m + 1, 1, 2), 1, 1, 1, 1), *TILES, WEIGHT)
    """)


def test_tile_of_few_rows():
    """Forward only: PoCL takes half a minute for each program with this tile."""
    run("""
    tile = _C.gemm_gpu_tiles()[2]
    _C.force_tuned("conv_gpu", 2)
    x, weight = torch.randn(1, 8, 3, tile.n // 3 + 10), torch.randn(tile.m + 1, 8, 1, 2)
    actual = F.conv2d(x.to("ocl"), weight.to("ocl"), padding=1)
    assert _C.last_kernel() == "conv_tiles"
    torch.testing.assert_close(actual.cpu(), F.conv2d(x, weight, padding=1))
    """)


@pytest.mark.slow
def test_cut_along_k():
    """Few positions and many channels, or few weights and many positions; results repeat."""
    run("""
    many = (1, 300, 4, 4), (16, 300, 3, 3), 1, 1, 1, 1
    check(many, "gemm_sum", "conv_tiles", WEIGHT)
    check(many, "gemm_sum", "conv_tiles", WEIGHT, dtype=torch.float16, tolerance=1e-2)
    check(((4, 8, 30, 30), (8, 8, 3, 3), 1, 1, 1, 1), *TILES, "gemm_sum")
    x, w = torch.randn(1, 300, 4, 4).to("ocl"), torch.randn(16, 300, 3, 3).to("ocl")
    assert torch.equal(F.conv2d(x, w), F.conv2d(x, w))
    """)


@pytest.mark.sample
def test_few_channels():
    """Depthwise ones and the like have a kernel of their own; where a tile would be nearly empty,
    or there is depth, the plain ones run."""
    run("""
    plain = "conv_weight_grad"
    both(((2, 12, 10, 12), (12, 1, 3, 3), 1, 1, 1, 12), *DIRECT, plain)
    both(((2, 12, 11, 13), (24, 1, 5, 3), (2, 1), (2, 1), (1, 2), 12), *DIRECT, plain)
    both(((2, 6, 11, 13), (6, 1, 3, 3), 2, 1, 1, 6), *DIRECT, plain)
    both(((2, 6, 30), (6, 1, 3), 2, 1, 2, 6), *DIRECT, plain)
    both(((2, 3, 9, 9), (4, 3, 3, 3), 1, 1, 1, 1), *DIRECT, plain)
    both(((1, 3, 5, 5, 5), (3, 1, 3, 3, 3), 1, 1, 1, 3), "conv_forward", "conv_data_grad", plain)
    check(((2, 3, 20, 20), (40, 3, 7, 7), 2, 3, 1, 1), "conv_tiles", "conv_direct", WEIGHT)
    """)


@pytest.mark.slow
def test_types():
    run("""
    wide = (2, 16, 6, 7), (24, 16, 3, 3), 1, 1, 1, 1
    deep = (2, 6, 9, 9), (6, 1, 3, 3), 1, 1, 1, 6
    for dtype, tolerance in [(torch.float16, 2e-3), (torch.bfloat16, 2e-2)]:
        check(wide, *TILES, WEIGHT, dtype=dtype, tolerance=tolerance)
        check(deep, *DIRECT, "conv_weight_grad", dtype=dtype, tolerance=tolerance)
    if torch.ocl.get_device_properties(0).has_fp64:
        check(wide, *TILES, WEIGHT, dtype=torch.float64)
        check(deep, *DIRECT, "conv_weight_grad", dtype=torch.float64)
    """)


def test_rows_do_not_mix():
    """Infinite weights of a row do not reach others, though tiles read beyond edges."""
    run("""
    weight = torch.ones(8, 8, 3, 3)
    weight[0, 0, 0, 0] = float("inf")
    weight[7, 7, 2, 2] = float("nan")
    x = torch.randn(1, 8, 4, 4)
    expected = F.conv2d(x, weight, padding=1)
    actual = F.conv2d(x.to("ocl"), weight.to("ocl"), padding=1)
    assert _C.last_kernel() == "conv_tiles"
    torch.testing.assert_close(actual.cpu()[:, 1:7], expected[:, 1:7], rtol=1e-4, atol=1e-4)
    """)


def test_against_the_plain_kernels():
    run("""
    case = (2, 16, 12, 13), (24, 8, 3, 3), 2, 1, 2, 2
    _C.prefer_conv_algorithm("plain")
    both(case, "conv_forward", "conv_data_grad", "conv_weight_grad")
    _C.prefer_conv_algorithm("")
    both(case, *TILES, WEIGHT)
    """)


def test_tensors_beyond_the_limit_are_split_by_images():
    """With a limit of 25 KB in place of 2 GiB."""
    run("""
    _C.force_tuned("conv_gpu", 7)  # the fastest to compile
    _C.set_conv_byte_limit(25000)
    for dtype, tolerance in ((torch.float32, 1e-4), (torch.float16, 2e-2)):
        case = (5, 8, 20, 12), (12, 8, 3, 3), 1, 1, 1, 1
        expected, actual, ran = gradients(case, dtype, False)
        assert ran[:2] == ["conv_tiles"] * 2 and ran[2] != "conv_weight_grad", ran
        for e, a in zip(expected, actual):
            torch.testing.assert_close(a.cpu().float(), e, rtol=tolerance, atol=10 * tolerance)
    # The gradient of the weights is 0.25 if its parts, which are large, are not rounded.
    large = torch.cat([torch.full((4, 8, 20, 12), n) for n in (8.0, -8.0)]).half()
    large[0, :, 0, 0] += 0.25
    ones = torch.ones(8, 12, 20, 12).half().to("ocl")
    weight = torch.nn.grad.conv2d_weight(large.to("ocl"), (12, 8, 1, 1), ones)
    assert (weight == 0.25).all()
    _C.set_conv_byte_limit(5000)  # an image has more
    assert gradients(case, torch.float32, False)[2][0] == "conv_forward"
    """)


def test_an_epilogue_of_a_transposed_convolution_is_applied_once():
    run("""
    import torch.nn.functional as F
    from torch_ocl import _C

    x, w, b = torch.randn(2, 24, 12, 13), torch.randn(24, 16, 3, 3) / 8, torch.randn(16)
    for stride, channels in ((1, 24), (2, 24), (1, 2)):
        images, weights = x[:, :channels], w[:channels]
        sums = F.conv_transpose2d(images, weights, b, stride, 1)
        residual = torch.randn_like(sums)
        for activation, function in (("gelu", F.gelu), ("none", lambda x: x)):
            actual = torch.ops.ocl.convolution_epilogue(
                images.to("ocl"), weights.to("ocl"), b.to("ocl"), [stride] * 2, [1, 1], [1, 1],
                True, [0, 0], 1, residual.to("ocl"), activation)
            torch.testing.assert_close(
                actual.cpu(), function(sums + residual), rtol=1e-4, atol=1e-4)
    """)


def test_wrong_shapes_of_convolutions_with_an_epilogue(device):
    def call(x, w, b=None, stride=1, groups=1, transposed=False):
        tensors = [None if t is None else torch.ones(t, device=device) for t in (x, w, b)]
        return torch.ops.ocl.convolution_epilogue(
            *tensors, [stride] * 2, [1, 1], [1, 1], transposed, [0, 0], groups, None, "relu"
        )

    assert call((1, 3, 6, 6), (8, 3, 3, 3), (8,)).shape == (1, 8, 6, 6)
    for wrong in (
        {"w": (8, 5, 3, 3)},
        {"w": (8, 3, 3)},
        {"w": (8, 3, 3, 3), "b": (2,)},
        {"w": (8, 3, 3, 3), "stride": 0},
        {"w": (8, 3, 3, 3), "groups": 0},
        {"w": (8, 1, 3, 3), "groups": 3},
        {"w": (8, 3, 3, 3), "transposed": True},
    ):
        with pytest.raises(RuntimeError, match=r"convolution(_epilogue)?: |must be|should be"):
            call((1, 3, 6, 6), **wrong)


def test_large_strides_launch_few_kernels():
    """Of the stride^2 passes of a data gradient most have no taps. One fill computes those."""
    run("""
        for channels in 2, 32:
            x, w = torch.randn(2, 8, 2, 2), torch.randn(8, channels, 3, 3)
            for bias in None, torch.randn(channels):
                expected = F.conv_transpose2d(x, w, bias, stride=64)
                there = [None if t is None else t.to("ocl") for t in (x, w, bias)]
                before = _C.launch_count()
                actual = F.conv_transpose2d(*there, stride=64)
                assert _C.launch_count() - before < 20, _C.launch_count() - before
                torch.testing.assert_close(actual.cpu(), expected, rtol=1e-4, atol=1e-4)
    """)
