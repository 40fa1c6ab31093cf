"""Calls that launch the kernels of matrices, convolutions, attention, pooling, images, networks."""

import torch
import torch.nn.functional as F
from case_support import with_gradients

from torch_ocl import _C, image


def products(make, n):
    a, b, x = make(n, 19), make(19, 23), make(19)
    found = [a @ b, a @ x, torch.addmm(make(23), a, b), torch.bmm(a[None], b[None])]
    found += [make(5, 4 * n) @ make(4 * n, 6), (a.half() @ b.half()).float(), x @ b]
    return [*found, make.integers(9, n, 4) @ make.integers(9, 4, 6)]


def sparse(make, n):
    dense = make(n, 9) * (make(n, 9) > 0.4)
    right = make(9, 5)
    found = [dense.to_sparse().coalesce() @ right, dense.to_sparse_csr() @ right]
    long = (make(2, 9 * n) > 0.2).float().to_sparse_csr() @ make(9 * n, 4)
    csr = dense.to_sparse_csr()
    return [*found, long, csr.crow_indices(), csr.col_indices(), csr.to_sparse_coo().to_dense()]


def factors(make, n):
    n = {3: 3, 37: 11, 270: 34}[n]  # more than a panel of 32 columns
    a = make(2, n, n) + 3 * make.copied(torch.eye(n))
    spd = a @ a.mT + make.copied(torch.eye(n))
    b = make(2, n, 3)
    found = [torch.linalg.cholesky(spd), torch.linalg.solve(a, b), torch.linalg.inv(a)]
    found += [*torch.linalg.lu(a), *torch.linalg.qr(make(2, n + 5, n))]
    found += [torch.linalg.solve_triangular(a.tril(), b, upper=False)]
    found += [torch.linalg.svdvals(a), torch.linalg.eigvalsh(spd), torch.cholesky_inverse(spd)]
    ldl, pivots = torch.linalg.ldl_factor(spd)
    return [*found, torch.linalg.ldl_solve(ldl, pivots, b), torch.linalg.matrix_rank(spd)]


def attention(make, n):
    length = min(n, 40)
    found = []
    for causal in (False, True):
        query, key, value = (make(1, 2, length, 16, grad=True) for _ in range(3))
        result = F.scaled_dot_product_attention(query, key, value, is_causal=causal)
        found += with_gradients(result, query, key, value)
    few = make(1, 2, 1, 16)
    keys = make(1, 2, 4 * n, 16)
    return [*found, F.scaled_dot_product_attention(few, keys, keys)]


def recurrent(make, n):
    found = []
    for kind in ("LSTM", "GRU"):
        torch.manual_seed(3)
        layer = getattr(torch.nn, kind)(4, 7).to(make.device)
        x = make(3, min(n, 40), 4, grad=True)
        found += with_gradients(layer(x)[0], x)
    return found


POOLS = [(F.max_pool2d, 2), (F.avg_pool2d, 2), (F.max_pool3d, 3), (F.avg_pool3d, 3)]


def pools(make, n):
    found = []
    for pool, dimensions in POOLS:
        x = make(1, 3, *[7] * (dimensions - 1), min(n, 40), grad=True)
        for window in (2, 3):
            found += with_gradients(pool(x, window, stride=2, padding=1), x)
        found += with_gradients(pool(x, window, stride=1, padding=1), x)
        if dimensions == 2:
            last = x.detach().to(memory_format=torch.channels_last).requires_grad_()
            found += with_gradients(pool(last, 2), last)
    x = make(2, 3, 8, min(n, 40), grad=True)
    found += with_gradients(F.adaptive_avg_pool2d(x, 1), x)
    volume = make(1, 2, 6, 7, n, grad=True)
    found += with_gradients(F.adaptive_avg_pool3d(volume, 1), volume)
    found += with_gradients(F.adaptive_max_pool3d(volume, 1), volume)
    return found


def resampling(make, n):
    n = min(n, 50)
    x = make(1, 2, 6, n, grad=True)
    found = []
    for mode in ("nearest", "bilinear", "bicubic"):
        found += with_gradients(F.interpolate(x, (9, n + 3), mode=mode), x)
    grid = (make(1, 5, n, 2) * 0.5).requires_grad_()
    found += with_gradients(F.grid_sample(x, grid, align_corners=False), x, grid)
    columns = make(1, 2 * 4, 5 * (n - 1), grad=True)
    found += with_gradients(F.fold(columns, (6, n), 2), columns)
    return [*found, F.unfold(x, 2)]


def images(make, n):
    x = make(2, 3, 8, min(n, 50)).sigmoid().detach().requires_grad_()
    found = with_gradients(image.resize(x, (5, 9)), x)
    found += with_gradients(image.gaussian_blur(x, (1.3, 0.8)), x)
    found += with_gradients(image.rotate(x, 25, "bicubic", expand=True), x)
    for adjust in (image.adjust_hue, image.adjust_saturation, image.adjust_contrast):
        found += with_gradients(adjust(x, 0.23), x)
    found += with_gradients(image.normalize(x, [0.4, 0.5, 0.1], [0.2, 0.3, 2]), x)
    return found + with_gradients(image.flip(x, True), x)


# input, weight, groups, stride
CONVOLUTIONS = [((1, 4, 9), 6, 1, 1), ((1, 6, 7), 6, 6, 1), ((2, 3, 6), 5, 1, 2)]


def convolved(make, n, algorithm, last=False):
    """The result and the gradients with this algorithm where it applies."""
    _C.prefer_conv_algorithm(algorithm)
    found = []
    try:
        for (images, channels, height), rows, groups, stride in CONVOLUTIONS:
            x = make(images, channels, height, min(n, 40))
            weight = make(rows, channels // groups, 3, 3, grad=True)
            if last:
                x = x.to(memory_format=torch.channels_last)
            x.requires_grad_()
            result = F.conv2d(x, weight, make(rows), stride, 1, groups=groups)
            found += with_gradients(result, x, weight)
    finally:
        _C.prefer_conv_algorithm("")
    return found


def convolution(algorithm, last=False):
    def case(make, n):
        return convolved(make, n, algorithm, last)

    case.__name__ = f"convolution_{algorithm}{'_last' * last}"
    return case


ALGORITHMS = "depthwise winograd broadcast padded split gpu_winograd tiles direct plain"
CHANNELS_LAST = "channels_last_product channels_last_depthwise channels_last"

CASES = [products, sparse, factors, attention, recurrent, pools, resampling, images]
CASES += [convolution(name) for name in ALGORITHMS.split()]
CASES += [convolution(name, last=True) for name in CHANNELS_LAST.split()]
