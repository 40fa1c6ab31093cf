"""Linear layers with weights of 8 and 4 bits, against the weights as float64 numbers."""

import pytest
import torch
import torch_ocl._C as backend
from support import generator, has_fp64, random_tensor

DTYPES = [torch.float32, torch.float16, torch.bfloat16]
NEAR = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1e-2}
# 1 to 32 rows take the kernels that read packed weights, more rows a product of floats.
ROWS = [1, 2, 3, 7, 32, 33]


def assert_product(actual, x, weight):
    """x times the transposed of the weights, in the type of x."""
    expected = x.double() @ weight.double().t()
    assert actual.device.type == "ocl" and actual.dtype == x.dtype and actual.is_contiguous()
    assert actual.shape == expected.shape
    if expected.numel():
        scale = expected.abs().max().clamp_min(torch.finfo(torch.float32).tiny)
        error = (actual.cpu().double() - expected).abs().max() / scale
        assert error < NEAR[x.dtype], error.item()


def int8_layer(rows, width, dtype):
    numbers = random_tensor((rows, width), torch.int8, low=-128, high=128)
    scales = torch.rand(rows, generator=generator(1)).to(dtype)
    return numbers, scales, numbers.double() * scales.double()[:, None]


@pytest.mark.sample
@pytest.mark.parametrize("m", ROWS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_int8(device, dtype, m):
    x = random_tensor((m, 100), dtype, seed=2, low=-1, high=1)
    numbers, scales, weight = int8_layer(45, 100, dtype)
    actual = torch._weight_int8pack_mm(x.to(device), numbers.to(device), scales.to(device))
    assert_product(actual, x, weight)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_rows_of_int8_do_not_depend_on_their_number(device, dtype):
    """A scaled weight is not rounded to the type, however many rows there are."""
    x = random_tensor((33, 1024), dtype, seed=2, low=-1, high=1)
    numbers, scales, weight = int8_layer(64, 1024, dtype)
    exact = x.double() @ weight.t()
    errors = []
    for rows in (32, 33):
        actual = torch._weight_int8pack_mm(
            x[:rows].to(device), numbers.to(device), scales.to(device)
        )
        errors.append((actual.cpu().double() - exact[:rows]).square().mean().sqrt())
    assert errors[1] < 1.1 * errors[0]


@pytest.mark.parametrize("rows, width", [(1, 1), (3, 15), (64, 16), (200, 1031), (5, 0), (0, 16)])
@pytest.mark.parametrize("m", [1, 2])
def test_int8_sizes(device, m, rows, width):
    x = random_tensor((m, width), torch.float32, seed=2, low=-1, high=1)
    numbers, scales, weight = int8_layer(rows, width, torch.float32)
    actual = torch._weight_int8pack_mm(x.to(device), numbers.to(device), scales.to(device))
    assert_product(actual, x, weight)


def test_views(device):
    """Rows apart, columns apart, an offset; scales of another type."""
    x = random_tensor((6, 160), torch.float32, seed=2, low=-1, high=1)
    numbers, scales, weight = int8_layer(24, 32, torch.float32)
    moved = [t.to(device) for t in (x, numbers, scales)]
    for part in (lambda t: t[1:4, 3:35], lambda t: t[::2, :32], lambda t: t[:, 1:160:5]):
        actual = torch._weight_int8pack_mm(part(moved[0]), *moved[1:])
        assert_product(actual, part(x), weight)
    doubled = torch.cat([moved[1], moved[1]])[::2]
    actual = torch._weight_int8pack_mm(moved[0][:, :32], doubled[:12], moved[2][::2])
    assert_product(actual, x[:, :32], numbers[::2].double() * scales[::2].double()[:, None])
    if has_fp64(device):
        actual = torch._weight_int8pack_mm(moved[0][:, :32], moved[1], moved[2].double())
        assert_product(actual, x[:, :32], weight)


def int4_numbers(rows, width):
    return random_tensor((rows, width), torch.uint8, seed=3, high=16)


def groups_of(parameters, group):
    """[groups][rows] to [rows][width]."""
    return parameters.double().repeat_interleave(group, 0).t()


@pytest.mark.sample
@pytest.mark.parametrize("m", ROWS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_int4(device, dtype, m):
    """CUDA's operators: a scale and a zero for each group."""
    check_int4(device, dtype, m, 40, 128, 32)


@pytest.mark.parametrize(
    "rows, width, group, tiles",
    [
        (8, 32, 32, 2),
        (64, 512, 64, 8),
        (200, 1024, 128, 4),
        (16, 256, 256, 8),
        (16, 4096, 4096, 8),
        (40, 2176, 128, 8),
        (24, 8320, 32, 2),  # more groups than the kernel keeps scales for
        (0, 64, 32, 2),
    ],
)
@pytest.mark.parametrize("m", [1, 3])
def test_int4_sizes(device, m, rows, width, group, tiles):
    check_int4(device, torch.float32, m, rows, width, group, tiles)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_int4_unpacked_in_parts(device, dtype):
    """More than kMostUnpacked weights."""
    check_int4(device, dtype, 33, 2056, 8192, 256)


def check_int4(device, dtype, m, rows, width, group, tiles=2, scale=1):
    numbers = int4_numbers(rows, width)
    bytes_of_pairs = (numbers[:, ::2] << 4 | numbers[:, 1::2]).to(device)
    packed = torch._convert_weight_to_int4pack(bytes_of_pairs, tiles)
    assert packed.dtype == torch.int32
    assert packed.shape == (rows // 8, width // (16 * tiles), 32, tiles // 2)
    parameters = torch.rand(width // group, rows, 2, generator=generator(4)).to(dtype)
    x = random_tensor((m, width), dtype, seed=2, low=-1, high=1)
    x *= scale
    actual = torch._weight_int4pack_mm(x.to(device), packed, group, parameters.to(device))
    scale, zero = (groups_of(parameters[..., i], group) for i in (0, 1))
    assert_product(actual, x, (numbers.double() - 8) * scale + zero)


@pytest.mark.parametrize("width", [192, 4608])
@pytest.mark.parametrize("m", ROWS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_int4_with_integer_zeros(device, dtype, m, width):
    """XPU's operator: eight weights to an int32, the first in its lowest bits."""
    rows, group = 23, 64
    numbers = int4_numbers(rows, width)
    packed = (numbers[:, 1::2] << 4 | numbers[:, ::2]).view(torch.int32)
    scales = torch.rand(width // group, rows, generator=generator(4)).to(dtype)
    zeros = random_tensor((width // group, rows), torch.int8, seed=5, low=-8, high=20)
    x = random_tensor((m, width), dtype, seed=2, low=-1, high=1)
    actual = torch._weight_int4pack_mm_with_scales_and_zeros(
        *(t.to(device) for t in (x, packed)), group, scales.to(device), zeros.to(device)
    )
    weight = (numbers.double() - groups_of(zeros, group)) * groups_of(scales, group)
    assert_product(actual, x, weight)


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_int4_of_small_and_large_numbers(device, scale):
    check_int4(device, torch.float32, 1, 40, 256, 32, scale=scale)


def test_int4_of_infinity_is_not_finite(device):
    packed = torch.zeros(2, 4, 32, 1, dtype=torch.int32, device=device)
    parameters = torch.ones(4, 16, 2, device=device)
    x = torch.ones(1, 128, device=device)
    x[0, 70] = torch.inf
    assert not torch._weight_int4pack_mm(x, packed, 32, parameters).isfinite().any()


@pytest.mark.parametrize("group", range(4))
def test_int4_of_an_infinite_zero(device, group):
    """Kernels read the scales of a row in vectors, which may have more lanes than it has groups."""
    packed = torch.full((2, 4, 32, 1), -0x66666667, dtype=torch.int32, device=device)  # nines
    parameters = torch.ones(4, 16, 2)
    parameters[group, 0, 1] = torch.inf
    x = torch.ones(1, 128, device=device)
    result = torch._weight_int4pack_mm(x, packed, 32, parameters.to(device))
    assert result[0].tolist() == [torch.inf] + 15 * [256]


def test_few_rows_read_the_packed_weights(device):
    numbers, scales, _ = (t.to(device) for t in int8_layer(16, 64, torch.float32))
    x = torch.ones(1, 64, device=device)
    before = backend.launch_count()
    torch._weight_int8pack_mm(x, numbers, scales)
    assert backend.launch_count() == before + 1
    assert backend.last_kernel().startswith("packed_linear")


def test_errors(device):
    x, packed = torch.ones(2, 64, device=device), torch.zeros(8, 8, device=device).int()
    numbers = torch.zeros(8, 64, dtype=torch.int8, device=device)
    scales, zeros = torch.ones(2, 8, device=device), torch.zeros(2, 8, device=device).to(torch.int8)
    with pytest.raises(RuntimeError, match="rows of its width"):
        torch._weight_int8pack_mm(x[:, :63], numbers, scales[0])
    with pytest.raises(RuntimeError, match="a scale for each of 8 rows"):
        torch._weight_int8pack_mm(x, numbers, scales[0, :7])
    run = torch._weight_int4pack_mm_with_scales_and_zeros
    for group in (16, 48, 128):
        with pytest.raises(RuntimeError, match="qGroupSize must be a power of 2"):
            run(x, packed, group, scales, zeros)
    with pytest.raises(RuntimeError, match=r"scales and zeros of shape \[2, 8\]"):
        run(x, packed, 32, scales[:1], zeros)
    with pytest.raises(RuntimeError, match="zeros of int8"):
        run(x, packed, 32, scales, scales)
    with pytest.raises(RuntimeError, match="eight to an int32"):
        run(x, packed[:, :7], 32, scales, zeros)
