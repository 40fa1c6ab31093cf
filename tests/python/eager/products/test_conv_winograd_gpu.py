"""Winograd convolutions of the GPU family, against float64 and against tiles."""

import textwrap

import pytest
from support import output_of
from test_conv_winograd import CASES

HEAD = f"""
    CASES = {CASES}
"""
HEAD += """
    import torch
    import torch.nn.functional as F
    from torch_ocl import _C

    WINOGRAD = len(_C.gemm_gpu_tiles())
    KERNELS = ["winograd_results", "winograd_results", "winograd_weights"]
    backward = torch.ops.aten.convolution_backward

    def directions(tensors, grad, padding):
        # the result, the gradients of the data and of the weights, and the last kernel of each
        x, weight, bias = tensors
        pair = [padding] * 2 if isinstance(padding, int) else list(padding)
        found, ran = [F.conv2d(x, weight, bias, padding=pair)], [_C.last_kernel()]
        grad = torch.randn_like(found[0]) if grad is None else grad
        for i in range(2):
            mask = [i == 0, i == 1, False]
            options = [1, 1], pair, [1, 1], False, [0, 0], 1, mask
            found.append(backward(grad, x, weight, None, *options)[i])
            ran.append(_C.last_kernel())
        return found, grad, ran

    def check(case, dtype=torch.float32, tolerance=1e-5, kernels=KERNELS):
        images, channels, rows, height, width, padding = case
        shapes = (images, channels, height, width), (rows, channels, 3, 3), (rows,)
        tensors = [torch.randn(shape).to(dtype) for shape in shapes]
        grad = F.conv2d(*tensors, padding=padding).normal_()
        expected, _, _ = directions([t.double() for t in tensors], grad.double(), padding)
        on_device = [t.to("ocl") for t in (*tensors, grad)]
        actual, _, ran = directions(on_device[:3], on_device[3], padding)
        assert kernels in (None, ran), (case, ran)
        errors = []
        for e, a in zip(expected, actual):
            a = a.cpu().double()
            atol = 0.3 * tolerance * e.abs().max().item()
            torch.testing.assert_close(a, e, rtol=tolerance, atol=atol)
            errors.append((a - e).abs().max().item())
        return errors
"""


def run(code, **environment):
    code = textwrap.dedent(HEAD) + textwrap.dedent(code)
    environment = {"OCL_KERNEL_FAMILY": "gpu"} | environment
    return output_of(code, **environment)


@pytest.mark.sample
def test_sample():
    run("""
    _C.force_tuned("conv_gpu", WINOGRAD)
    for case in CASES[:3]:
        check(case)
    """)


def test_results():
    run("""
    _C.force_tuned("conv_gpu", WINOGRAD)
    for case in CASES[3:]:
        check(case)
    """)


@pytest.mark.slow
def test_types():
    run("""
    _C.force_tuned("conv_gpu", WINOGRAD)
    case = 2, 20, 24, 13, 14, 1
    check(case, torch.float16, 2e-3)
    check(case, torch.bfloat16, 2e-2)
    if torch.ocl.get_device_properties(0).has_fp64:
        check(case, torch.float64, 1e-13)
    """)


def test_rounds():
    """A small memory: 2,500 tiles in three rounds, which end within an image."""
    run(
        """
    _C.force_tuned("conv_gpu", WINOGRAD)
    before = _C.launch_count()
    x, weight = torch.ones(1, 16, 100, 99, device="ocl"), torch.ones(16, 16, 3, 3, device="ocl")
    F.conv2d(x, weight, padding=1)
    assert _C.launch_count() - before == 2 + 1 + 3 * 3, _C.launch_count() - before
    assert _C.last_tuned().choice == WINOGRAD
    check((1, 16, 16, 100, 99, 1), tolerance=3e-5)
    check((5, 16, 16, 31, 44, 0), tolerance=3e-5)
    # 16 planes of these filters take more than a 32th of the memory.
    F.conv2d(torch.ones(1, 256, 8, 8, device="ocl"), torch.ones(256, 256, 3, 3, device="ocl"))
    assert _C.last_kernel() in ("conv_tiles", "gemm_sum")
    """,
        OCL_MEMORY_MB="64",
    )


def test_choice():
    """Many channels of a large enough image; else tiles."""
    run("""
    def kernel(images, channels, rows, side, **options):
        x = torch.empty(images, channels, side, side, device="ocl")
        weight = torch.empty(rows, channels // options.get("groups", 1), 3, 3, device="ocl")
        F.conv2d(x, weight, **options)
        return _C.last_kernel()

    assert kernel(8, 256, 256, 14, padding=1) == "winograd_results"
    for tiles in [
        kernel(8, 64, 64, 56, padding=1),
        kernel(1, 256, 256, 4, padding=1),
        kernel(8, 256, 256, 14, padding=1, stride=2),
        kernel(8, 256, 256, 14, padding=2, dilation=2),
        kernel(4, 512, 512, 14, padding=1, groups=2),
    ]:
        assert tiles in ("conv_tiles", "gemm_sum"), tiles
    x, weight = torch.ones(2, 8, 9, 9), torch.ones(4, 8, 3, 3)
    _C.force_tuned("conv_gpu", WINOGRAD)
    for dtype in torch.int32, torch.uint8:
        y = F.conv2d(x.to("ocl", dtype), weight.to("ocl", dtype))
        assert (y == 72).all() and _C.last_kernel() != "winograd_results"
    assert F.conv2d(x[:0].to("ocl"), weight.to("ocl")).shape == (0, 4, 7, 7)
    """)


def test_the_tuner_measures_it():
    run("""
    from torch_ocl import tune
    x = torch.randn(2, 16, 12, 12, device="ocl")
    weight = torch.randn(16, 16, 3, 3, device="ocl")
    _, times, _ = tune.tune(lambda: F.conv2d(x, weight, padding=1), 0)
    assert WINOGRAD in times and len(times) > 1, times
    """)


def test_what_is_measured_of_another_stride_does_not_count():
    run("""
    x, weight = torch.ones(2, 16, 24, 24, device="ocl"), torch.ones(16, 16, 3, 3, device="ocl")
    keys = []
    for images, stride in ((x[:, :, ::2, ::2], 1), (x, 2)):
        F.conv2d(images, weight, padding=1, stride=stride)
        keys.append(_C.last_tuned().problem)
    assert keys[0] != keys[1]
    """)


def test_pixels_that_no_tap_reads():
    """The only result of a stride beyond the image: an infinity below its taps does not count."""
    run("""
    _C.force_tuned("conv_gpu", WINOGRAD)
    x, grad = torch.randn(2, 8, 4, 4), torch.randn(2, 8, 1, 1)
    x[:, :, 3] = float("inf")
    options = None, [5, 5], [0, 0], [1, 1], False, [0, 0], 1, [False, True, False]
    weight = torch.randn(8, 8, 3, 3)
    expected = backward(grad, x, weight, *options)[1]
    actual = backward(*(t.to("ocl") for t in (grad, x, weight)), *options)[1]
    torch.testing.assert_close(actual.cpu(), expected, rtol=1e-4, atol=1e-4)
    """)


def test_not_finite():
    """An infinity or a NaN spoils what depends on it, its tile and no more."""
    run("""
    _C.force_tuned("conv_gpu", WINOGRAD)
    x, weight = torch.randn(2, 3, 12, 12), torch.randn(8, 3, 3, 3)
    expected = F.conv2d(x, weight, padding=1)
    x[1, 2, 5, 5] = float("nan")
    x[0, 0, 0, 11] = float("inf")
    actual = F.conv2d(x.to("ocl"), weight.to("ocl"), padding=1).cpu()
    assert actual[1, :, 4:7, 4:7].isnan().all()
    assert not actual[0, :, :2, 10:].isfinite().any()
    for image, rows, columns in ((1, slice(3, 8), slice(3, 8)), (0, slice(0, 4), slice(8, 12))):
        actual[image, :, rows, columns] = expected[image, :, rows, columns]
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)
    """)


def test_error_is_below_twice_that_of_tiles():
    run("""
    case = 2, 128, 128, 28, 28, 1
    _C.force_tuned("conv_gpu", WINOGRAD)
    winograd = check(case)
    _C.force_tuned("conv_gpu", WINOGRAD - 1)
    tiles = check(case, kernels=None)
    print(winograd, tiles)
    assert all(w < 2 * t for w, t in zip(winograd, tiles)), (winograd, tiles)
    """)


def test_epilogues_and_transposed():
    run("""
    _C.force_tuned("conv_gpu", WINOGRAD)
    x, w, b = torch.randn(2, 24, 12, 13), torch.randn(20, 24, 3, 3) / 8, torch.randn(20)
    sums = F.conv2d(x, w, b, padding=1)
    residual = torch.randn_like(sums)
    for activation, function in (("gelu", F.gelu), ("relu", F.relu), ("none", lambda x: x)):
        actual = torch.ops.ocl.convolution_epilogue(
            x.to("ocl"), w.to("ocl"), b.to("ocl"), [1, 1], [1, 1], [1, 1], False, [0, 0], 1,
            residual.to("ocl"), activation)
        assert _C.last_kernel() == "winograd_results"
        torch.testing.assert_close(actual.cpu(), function(sums + residual), rtol=1e-4, atol=1e-4)
    w, b = torch.randn(24, 6, 3, 3), torch.randn(6)
    actual = F.conv_transpose2d(x.to("ocl"), w.to("ocl"), b.to("ocl"), padding=1)
    assert _C.last_kernel() == "winograd_results"
    expected = F.conv_transpose2d(x, w, b, padding=1)
    torch.testing.assert_close(actual.cpu(), expected, rtol=1e-4, atol=1e-4)
    """)
