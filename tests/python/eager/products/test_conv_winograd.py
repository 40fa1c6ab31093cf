"""Winograd convolutions of the CPU family against float64 and against the direct way."""

from typing import NamedTuple

import pytest
import torch
import torch.nn.functional as F
from support import output_of

from torch_ocl import _C

DIRECT, TILES, ROWS = range(3)
VECTOR = 16  # the algorithm for channels_last takes inputs whose channels are a multiple of it


class Way(NamedTuple):
    order: int  # an index of the tunable conv_cpu
    kernel: str
    last: bool = False  # channels_last

    def whole(self, channels):
        return -(-channels // VECTOR) * VECTOR if self.last else channels

    def kernels(self, rows):
        """The orders of the forward direction and the data gradient; None: another algorithm."""
        return [self.kernel, self.kernel if rows == self.whole(rows) else None]

    def placed(self, tensor, device):
        format = torch.channels_last if self.last and tensor.dim() == 4 else torch.preserve_format
        return tensor.to(device, memory_format=format)


WAY = {
    "tiles": Way(TILES, "winograd_tiles"),
    "rows": Way(ROWS, "winograd_rows"),
    "channels_last tiles": Way(TILES, "winograd_last_blocks", True),
    "channels_last rows": Way(ROWS, "winograd_last_panels", True),
}
WAYS = pytest.mark.parametrize("way", WAY.values(), ids=WAY)

# images, channels, result's channels, height, width, padding
CASES = [
    (1, 1, 1, 1, 1, 1),
    (2, 3, 5, 7, 6, 1),
    (1, 9, 8, 3, 3, 0),
    (3, 4, 17, 5, 9, 2),
    (2, 5, 9, 13, 40, (0, 2)),
    (1, 2, 33, 6, 101, (2, 0)),
    (2, 20, 24, 14, 14, 1),
    (9, 18, 40, 7, 7, 1),
    (1, 6, 4, 9, 8, 4),
    (2, 70, 20, 28, 28, 1),
    (5, 130, 48, 7, 9, 1),
]
RESNET = [(2, 64, 64, 56, 56, 1), (2, 128, 128, 28, 28, 1), (2, 256, 256, 14, 14, 1)]


@pytest.fixture
def force(device):
    if torch.ocl.get_device_properties(device).kernel_family != "cpu":
        pytest.skip("kernels of the CPU family")
    yield lambda order: _C.force_tuned("conv_cpu", order)
    _C.force_tuned("conv_cpu", -1)


def make(case, dtype=torch.float64):
    images, channels, rows, height, width, padding = case
    shapes = (images, channels, height, width), (rows, channels, 3, 3), (rows,)
    return [torch.randn(shape, dtype=dtype) for shape in shapes], padding


def made_for(way, case, dtype=torch.float64):
    images, channels, *others = case
    return make((images, way.whole(channels), *others), dtype)


def results(tensors, grad, placed, padding, kernels=()):
    """-> the output and the data gradient; the last kernels of both must be those given"""
    x, weight, bias = (placed(tensor) for tensor in tensors)
    pair = (padding,) * 2 if isinstance(padding, int) else padding
    y = F.conv2d(x, weight, bias, padding=padding)
    ran = [_C.last_kernel()]
    grad = torch.randn_like(y) if grad is None else placed(grad)
    options = [1, 1], pair, [1, 1], False, [0, 0], 1, [True, False, False]
    data = torch.ops.aten.convolution_backward(grad, x, weight, None, *options)[0]
    ran.append(_C.last_kernel())
    for kernel, expected in zip(ran, kernels):
        assert expected in (kernel, None)
    return [y.cpu(), data.cpu()], grad


def on_cpu(tensor):
    return tensor


def check(case, way, device, force):
    tensors, padding = made_for(way, case)
    expected, grad = results(tensors, None, on_cpu, padding)
    force(way.order)
    tensors, grad = [t.float() for t in tensors], grad.float()
    actual, _ = results(
        tensors, grad, lambda t: way.placed(t, device), padding, way.kernels(case[2])
    )
    for e, a in zip(expected, actual):
        torch.testing.assert_close(a.double(), e, rtol=1e-5, atol=2e-6 * e.abs().max().item())


@pytest.mark.sample
@WAYS
@pytest.mark.parametrize("case", CASES[:3], ids=str)
def test_sample(device, force, case, way):
    check(case, way, device, force)


@WAYS
@pytest.mark.parametrize("case", CASES, ids=str)
def test_results(device, force, case, way):
    check(case, way, device, force)


@WAYS
@pytest.mark.parametrize("case", RESNET, ids=str)
def test_error_is_below_the_direct_one(device, force, case, way):
    """Measured: 0.25 to 0.4 of the direct one, whose sums have nine times as many terms."""
    tensors, padding = made_for(way, case)
    expected, grad = results(tensors, None, on_cpu, padding)
    tensors, grad = [t.float() for t in tensors], grad.float()
    errors = []
    for order in (DIRECT, way.order):
        force(order)
        actual, _ = results(tensors, grad, lambda t: way.placed(t, device), padding)
        errors.append([(a.double() - e).abs().max().item() for a, e in zip(actual, expected)])
    for direct, winograd in zip(*errors):
        assert 0 < winograd <= direct


@pytest.mark.parametrize("last", [False, True], ids=["contiguous", "channels_last"])
@pytest.mark.parametrize("case", [(3, 32, 48, 11, 13, 1), (1, 48, 32, 30, 3, 1)], ids=str)
def test_same_result_every_time(device, force, case, last):
    """In both orders, which differ in who computes what; tasks do not write over each other."""
    tensors, padding = make(case, torch.float32)
    grad, first = None, None
    for way in [way for way in WAY.values() if way.last == last] * 4:
        force(way.order)
        again, grad = results(
            tensors, grad, lambda t, way=way: way.placed(t, device), padding, way.kernels(case[2])
        )
        first = first or again
        assert all(map(torch.equal, first, again))


@WAYS
def test_not_finite(device, force, way):
    """An infinity or a NaN spoils what depends on it, its tile and no more."""
    channels = way.whole(3)
    x, weight = torch.randn(2, channels, 12, 12), torch.randn(8, channels, 3, 3)
    expected = F.conv2d(x, weight, padding=1)
    x[1, 2, 5, 5] = float("nan")
    x[0, 0, 0, 11] = float("inf")
    force(way.order)
    actual = F.conv2d(way.placed(x, device), weight.to(device), padding=1).cpu()
    assert _C.last_kernel() == way.kernel
    assert actual[1, :, 4:7, 4:7].isnan().all()
    assert not actual[0, :, :2, 10:].isfinite().any()
    for image, rows, columns in ((1, slice(3, 8), slice(3, 8)), (0, slice(0, 4), slice(8, 12))):
        actual[image, :, rows, columns] = expected[image, :, rows, columns]
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("rows", [32, 40])  # whole panels of filters, and a part of one
@pytest.mark.parametrize("way", ["channels_last tiles", "channels_last rows"])
def test_contiguous_weights_of_channels_last_inputs(device, force, way, rows):
    way = WAY[way]

    def placed(tensor):
        is_weight = tensor.shape[2:] == (3, 3)
        return tensor.to(device) if is_weight else way.placed(tensor, device)

    tensors, padding = make((2, 32, rows, 9, 8, 1))
    expected, grad = results(tensors, None, on_cpu, padding)
    force(way.order)
    tensors, grad = [t.float() for t in tensors], grad.float()
    actual, _ = results(tensors, grad, placed, padding, way.kernels(rows))
    for e, a in zip(expected, actual):
        torch.testing.assert_close(a.double(), e, rtol=1e-5, atol=2e-6 * e.abs().max().item())


@WAYS
def test_double_backward(device, force, way):
    force(way.order)
    channels, rows = way.whole(3), way.whole(4)
    x = torch.randn(2, channels, 5, 6, dtype=torch.float64)
    weight = torch.randn(rows, channels, 3, 3, dtype=torch.float64)
    sums = []
    for where, dtype in (("cpu", torch.float64), (device, torch.float32)):
        leaves = [way.placed(t.to(dtype), where).detach().requires_grad_() for t in (x, weight)]
        y = F.conv2d(*leaves, padding=1)
        grads = torch.autograd.grad(y.pow(3).sum(), leaves, create_graph=True)
        sum(g.pow(2).sum() for g in grads).backward()
        sums.append([leaf.grad.double().cpu() for leaf in leaves])
    for e, a in zip(*sums):
        torch.testing.assert_close(a, e, rtol=1e-4, atol=1e-6 * e.abs().max().item())


@WAYS
def test_transposed(device, force, way):
    force(way.order)
    channels = way.whole(20)
    x, weight, bias = torch.randn(2, channels, 9, 7), torch.randn(channels, 6, 3, 3), torch.randn(6)
    actual = F.conv_transpose2d(
        way.placed(x, device), weight.to(device), bias.to(device), padding=1
    )
    assert _C.last_kernel() == way.kernel
    expected = F.conv_transpose2d(x, weight, bias, padding=1)
    torch.testing.assert_close(actual.cpu(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "case, kernels",
    [
        ((8, 64, 64, 56, 56, 1), ("winograd_tiles", "winograd_last_blocks")),
        ((8, 512, 512, 7, 7, 1), ("winograd_rows", "winograd_last_panels")),
        ((8, 32, 32, 28, 28, 0), ("winograd_tiles", "winograd_last_blocks")),
        ((8, 3, 3, 56, 56, 1), ("conv_taps", None)),  # in the contiguous format
        ((8, 64, 64, 3, 3, 1), ("conv_broadcast", "conv_channels_last")),
        ((8, 72, 72, 56, 56, 1), ("winograd_tiles", "conv_channels_last")),
    ],
    ids=str,
)
def test_choice(device, force, case, kernels):
    tensors, padding = make(case, torch.float32)
    for way, kernel in zip((WAY["tiles"], WAY["channels_last tiles"]), kernels):
        results(tensors, None, lambda t, way=way: way.placed(t, device), padding, [kernel] * 2)


def test_nothing_is_forced_at_first(device, force):
    program = """
import torch, torch_ocl
x, w = (torch.ones(size, device="ocl") for size in ((2, 64, 28, 28), (64, 64, 3, 3)))
torch.conv2d(x, w, padding=1)
print(torch_ocl._C.last_kernel())
"""
    assert output_of(program) == "winograd_tiles"


@pytest.mark.parametrize(
    "options",
    [{"stride": 2}, {"dilation": 2}, {"groups": 2}, {"padding": (1, 1), "stride": (1, 2)}],
    ids=str,
)
def test_others_go_the_direct_way(device, force, options):
    force(TILES)
    x, weight = torch.randn(2, 8, 9, 9), torch.randn(6, 8 // options.get("groups", 1), 3, 3)
    actual = F.conv2d(x.to(device), weight.to(device), **options)
    assert "winograd" not in _C.last_kernel()
    torch.testing.assert_close(actual.cpu(), F.conv2d(x, weight, **options), rtol=1e-4, atol=1e-4)
