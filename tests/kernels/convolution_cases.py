"""Small convolutions, some for each algorithm."""

import contextlib

import torch
import torch.nn.functional as F
from case_support import with_gradients

from torch_ocl import _C

# images, channels, height, width (at most; None: enough for 520 pixels), channels of the result,
# groups, side of the kernel, stride
GENERAL = (1, 5, 9, 40, 9, 1, 3, 1)
STRIDED = (2, 3, 6, 40, 9, 1, 3, 2)
GROUPED = (1, 4, 5, 20, 6, 2, 3, 1)
POINTWISE = (1, 5, 4, 40, 7, 1, 1, 1)
CHANNELWISE = (1, 17, 6, 40, 17, 17, 3, 1)
CHANNELWISE_STRIDED = (1, 17, 6, 40, 17, 17, 3, 2)
MANY_RESULTS = (1, 15, 3, 7, 65, 1, 3, 1)
MANY_CHANNELS = (1, 65, 3, 7, 3, 1, 3, 1)
LARGE_PLANE = (1, 1, None, 40, 2, 1, 3, 1)
FEW_CHANNELS = (1, 3, 6, 40, 9, 1, 3, 1)
WHOLE_VECTORS = (1, 16, 5, 20, 17, 1, 3, 1)
MORE_CHANNELS = (1, 9, 5, 20, 17, 1, 3, 1)

BY_ALGORITHM = {
    "depthwise": [CHANNELWISE, CHANNELWISE_STRIDED],
    "broadcast": [MANY_RESULTS, MANY_CHANNELS],
    "padded": [GENERAL, STRIDED, GROUPED, LARGE_PLANE],
    "tiles": [GENERAL, STRIDED, GROUPED],
    "direct": [GENERAL, STRIDED],
    "plain": [GENERAL, STRIDED, GROUPED],
    "channels_last_product": [POINTWISE],
    "channels_last_depthwise": [CHANNELWISE, CHANNELWISE_STRIDED],
    "channels_last": [FEW_CHANNELS, MORE_CHANNELS, STRIDED],
    "channels_last_winograd_tiles": [WHOLE_VECTORS],
    "channels_last_winograd_rows": [WHOLE_VECTORS],
}
# Algorithms that the tuner would choose: both orders of Winograd's on CPUs, and Winograd's on GPUs.
TUNED = {
    "winograd_tiles": ("conv_cpu", 1),
    "winograd_rows": ("conv_cpu", 2),
    "channels_last_winograd_tiles": ("conv_cpu", 1),
    "channels_last_winograd_rows": ("conv_cpu", 2),
    "gpu_winograd": ("conv_gpu", len(_C.gemm_gpu_tiles())),
}


@contextlib.contextmanager
def chosen(algorithm):
    """Convolutions by this algorithm of BY_ALGORITHM or TUNED, where it applies."""
    tunable, number = TUNED.get(algorithm, ("conv_cpu", 0))  # else not by Winograd's
    _C.force_tuned(tunable, number)
    _C.prefer_conv_algorithm("" if algorithm in TUNED else algorithm)
    try:
        yield
    finally:
        _C.prefer_conv_algorithm("")
        _C.force_tuned(tunable, -1)


def convolved(make, n, problem, last):
    """The result and all gradients."""
    images, channels, height, most, rows, groups, side, stride = problem
    width = min(n, most)
    x = make(images, channels, height or 520 // width + 1, width)
    weight, bias = make(rows, channels // groups, side, side, grad=True), make(rows, grad=True)
    if last:
        x = x.to(memory_format=torch.channels_last)
    x.requires_grad_()
    result = F.conv2d(x, weight, bias, stride, side // 2, groups=groups)
    return with_gradients(result, x, weight, bias)


def convolution(algorithm):
    def case(make, n):
        last = algorithm.startswith("channels_last")
        with chosen(algorithm):
            problems = BY_ALGORITHM.get(algorithm, [GENERAL, (*STRIDED[:-1], 1)])
            return [x for problem in problems for x in convolved(make, n, problem, last)]

    case.__name__ = f"convolution_{algorithm}"
    return case


CASES = [convolution(name) for name in (*BY_ALGORITHM, *TUNED)]
