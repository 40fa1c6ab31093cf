"""What `python -m torch_ocl.check` runs: small and awkward shapes of each family of kernels.

A case is a function of Inputs. It runs on the CPU and on the device, and both results must agree.
"""

import torch
from torch.nn import functional as F


class Inputs:
    """Makes the same tensors on every device."""

    def __init__(self, device):
        self.device = device
        self.numbers = torch.Generator().manual_seed(0)

    def x(self, *shape, dtype=torch.float32):
        """Normally distributed numbers."""
        return torch.randn(shape, generator=self.numbers).to(dtype).to(self.device)

    def i(self, shape, most):
        """Integers from 0 to `most` - 1."""
        return torch.randint(most, shape, generator=self.numbers).to(self.device)

    def weight(self, *shape):
        """A leaf of moderate size that needs a gradient."""
        return (self.x(*shape) / max(shape[-1], 1) ** 0.5).requires_grad_()


def gradients(result, *inputs):
    """The result and the gradients of the inputs, for gradients of the result from -1 to 1."""
    count = result.numel()
    of_result = torch.linspace(-1, 1, count).reshape(result.shape).to(result.device)
    return [result, *torch.autograd.grad(result, inputs, of_result)]


def convolution(t, images, weight, **options):
    x, w = t.weight(*images), t.weight(*weight)
    return gradients(F.conv2d(x, w, **options), x, w)


def attention(t, queries, keys, width, **options):
    q, k, v = t.weight(2, 3, queries, width), t.weight(2, 3, keys, width), t.weight(2, 3, keys, 5)
    return gradients(F.scaled_dot_product_attention(q, k, v, **options), q, k, v)


def normalized(t, function, *shape):
    x = t.weight(*shape)
    return gradients(function(x), x)


def recurrent(t, kind):
    torch.manual_seed(0)
    network = kind(5, 7, num_layers=2, batch_first=True).to(t.device)
    x = t.weight(3, 9, 5)
    return gradients(network(x)[0], x, *network.parameters())


def well_conditioned(t, *shape):
    return t.x(*shape) + 2 * shape[-1] * torch.eye(shape[-1], device=t.device)


def specials(t):
    numbers = [0.0, -0.0, 1.5, -2.5, float("inf"), -float("inf"), float("nan"), 1e30, 1e-30]
    return torch.tensor(numbers, device=t.device)


def halves(function):
    return lambda t: [function(t.x(33, 17, dtype=d)) for d in (torch.half, torch.bfloat16)]


# Family: (cases by name, settings that may help when one fails).
FAMILIES = {
    "element-wise": (
        {
            "float32": lambda t: [
                t.x(1000, 7).sin() + t.x(7),
                t.x(257).exp(),
                t.x(3, 1) * t.x(1, 5),
            ],
            "special values": lambda t: [specials(t).tanh(), specials(t) * 2, specials(t).round()],
            "16 bits": halves(lambda x: x * 2 + x.sigmoid()),
            "integers": lambda t: [t.i((999,), 90) // 7, t.i((999,), 90) % 7 << 2, -t.i((5, 0), 9)],
            "comparisons": lambda t: [t.x(65) > 0, torch.where(t.x(3, 65) > 0, t.x(65), t.x(1))],
            "complex": lambda t: torch.view_as_real(torch.view_as_complex(t.x(33, 2)).exp() * 2j),
            "strides": lambda t: [t.x(30, 40).t() + 1, t.x(9, 8, 7)[::2, :, 1::3] * 2],
            "no dimensions, no elements": lambda t: [t.x() + 1, t.x(0, 3) * 2],
        },
        ["OCL_DISABLE=vectors"],
    ),
    "reductions": (
        {
            "rows": lambda t: [t.x(70000, 3).sum(1), t.x(70, 3000).sum(1), t.x(1, 100001).mean()],
            "columns": lambda t: [t.x(300, 2000).sum(0), t.x(3000, 3).amax(0)],
            "variance": lambda t: torch.var_mean(t.x(40, 50, 60), 1),
            "positions": lambda t: [t.x(500, 80).argmax(1), t.i((5000,), 9).min(0).values],
            "scans": lambda t: [t.x(300, 90).cumsum(0), t.x(9, 3000).cummax(1).values],
            "sums of 16 bits": halves(lambda x: x.sum(1)),
        },
        [],
    ),
    "matrix products": (
        {
            "matrices": lambda t: [t.x(300, 200) @ t.x(200, 150), t.x(33, 1) @ t.x(1, 17)],
            "large matrices": lambda t: t.x(512, 512) @ t.x(512, 512),
            "transposed": lambda t: [t.x(65, 33).t() @ t.x(65, 17), t.x(33, 65) @ t.x(17, 65).t()],
            "long sums": lambda t: t.x(20, 6000) @ t.x(6000, 30) / 6000**0.5,
            "vectors": lambda t: [t.x(3000, 50) @ t.x(50), t.x(5) @ t.x(5, 4000)],
            "batches": lambda t: [t.x(50, 20, 30) @ t.x(50, 30, 10), t.x(66000, 3, 2) @ t.x(2, 3)],
            "16 bits": halves(lambda x: x @ x.t() / 4),
            "linear layer": lambda t: F.gelu(F.linear(t.x(9, 65), t.x(33, 65), t.x(33))),
        },
        [
            "OCL_DISABLE=clblast",
            "OCL_DISABLE=gpu_vector",
            "OCL_GEMM_TILE=6",
            "OCL_DISABLE=clblast,gpu_vector,gpu_tiles",
        ],
    ),
    "convolutions": (
        {
            "3x3": lambda t: convolution(t, (4, 16, 20, 21), (24, 16, 3, 3), padding=1),
            "1x1": lambda t: convolution(t, (2, 32, 9, 9), (17, 32, 1, 1)),
            "strided, dilated": lambda t: convolution(
                t, (2, 3, 33, 31), (8, 3, 5, 3), stride=2, dilation=(1, 2)
            ),
            "depthwise": lambda t: convolution(t, (2, 40, 15, 16), (40, 1, 3, 3), groups=40),
            "groups": lambda t: convolution(t, (2, 12, 9, 8), (8, 3, 3, 3), groups=4),
            "transposed": lambda t: F.conv_transpose2d(t.x(2, 8, 9, 9), t.x(8, 6, 3, 3), stride=2),
            "one and three dimensions": lambda t: [
                F.conv1d(t.x(3, 4, 70), t.x(5, 4, 7)),
                F.conv3d(t.x(1, 3, 6, 7, 8), t.x(4, 3, 2, 3, 3)),
            ],
        },
        [
            "OCL_DISABLE=tiles",
            "OCL_DISABLE=direct",
            "OCL_DISABLE=tiles,direct",
            "OCL_CONV_ALGORITHM=plain",
            "OCL_DISABLE=clblast",
        ],
    ),
    "pooling, resampling": (
        {
            "maximum": lambda t: normalized(t, lambda x: F.max_pool2d(x, 3, 2, 1), 20, 33, 16, 15),
            "average": lambda t: normalized(t, lambda x: F.avg_pool2d(x, 2), 3, 5, 9, 8),
            "bilinear": lambda t: F.interpolate(t.x(2, 3, 9, 8), (17, 20), mode="bilinear"),
            "nearest": lambda t: F.interpolate(t.x(2, 3, 9, 8), scale_factor=2.0),
        },
        [],
    ),
    "normalisation, softmax": (
        {
            "layer norm": lambda t: normalized(t, lambda x: F.layer_norm(x, (65,)), 300, 65),
            "batch norm": lambda t: normalized(
                t, lambda x: F.batch_norm(x, None, None, training=True), 9, 12, 7, 5
            ),
            "group norm": lambda t: normalized(t, lambda x: F.group_norm(x, 4), 3, 12, 9, 9),
            "softmax": lambda t: normalized(t, lambda x: x.softmax(1), 70, 1000),
            "columns": lambda t: normalized(t, lambda x: x.log_softmax(0), 33, 65),
            "loss": lambda t: F.cross_entropy(t.x(90, 33), t.i((90,), 33)),
        },
        [],
    ),
    "attention": (
        {
            "queries and keys": lambda t: attention(t, 65, 33, 16),
            "causal": lambda t: attention(t, 70, 70, 8, is_causal=True),
            "wide heads": lambda t: attention(t, 20, 150, 128),
        },
        ["OCL_DISABLE=fused_attention"],
    ),
    "indexing, sorting": (
        {
            "rows": lambda t: [t.x(100, 40)[t.i((70000,), 100)], t.x(9, 8)[:, t.i((5,), 8)]],
            "sums by index": lambda t: [
                t.x(50, 7).index_add(0, t.i((900,), 50), t.x(900, 7) / 30),
                torch.zeros(9, dtype=torch.int64, device=t.device).index_add(
                    0, t.i((900,), 9), t.i((900,), 99)
                ),
                torch.bincount(t.i((3000,), 17)),
            ],
            "gather": lambda t: t.x(90, 40).gather(1, t.i((90, 30), 40)),
            "embedding": lambda t: gradients(
                F.embedding(t.i((40, 50), 300), table := t.weight(300, 24)), table
            ),
            "sort": lambda t: [
                *t.x(50, 3000).sort(dim=1, stable=True),
                t.i((40000,), 1000).sort().values,
            ],
            "largest": lambda t: t.x(90, 500).topk(7).values,
            "transposed copies": lambda t: [
                t.x(500, 700).t().contiguous(),
                t.x(40, 50, 70).transpose(1, 2).contiguous(),
            ],
        },
        ["OCL_DISABLE=transpose_tiles", "OCL_DISABLE=sorted_writes", "OCL_DISABLE=topk"],
    ),
    "linear algebra": (
        {
            "solve": lambda t: torch.linalg.solve(well_conditioned(t, 3, 40, 40), t.x(3, 40, 9)),
            "inverse": lambda t: torch.linalg.inv(well_conditioned(t, 17, 17)),
            "cholesky": lambda t: torch.linalg.cholesky(
                (m := t.x(2, 33, 33)) @ m.mT / 33 + torch.eye(33, device=t.device)
            ),
            "singular values": lambda t: torch.linalg.svdvals(t.x(20, 40, 12)),
            "Fourier transforms": lambda t: [
                torch.view_as_real(torch.fft.fft(t.x(50, 60))),
                torch.fft.irfft(torch.fft.rfft(t.x(97))),
            ],
        },
        [],
    ),
    "recurrent networks": (
        {
            "LSTM": lambda t: recurrent(t, torch.nn.LSTM),
            "GRU": lambda t: recurrent(t, torch.nn.GRU),
        },
        [],
    ),
}
# Settings to try when any family fails.
GENERAL = ["OCL_BUILD_OPTIONS=-cl-opt-disable", "OCL_LAUNCH_BLOCKING=1", "OCL_CACHE_DIR=off"]
# Of an element, and of the largest one where that is below 1. Other types: torch.testing's.
TOLERANCE = {torch.float32: 2e-4, torch.float16: 4e-3, torch.bfloat16: 3e-2}


def compare(function, device):
    """Raises an error that says what differs between the CPU and the device."""

    def results(where):
        found = function(Inputs(where))
        return [x.detach().cpu() for x in ([found] if isinstance(found, torch.Tensor) else found)]

    expected, actual = results("cpu"), results(device)
    for number, (a, e) in enumerate(zip(actual, expected, strict=True)):
        tolerance = TOLERANCE.get(a.dtype)
        largest = e[e.isfinite()].abs().max().item() if tolerance and e.isfinite().any() else 1
        absolute = tolerance and tolerance * min(largest, 1)
        torch.testing.assert_close(
            a, e, rtol=tolerance, atol=absolute, equal_nan=True, msg=f"result {number}: {{}}".format
        )
