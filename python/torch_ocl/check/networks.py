"""Cases of matrix products, convolutions, attention, recurrent networks and linear algebra."""

import torch
from torch.nn import functional as F

from .inputs import Family, awkward, differentiated, gradients, halves


def products(t, x):
    w = t.x(x.shape[1], 5)
    return [*differentiated(lambda y: y @ w, x), x.t() @ x / 50, x @ t.x(x.shape[1])]


MATRIX_PRODUCTS = Family(
    ("matmul",),
    {
        **awkward(products),
        "matrices": lambda t: [t.x(300, 200) @ t.x(200, 150), t.x(33, 1) @ t.x(1, 17)],
        "large matrices": lambda t: t.x(512, 512) @ t.x(512, 512),
        "transposed": lambda t: [t.x(65, 33).t() @ t.x(65, 17), t.x(33, 65) @ t.x(17, 65).t()],
        "long sums": lambda t: t.x(20, 6000) @ t.x(6000, 30) / 6000**0.5,
        "vectors": lambda t: [t.x(3000, 50) @ t.x(50), t.x(5) @ t.x(5, 4000)],
        "batches": lambda t: [t.x(50, 20, 30) @ t.x(50, 30, 10), t.x(66000, 3, 2) @ t.x(2, 3)],
        "16 bits": halves(lambda x: x @ x.t() / 4),
        "float64": lambda t: t.double(33, 17) @ t.double(17, 9),
        "integers": lambda t: t.i((33, 17), 9).int() @ t.i((17, 9), 9).int(),
        "linear layer": lambda t: F.gelu(F.linear(t.x(9, 65), t.x(33, 65), t.x(33))),
    },
    [
        "OCL_DISABLE=gpu_vector",
        "OCL_GEMM_TILE=6",
        "OCL_DISABLE=gpu_vector,gpu_tiles",
    ],
)


def int8_product(t, x, rows=45):
    """Weights of 8 bits, with a scale for each row."""
    numbers = (t.i((rows, x.shape[1]), 256) - 128).to(torch.int8)
    scales = t.x(rows).abs() / 128
    if t.on_cpu:
        return x @ (numbers * scales[:, None]).t()
    return torch._weight_int8pack_mm(x, numbers, scales)


def int4_product(t, rows, columns, depth, group):
    """Weights of 4 bits, with a scale and a zero for each row of a group."""
    x, numbers = t.x(rows, depth) / depth**0.5, t.i((columns, depth), 16)
    parameters = t.x(depth // group, columns, 2)
    if t.on_cpu:
        scale, zero = (parameters[..., i].repeat_interleave(group, 0).t() for i in (0, 1))
        return x @ ((numbers - 8) * scale + zero).t()
    pairs = (numbers[:, ::2] << 4 | numbers[:, 1::2]).to(torch.uint8)
    packed = torch._convert_weight_to_int4pack(pairs, 2)
    return torch._weight_int4pack_mm(x, packed, group, parameters)


def block_product(t, rows):
    """Weights in blocks of 32 numbers with a scale, as in GGUF files: Q8_0."""
    x, scales = t.x(rows, 256), t.x(40, 8, 1, dtype=torch.half)
    numbers = (t.i((40, 8, 32), 256) - 128).to(torch.int8)
    if t.on_cpu:
        return x @ (scales.float() * numbers).flatten(1).t()
    bytes_of = (scales.view(torch.uint8), numbers.view(torch.uint8))
    return torch.ops.ocl.gguf_linear(x, torch.cat(bytes_of, 2).flatten(1), 8)


PACKED_WEIGHTS = Family(
    ("matmul/packed", "matmul/blocks"),
    {
        **awkward(int8_product),
        "one row, 8 bits": lambda t: int8_product(t, t.x(1, 1031), 70),
        "one row, 4 bits": lambda t: int4_product(t, 1, 40, 128, 32),
        "few rows, 4 bits": lambda t: int4_product(t, 7, 64, 512, 64),
        "one row, blocks": lambda t: block_product(t, 1),
        "few rows, blocks": lambda t: block_product(t, 7),
        "many rows, 4 bits": lambda t: int4_product(t, 70, 40, 128, 32),
    },
)


def convolution(t, images, weight, **options):
    x, w = t.weight(*images), t.weight(*weight)
    return gradients(F.conv2d(x, w, **options), x, w)


def convolved_rows(t, x):
    w = t.x(4, 1, 3)
    return differentiated(lambda y: F.conv1d(y[:, None], w, padding=1), x)


CONVOLUTIONS = Family(
    ("conv",),
    {
        **awkward(convolved_rows),
        "3x3": lambda t: convolution(t, (4, 16, 20, 21), (24, 16, 3, 3), padding=1),
        "3x3, many channels": lambda t: convolution(
            t, (4, 128, 32, 32), (128, 128, 3, 3), padding=1
        ),
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
        "channels last": lambda t: [
            y
            for groups in (1, 16)
            for y in differentiated(
                lambda x, w, groups: F.conv2d(x, w, groups=groups),
                t.x(2, 16, 15, 14).to(memory_format=torch.channels_last),
                t.x(16, 16 // groups, 3, 3),
                groups,
            )
        ],
        "16 bits": lambda t: F.conv2d(
            t.x(2, 5, 9, 8, dtype=torch.half), t.x(7, 5, 3, 3, dtype=torch.half) / 7
        ),
        "float64": lambda t: F.conv2d(t.double(2, 5, 9, 8), t.double(7, 5, 3, 3)),
    },
    [
        "OCL_DISABLE=tiles",
        "OCL_DISABLE=direct",
        "OCL_DISABLE=gpu_winograd",
        "OCL_DISABLE=tiles,direct,gpu_winograd",
        "OCL_CONV_ALGORITHM=plain",
    ],
)


def attention(t, queries, keys, width, **options):
    q, k, v = t.weight(2, 3, queries, width), t.weight(2, 3, keys, width), t.weight(2, 3, keys, 5)
    return gradients(F.scaled_dot_product_attention(q, k, v, **options), q, k, v)


def attended_rows(t, x):
    k, v = t.x(1, 1, 9, x.shape[1]), t.x(1, 1, 9, 5)
    return differentiated(lambda q: F.scaled_dot_product_attention(q[None, None], k, v), x)


ATTENTION = Family(
    ("attention",),
    {
        **awkward(attended_rows),
        "queries and keys": lambda t: attention(t, 65, 33, 16),
        "causal": lambda t: attention(t, 70, 70, 8, is_causal=True),
        "mask": lambda t: attention(t, 33, 40, 8, attn_mask=t.x(33, 40)),
        "wide heads": lambda t: attention(t, 20, 150, 128),
        "few queries": lambda t: attention(t, 1, 700, 64),
    },
    ["OCL_DISABLE=decode_attention", "OCL_DISABLE=fused_attention"],
)


def recurrent(t, kind):
    torch.manual_seed(0)
    network = kind(5, 7, num_layers=2, batch_first=True).to(t.device)
    x = t.weight(3, 9, 5)
    return gradients(network(x)[0], x, *network.parameters())


def cells(t, x):
    """A step of a batch of rows."""
    results = []
    for kind, state in ((torch.nn.LSTMCell, 2), (torch.nn.GRUCell, 1)):
        torch.manual_seed(0)
        cell = kind(x.shape[1], 5).to(t.device)
        hidden = [t.x(x.shape[0], 5) for _ in range(state)]
        hidden = tuple(hidden) if state == 2 else hidden[0]

        def step(y, cell=cell, hidden=hidden):
            found = cell(y, hidden)
            return found[0] + found[1] if isinstance(found, tuple) else found

        results += differentiated(step, x)
    return results


RECURRENT = Family(
    ("rnn",),
    {
        **awkward(cells),
        "LSTM": lambda t: recurrent(t, torch.nn.LSTM),
        "GRU": lambda t: recurrent(t, torch.nn.GRU),
        "plain": lambda t: recurrent(t, torch.nn.RNN),
    },
)


def well_conditioned(t, *shape):
    return t.x(*shape) + 2 * shape[-1] * torch.eye(shape[-1], device=t.device)


def definite(x):
    """A matrix for each row of x."""
    width = x.shape[1]
    products = x[:, :, None] * x[:, None, :] / width
    return products + torch.eye(width, device=x.device)


def factorized(t, x):
    m = definite(x)
    b = t.x(x.shape[0], x.shape[1], 2)
    return [
        torch.linalg.solve(m, b),
        torch.linalg.cholesky(m),
        torch.linalg.det(m),
        torch.linalg.ldl_factor(m).LD,
    ]


LINEAR_ALGEBRA = Family(
    ("linalg",),
    {
        **awkward(factorized),
        "solve": lambda t: torch.linalg.solve(well_conditioned(t, 3, 40, 40), t.x(3, 40, 9)),
        "inverse": lambda t: torch.linalg.inv(well_conditioned(t, 17, 17)),
        "triangular": lambda t: torch.linalg.solve_triangular(
            well_conditioned(t, 3, 33, 33).tril(), t.x(3, 33, 5), upper=False
        ),
        "cholesky": lambda t: torch.linalg.cholesky(
            (m := t.x(2, 33, 33)) @ m.mT / 33 + torch.eye(33, device=t.device)
        ),
        "QR": lambda t: (f := torch.linalg.qr(t.x(3, 20, 9))).Q @ f.R,
        "singular values": lambda t: torch.linalg.svdvals(t.x(20, 40, 12)),
        "eigenvalues": lambda t: torch.linalg.eigvalsh((m := t.x(3, 17, 17)) + m.mT),
        "float64": lambda t: torch.linalg.inv(
            t.double(9, 9) + 20 * torch.eye(9, device=t.device, dtype=torch.float64)
        ),
    },
)

DISTANCES = Family(
    ("linalg",),
    {
        **awkward(
            lambda t, x: [
                y
                for p in (1.0, 2.0, 3.0)
                for y in differentiated(torch.cdist, x, t.x(5, x.shape[1]), p)
            ]
        ),
        "of all pairs": lambda t: F.pdist(t.x(70, 9)),
        "large": lambda t: torch.cdist(t.x(300, 40), t.x(200, 40)),
    },
)


def spectra(t, x):
    return [
        torch.view_as_real(torch.fft.fft(x, dim=1)),
        torch.view_as_real(torch.fft.rfft(x, dim=1)),
        torch.fft.irfft(torch.fft.rfft(x, dim=1), n=x.shape[1], dim=1),
    ]


def no_spectra(t):
    """A transform of no rows, which the CPU's library refuses."""
    x = t.x(0, 7)
    return x.new_empty(0, 4, 2) if t.on_cpu else torch.view_as_real(torch.fft.rfft(x))


def short_time(t):
    window = torch.hann_window(32, device=t.device)
    parts = torch.stft(t.x(3, 200), 32, 8, window=window, return_complex=True)
    return [torch.view_as_real(parts), torch.istft(parts, 32, 8, window=window), window]


FOURIER = Family(
    ("fft",),
    {
        **awkward(spectra),
        "empty": no_spectra,
        "radices": lambda t: [
            torch.view_as_real(torch.fft.fft(t.x(3, n))) for n in (2, 8, 60, 97, 128, 210, 1000)
        ],
        "two dimensions": lambda t: torch.view_as_real(torch.fft.fft2(t.x(2, 50, 60))),
        "real, prime": lambda t: torch.fft.irfft(torch.fft.rfft(t.x(97))),
        "windows": short_time,
    },
)
