"""Operators that the compiler calls for a product and what follows, against composed ones."""

import re

import pytest
import torch
import torch.nn.functional as F
from support import HALVES, ROOT

from torch_ocl.inductor.passes import epilogues

TABLE = ROOT / "kernels/matmul/epilogue_table.h"
ACTIVATIONS = {"none": lambda x: x, **epilogues.ACTIVATIONS}

# m, k, n: tiles with and without rests, products with a vector, more than one block of k, cut in
# parts on GPUs
PRODUCTS = [
    (1, 40, 33),
    (37, 70, 1),
    (3, 17, 50),
    (13, 64, 64),
    (45, 600, 37),
    (4, 2100, 16),
    (130, 31, 130),
]

# images, channels, result's channels, size, kernel, options: each way of a convolution
CONVOLUTIONS = {
    "taps": ((2, 3, 10, (19, 23), (5, 7)), dict(stride=2, padding=3)),
    "one channel": ((1, 2, 1, (9, 40), (3, 3)), dict(padding=(0, 1))),
    "winograd tiles": ((2, 40, 24, (28, 30), (3, 3)), dict(padding=1)),
    "winograd rows": ((1, 96, 128, (7, 9), (3, 3)), dict(padding=1)),
    "broadcast": ((2, 20, 70, (8, 7), (3, 3)), dict(stride=2, padding=1)),
    "pointwise": ((2, 24, 19, (17, 18), (1, 1)), {}),
    "pointwise, small": ((3, 24, 80, (5, 5), (1, 1)), dict(stride=2)),
    "depthwise": ((2, 12, 12, (9, 20), (3, 3)), dict(groups=12, padding=1)),
    "groups": ((2, 6, 9, (11, 12), (3, 3)), dict(groups=3, dilation=2)),
    "deep": ((1, 300, 9, (4, 4), (3, 3)), dict(padding=1)),
    "1d": ((2, 5, 11, (50,), (3,)), dict(padding=2)),
    "3d": ((1, 4, 9, (5, 6, 18), (2, 3, 3)), dict(stride=(1, 2, 1))),
}


def matrices(m, k, n, dtype=torch.float32):
    shapes = (m, k), (k, n), (n,), (m, n)
    a, b, bias, residual = (torch.randn(shape).to(dtype) for shape in shapes)
    return a, b / k**0.5, bias, residual


def check(actual, expected, dtype=torch.float32):
    assert actual.dtype == dtype and actual.is_contiguous()
    tolerance = {torch.float16: 5e-3, torch.bfloat16: 4e-2}.get(dtype, 2e-5)
    torch.testing.assert_close(actual.cpu().double(), expected, rtol=tolerance, atol=tolerance)


def check_product(tensors, activation, device, dtype=torch.float32):
    a, b, bias, residual = (None if t is None else t.double() for t in tensors)
    sums = a @ b
    for addend in (bias, residual):
        sums = sums if addend is None else sums + addend
    given = [None if t is None else t.to(device) for t in tensors]
    actual = torch.ops.ocl.addmm_epilogue(*given, activation)
    check(actual, ACTIVATIONS[activation](sums), dtype)


@pytest.mark.parametrize("sizes", PRODUCTS, ids=str)
@pytest.mark.parametrize("activation", ["none", "relu", "gelu"])
def test_product(sizes, activation, device):
    a, b, bias, residual = matrices(*sizes)
    for addends in ((None, None), (bias, None), (None, residual), (bias, residual)):
        check_product((a, b, *addends), activation, device)


@pytest.mark.parametrize("activation", list(ACTIVATIONS))
def test_activations(activation, device):
    check_product(matrices(21, 30, 35), activation, device)
    check_product(matrices(1, 30, 35), activation, device)
    case, options = CONVOLUTIONS["taps"]
    check_convolution(case, options, activation, device)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("sizes", PRODUCTS[:5], ids=str)
def test_product_of_halves(dtype, sizes, device):
    check_product(matrices(*sizes, dtype), "gelu", device, dtype)


def test_product_of_views(device):
    """Products of transposed matrices, and residuals with gaps or in column-major order."""
    a, b, bias, residual = matrices(13, 24, 20)
    a, b = a.t().contiguous().t(), b.t().contiguous().t()
    check_product((a, b, bias, residual.t().contiguous().t()), "relu", device)
    wide = torch.randn(13, 50)
    rows = wide.to(device)[:, 3:43:2]
    actual = torch.ops.ocl.addmm_epilogue(a.to(device), b.to(device), bias.to(device), rows, "silu")
    sums = (a @ b + bias + wide[:, 3:43:2]).double()
    check(actual, F.silu(sums))


def check_convolution(case, options, activation, device, dtype=torch.float32, bias=True):
    images, channels, rows, size, kernel = case
    groups = options.get("groups", 1)
    x = torch.randn(images, channels, *size).to(dtype)
    taps = channels // groups * torch.Size(kernel).numel()
    weight = (torch.randn(rows, channels // groups, *kernel) / taps**0.5).to(dtype)
    added = torch.randn(rows).to(dtype) if bias else None
    function = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[len(size)]
    wide = None if added is None else added.double()
    sums = function(x.double(), weight.double(), wide, **options)
    residual = torch.randn(sums.shape).to(dtype)

    def all_of(name, otherwise):
        value = options.get(name, otherwise)
        return [value] * len(size) if isinstance(value, int) else list(value)

    geometry = all_of("stride", 1), all_of("padding", 0), all_of("dilation", 1)
    given = [t if t is None else t.to(device) for t in (x, weight, added)]
    for addend in (None, residual):
        actual = torch.ops.ocl.convolution_epilogue(
            *given,
            *geometry,
            False,
            [0] * len(size),
            groups,
            None if addend is None else addend.to(device),
            activation,
        )
        total = sums if addend is None else sums + addend.double()
        check(actual, ACTIVATIONS[activation](total), dtype)


@pytest.mark.parametrize("name", list(CONVOLUTIONS))
@pytest.mark.parametrize("activation", ["none", "relu", "gelu"])
def test_convolution(name, activation, device):
    check_convolution(*CONVOLUTIONS[name], activation, device, bias=activation != "none")


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("name", ["taps", "winograd tiles", "broadcast", "depthwise"])
def test_convolution_of_halves(dtype, name, device):
    check_convolution(*CONVOLUTIONS[name], "silu", device, dtype)


def test_nan_stays(device):
    a, b = torch.full((20, 3), torch.nan), torch.ones(3, 20)
    for activation in ACTIVATIONS:
        result = torch.ops.ocl.addmm_epilogue(a.to(device), b.to(device), None, None, activation)
        assert result.isnan().all(), activation


def test_empty(device):
    """No rows, no channels to sum over."""
    empty = torch.ops.ocl.addmm_epilogue(
        torch.empty(0, 3, device=device), torch.empty(3, 4, device=device), None, None, "relu"
    )
    assert empty.shape == (0, 4)
    bias, residual = torch.randn(4), torch.randn(2, 4)
    sums = torch.ops.ocl.addmm_epilogue(
        torch.empty(2, 0, device=device),
        torch.empty(0, 4, device=device),
        bias.to(device),
        residual.to(device),
        "relu",
    )
    torch.testing.assert_close(sums.cpu(), F.relu(bias + residual))


def test_errors(device):
    a, b, bias, residual = (t.to(device) for t in matrices(2, 3, 4))
    with pytest.raises(ValueError, match="unknown activation 'selu'"):
        torch.ops.ocl.addmm_epilogue(a, b, bias, None, "selu")
    with pytest.raises(RuntimeError, match="cannot multiply"):
        torch.ops.ocl.addmm_epilogue(a, residual, None, None, "relu")
    with pytest.raises(RuntimeError, match="the residual is"):
        torch.ops.ocl.addmm_epilogue(a, b, bias, residual.t(), "relu")
    with pytest.raises(RuntimeError, match="floating-point"):
        torch.ops.ocl.addmm_epilogue(a.long(), b.long(), None, None, "relu")
    x, weight = torch.randn(1, 2, 5, 5, device=device), torch.randn(3, 2, 3, 3, device=device)
    geometry = [1, 1], [0, 0], [1, 1], False, [0, 0], 1
    with pytest.raises(RuntimeError, match="residual of shape"):
        torch.ops.ocl.convolution_epilogue(x, weight, None, *geometry, x, "relu")


def test_each_activation_is_tested_and_known_to_the_compiler():
    names = re.findall(r'^OCL_ACTIVATION\(\w+, "(\w+)"', TABLE.read_text(), re.MULTILINE)
    assert names == list(ACTIVATIONS)
