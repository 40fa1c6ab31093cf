"""Calls that launch the kernels of matrices, attention, recurrent networks, pooling, images."""

import torch
import torch.nn.functional as F
from case_support import with_gradients

from torch_ocl import _C, image


def products(make, n):
    a, b, x = make(n, 19), make(19, 23), make(19)
    found = [a @ b, a @ x, torch.addmm(make(23), a, b), torch.bmm(a[None], b[None])]
    found += [make(5, 4 * n) @ make(4 * n, 6), (a.half() @ b.half()).float(), x @ b]
    return [*found, make.integers(9, n, 4) @ make.integers(9, 4, 6)]


def plain_product(make, n):
    _C.prefer_gemm_algorithm("plain_product")
    try:
        return [make(n, 9) @ make(9, 5), torch.addmm(make(5), make(4, n), make(n, 5))]
    finally:
        _C.prefer_gemm_algorithm("")


def product_by_tile(tile):
    """A case of the matrix products of GPUs by this tile."""

    def case(make, n):
        _C.force_tuned("gemm_gpu", tile)
        try:
            rows, columns = min(n, 70), min(n + 8, 70)
            found = [make(rows, 19) @ make(19, columns)]
            return [*found, torch.addmm(make(rows, 1), make(rows, 20), make(columns, 20).mT)]
        finally:
            _C.force_tuned("gemm_gpu", -1)

    case.__name__ = f"product_by_tile_{tile}"
    return case


def unit_products(make, n):
    """By a matrix unit, where run.py lets the family emulate one."""
    a, b, c = (x.half() for x in (make(min(n, 40), 24), make(24, 18), make(18)))
    found = [torch.addmm(c, a, b), a.mT.contiguous().mT @ b.mT.contiguous().mT]
    return [x.float() for x in found]


def packed_products(make, n):
    """Weights of eight and of four bits; the CPU computes with what they stand for."""
    rows, width, group = min(n, 40), 64, 32
    numbers = make.integers(200, rows, width) - 100
    scales = make(rows).abs()
    few, parameters = make(1, width), make(width // group, 8, 2).abs()
    nibbles = make.integers(16, 8, width)
    found = []
    for x in (few, make(5, width), make(33, width)):
        if x.device.type == "cpu":
            scale, zero = (parameters[..., i].repeat_interleave(group, 0).mT for i in (0, 1))
            found += [x @ (numbers * scales[:, None]).mT, x @ ((nibbles - 8) * scale + zero).mT]
        else:
            pairs = (nibbles[:, ::2] << 4 | nibbles[:, 1::2]).to(torch.uint8)
            packed = torch._convert_weight_to_int4pack(pairs, 2)
            found += [torch._weight_int8pack_mm(x, numbers.to(torch.int8), scales)]
            found += [torch._weight_int4pack_mm(x, packed, group, parameters)]
    return found


def sparse(make, n):
    dense = make(n, 9) * (make(n, 9) > 0.4)
    right = make(9, 5)
    found = [dense.to_sparse().coalesce() @ right, dense.to_sparse_csr() @ right]
    long = (make(2, 9 * n) > 0.2).float().to_sparse_csr() @ make(9 * n, 4)
    csr = dense.to_sparse_csr()
    return [*found, long, csr.crow_indices(), csr.col_indices(), csr.to_sparse_coo().to_dense()]


def factors(make, n):
    n = {3: 3, 37: 11, 270: 18}[n]
    a = make(2, n, n) + 3 * make.copied(torch.eye(n))
    spd = a @ a.mT + make.copied(torch.eye(n))
    b = make(2, n, 3)
    found = [torch.linalg.cholesky(spd), torch.linalg.solve(a, b), torch.linalg.inv(a)]
    found += [*torch.linalg.lu(a), *torch.linalg.qr(make(2, n + 5, n))]
    found += [torch.linalg.solve_triangular(a.tril(), b, upper=False)]
    found += [torch.linalg.svdvals(a), torch.linalg.eigvalsh(spd), torch.cholesky_inverse(spd)]
    ldl, pivots = torch.linalg.ldl_factor(spd)
    return [*found, torch.linalg.ldl_solve(ldl, pivots, b), torch.linalg.matrix_rank(spd)]


def factors_by_panels(make, n):
    """With more columns than a panel of 32."""
    n = {3: 33, 37: 37, 270: 45}[n]
    a = make(n, n) + 3 * make.copied(torch.eye(n))
    found = [torch.linalg.cholesky(a @ a.mT), torch.linalg.solve(a, make(n, 3))]
    found += [*torch.linalg.lu(a), *torch.linalg.qr(make(n + 5, n))]
    return [*found, torch.linalg.svdvals(a)] if n == 33 else found  # Jacobi's rounds take long


def large_factors(make, n):
    """With more than 256 rows, for which GPUs have separate kernels."""
    if n < 256 or torch.ocl.get_device_properties("ocl").kernel_family != "gpu":
        return [make(1)]
    a = make(n, 3)
    return [*torch.linalg.ldl_factor(a @ a.mT + 3 * make.copied(torch.eye(n)))]


def attention(make, n):
    length = min(n, 40)
    found = []
    for causal in (False, True):
        query, key, value = (make(1, 2, length, 16, grad=True) for _ in range(3))
        result = F.scaled_dot_product_attention(query, key, value, is_causal=causal)
        found += with_gradients(result, query, key, value)
    return found


def decoding(make, n):
    """Few queries: one part of the keys, and several."""
    few, keys, many = make(1, 2, 1, 16), make(1, 2, n, 16), make(1, 2, 130 + n, 16)
    attend = F.scaled_dot_product_attention
    return [attend(few, keys, keys), attend(few, many, many)]


def recurrent(make, n):
    found = []
    for kind in ("LSTM", "GRU"):
        torch.manual_seed(3)
        layer = getattr(torch.nn, kind)(4, 7).to(make.device)
        x = make(3, min(n, 40), 4, grad=True)
        found += with_gradients(layer(x)[0], x)
    return found


# With its compiler's optimizations Oclgrind computes wrong results of attention_forward. PoCL
# computes right ones with its own.
attention.unoptimized = True

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


def long_windows(make, n):
    """Windows of more than 4,096 elements, which several work-items of a GPU share."""
    x = make(1, 1, 5, 31, 27 + min(n, 30))
    return [F.avg_pool3d(x, x.shape[2:]), F.adaptive_max_pool3d(x, 1)]


def resampling(make, n):
    n = min(n, 50)
    x = make(1, 2, 6, n, grad=True)
    found = []
    for mode in ("nearest", "bilinear", "bicubic"):
        found += with_gradients(F.interpolate(x, (9, n + 3), mode=mode), x)
    grid = (make(1, 5, n, 2) * 0.5).requires_grad_()
    for deterministic in (False, True):
        torch.use_deterministic_algorithms(deterministic)
        found += with_gradients(F.grid_sample(x, grid, align_corners=False), x, grid)
    torch.use_deterministic_algorithms(False)
    columns = make(1, 2 * 4, 5 * (n - 1), grad=True)
    found += with_gradients(F.fold(columns, (6, n), 2), columns)
    return [*found, F.unfold(x, 2)]


def images(make, n):
    x = make(2, 3, 8, min(n, 50)).sigmoid().detach().requires_grad_()
    found = with_gradients(image.resize(x, (5, 9)), x)
    found.append(image.resize(x.detach(), (5, 9), "nearest"))
    found += with_gradients(image.gaussian_blur(x, (1.3, 0.8)), x)
    found += with_gradients(image.rotate(x, 25, "bicubic", expand=True), x)
    for adjust in (image.adjust_hue, image.adjust_saturation, image.adjust_contrast):
        found += with_gradients(adjust(x, 0.23), x)
    found += with_gradients(image.normalize(x, [0.4, 0.5, 0.1], [0.2, 0.3, 2]), x)
    return found + with_gradients(image.flip(x, True), x)


CASES = [products, plain_product, *map(product_by_tile, range(8)), unit_products]
CASES += [packed_products, sparse]
CASES += [factors, factors_by_panels, large_factors, attention, decoding, recurrent, pools]
CASES += [long_windows, resampling, images]
