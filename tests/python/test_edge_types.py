"""What the types of the arguments decide: promotion, numbers beyond a type, classes of errors."""

import torch
import torch.nn.functional as F
from support import assert_agrees, random_tensor


def test_dropout_backward_promotes_each_product(device):
    mask = torch.tensor([True, False, True, False])
    for gradient in (torch.int64, torch.uint8, torch.float32, torch.float16):
        for kind in (torch.bool, torch.int8, torch.float16, torch.bfloat16, torch.float32):
            g = random_tensor((4,), gradient)
            assert_agrees(
                lambda g, m: torch.ops.aten.native_dropout_backward(g, m, 1.5),
                device,
                g,
                mask.to(kind),
            )


def test_index_reduce_names_an_index_out_of_range(device):
    for index in ([0, 3], [-1, 0]):
        assert_agrees(
            lambda x, i: x.index_reduce(0, i, x[:2], "prod"),
            device,
            torch.arange(6.0).view(3, 2),
            torch.tensor(index),
        )


def test_convolution_of_a_real_and_a_complex_tensor(device):
    image, weight = torch.ones(1, 2, 5, 5), torch.ones(3, 2, 3, 3, dtype=torch.complex64)
    assert_agrees(F.conv2d, device, image, weight)
    assert_agrees(lambda x, w: F.conv_transpose2d(x, w.mT), device, image.mT, weight)


def test_sizes_of_windows_beyond_32_bits(device):
    for size in (-(2**31) - 1, 2**31):
        assert_agrees(lambda x, size=size: F.max_pool3d(x, size), device, torch.ones(1, 1, 4, 4, 4))
