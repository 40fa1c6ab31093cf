"""Shapes at the edge of what convolutions, pools and products take: the CPU's
results, and errors of its classes."""

import pytest
import torch
import torch.nn.functional as F

CONVOLUTIONS = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
TRANSPOSED = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}


def refused(function, device, *tensors):
    """Whether the CPU and the device raise a RuntimeError."""
    for place in ("cpu", device):
        with pytest.raises(RuntimeError):
            function(*(t.to(place) for t in tensors))
    return True


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_kernel_of_size_zero(device, dims, dtype):
    x, weight = torch.ones(2, 3, *[8] * dims), torch.ones(3, 3, *[2] * (dims - 1), 0)
    for function in (CONVOLUTIONS[dims], TRANSPOSED[dims]):
        assert refused(function, device, x.to(dtype), weight.to(dtype))
    assert refused(TRANSPOSED[dims], device, x, torch.ones(3, 0, *[2] * dims))


def test_adaptive_pools_without_channels(device):
    x = torch.ones(0, 0, 4, 8)
    expected = F.adaptive_avg_pool2d(x, (2, 2))
    assert F.adaptive_avg_pool2d(x.to(device), (2, 2)).shape == expected.shape
    assert refused(lambda t: F.adaptive_avg_pool2d(t, 2), device, torch.ones(2, 3, 0, 4))
    for shape in ((0, 0, 4, 8, 8), (2, 0, 4, 8, 8), (2, 3, 0, 8, 8), (3, 4, 0, 8)):
        assert refused(lambda t: F.adaptive_avg_pool3d(t, 2), device, torch.ones(shape))


@pytest.mark.parametrize("beta", [0, 1])
@pytest.mark.parametrize("rows", [0, 4])
def test_what_is_added_must_fit(device, beta, rows):
    def product(c, a, b):
        return torch.addmm(c, a, b, beta=beta)

    assert refused(product, device, torch.ones(2, 3), torch.ones(rows, 5), torch.ones(5, 3))


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("shape", [(1, 3), (3, 1), (4,)], ids=str)
def test_running_statistics_of_other_shapes(device, shape, training):
    def norm(x, mean, var):
        return F.batch_norm(x, mean.clone(), var.clone(), training=training)

    assert refused(norm, device, torch.ones(2, 3, 5), torch.ones(shape), torch.ones(shape))


def test_batch_norm_of_nothing(device):
    def norm(x):
        return torch.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5)

    assert refused(norm, device, torch.ones(0, 3, 5))
    assert F.batch_norm(torch.ones(0, 3, 5, device=device), None, None, training=True).numel() == 0


def test_a_sum_over_its_own_summand(device):
    """The result may be the summand, but not a part of it."""

    def product(base, a, b):
        return torch.addmm(base[1:].view(3, 3), a, b, out=base[:-1].view(3, 3))

    a = torch.randn(3, 3)
    assert refused(product, device, torch.ones(10), a, a)
    whole = torch.ones(3, 3, device=device)
    torch.testing.assert_close(whole.addmm_(a.to(device), a.to(device)).cpu(), a @ a + 1)


@pytest.mark.parametrize("mode", ["reflect", "replicate"])
@pytest.mark.parametrize(
    "shape, padding",
    [
        ((1, 1, 4, 1, 5), (0, 0, 0, -1, 0, 0)),
        ((1, 3, 1, 3), (1, 0, -1, 0)),
        ((2, 3, 4, 5), (-5, 0, 1, 1)),
    ],
    ids=str,
)
def test_pads_that_leave_nothing(device, mode, shape, padding):
    """The CPU accepts them where one dimension is left."""
    expected = F.pad(torch.ones(shape), padding, mode)
    x = torch.ones(shape, device=device, requires_grad=True)
    y = F.pad(x, padding, mode)
    assert y.shape == expected.shape and y.numel() == 0
    (gradient,) = torch.autograd.grad(y, x, torch.ones_like(y))
    assert gradient.shape == x.shape and not gradient.cpu().any()
