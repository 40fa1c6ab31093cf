"""Products of bfloat16: on CPU devices in the processor's own instructions, where it has them.

Factors are small integers, whose sums float32 holds. So a result is the rounded exact one, whatever
the order of the sums.
"""

import itertools
import pathlib

import pytest
import torch
import torch.nn.functional as F
from support import altered_kernels, output_of, run_python

CPUINFO = pathlib.Path("/proc/cpuinfo")


def integers(*shape):
    return torch.randint(-8, 9, shape).bfloat16()


def surrounded(matrix, before, transposed=False):
    """The matrix as a part of a larger one, of NaN; `before`: columns before it."""
    rows, columns = matrix.shape[::-1] if transposed else matrix.shape
    larger = torch.full((rows + 2, columns + before + 3), float("nan"), dtype=matrix.dtype)
    part = larger[1:-1, before : before + columns]
    part.copy_(matrix.t() if transposed else matrix)
    return larger, (lambda on: on[1:-1, before : before + columns].t()) if transposed else (
        lambda on: on[1:-1, before : before + columns]
    )


def assert_rounds(actual, expected, text=""):
    """`expected`: in float32"""
    torch.testing.assert_close(
        actual.cpu(), expected.bfloat16(), rtol=0, atol=0, equal_nan=True, msg=lambda m: text + m
    )


def leaves(device, *tensors):
    """In float32 on the CPU, and as they are on the device; with gradients."""
    wanted = [x.float().requires_grad_() for x in tensors]
    return wanted, [x.to(device).requires_grad_() for x in tensors]


def go_back(expected, actual, grad):
    """The backward pass of both, from the same gradient."""
    expected.backward(grad.float())
    actual.backward(grad.to(actual.device))


@pytest.mark.parametrize("inner", [1, 2, 3, 31, 33, 64, 65, 1025, 2050])
def test_products(device, inner):
    """All layouts, with numbers around the operands that must not be read."""
    for rows, columns in itertools.product((1, 2, 8, 9, 13, 130), (1, 2, 15, 16, 33, 130)):
        a, b = integers(rows, inner), integers(inner, columns)
        for transposed in itertools.product((False, True), repeat=2):
            for before in (0, 1):
                parts = []
                for matrix, flag in zip((a, b), transposed, strict=True):
                    larger, part = surrounded(matrix, before, flag)
                    parts.append(part(larger.to(device)))
                text = f"{rows} x {inner} x {columns}, {transposed}, {before}: "
                assert_rounds(parts[0] @ parts[1], a.float() @ b.float(), text)


def test_batches_and_epilogues(device):
    a, b, c = integers(3, 20, 47), integers(3, 47, 29), integers(20, 29)
    assert_rounds(a.to(device) @ b.to(device), a.float() @ b.float())
    expected = 2 * (a.float() @ b.float()) + 3 * c.float()
    actual = torch.baddbmm(c.to(device), a.to(device), b.to(device), beta=3, alpha=2)
    assert_rounds(actual, expected)
    weight, bias = integers(29, 47), integers(29)
    for rows in (a[0], a[0, :1]):
        expected = F.linear(rows.float(), weight.float(), bias.float())
        assert_rounds(F.linear(*(x.to(device) for x in (rows, weight, bias))), expected)


def test_special_numbers(device):
    """An infinity or NaN stays in its row and column, also where the other factor is a padding."""
    a, b = integers(20, 33), integers(33, 18)
    a[3, 32], a[4, 0], b[32, 5], b[1, 6] = (float(x) for x in ("inf", "nan", "-inf", "nan"))
    a[:, 31] = 2.0**100
    b[31] = 2.0**20
    expected = (a.double() @ b.double()).float()
    for columns in (slice(None), slice(0, 1), slice(5, 6)):
        actual = a.to(device) @ b.to(device)[:, columns]
        assert_rounds(actual, expected[:, columns])


# channels, filters, size of the kernel, stride, padding, dilation
CONVOLUTIONS = [
    (3, 16, 3, 1, 1, 1),
    (3, 24, 7, 2, 3, 1),
    (64, 64, 3, 1, 1, 1),
    (64, 40, 3, 2, 1, 1),
    (65, 33, 3, 1, 1, 1),
    (300, 32, 1, 1, 0, 1),
    (301, 32, 1, 2, 0, 1),
    (514, 32, 3, 1, 1, 1),
    (32, 64, 5, 1, 2, 2),
    (16, 8, 2, 2, 0, 1),
    (7, 9, 3, 1, 1, 1),
    (64, 4, 3, 1, 1, 1),
]


@pytest.mark.parametrize("shape", CONVOLUTIONS, ids=str)
def test_convolutions(device, shape):
    """Results and gradients of inputs round once; formats are the CPU's."""
    channels, filters, size, stride, padding, dilation = shape
    for transposed, layout in itertools.product(
        (False, True), (torch.contiguous_format, torch.channels_last)
    ):
        function = F.conv_transpose2d if transposed else F.conv2d
        x = integers(2, channels, 11, 9).contiguous(memory_format=layout)
        sizes = (channels, filters) if transposed else (filters, channels)
        weight = integers(*sizes, size, size).contiguous(memory_format=layout)
        bias = integers(filters)
        options = {"stride": stride, "padding": padding, "dilation": dilation}

        wanted, found = leaves(device, x, weight)
        expected = function(*wanted, bias.float(), **options)
        actual = function(*found, bias.to(device), **options)
        text = f"transposed {transposed}, {layout}: "
        assert_rounds(actual.detach(), expected.detach(), text)
        of_cpu = function(x, weight, bias, **options)
        assert actual.stride() == of_cpu.stride(), text
        go_back(expected, actual, integers(*expected.shape))
        for name, a, e in zip(("input", "weight"), found, wanted, strict=True):
            assert_rounds(a.grad, e.grad, f"{text}gradient of the {name}: ")


def test_convolutions_of_volumes_and_lines(device):
    for function, sizes in ((F.conv1d, (19,)), (F.conv3d, (5, 6, 7))):
        x, weight = integers(2, 34, *sizes), integers(16, 34, *(3 for _ in sizes))
        expected = function(x.float(), weight.float(), padding=1)
        assert_rounds(function(x.to(device), weight.to(device), padding=1), expected)
        ones = [1] * len(sizes)
        fused = torch.ops.ocl.convolution_epilogue(
            x.to(device), weight.to(device), None, ones, ones, ones, False, [0], 1, None, "relu"
        )
        assert_rounds(fused, expected.relu())


@pytest.mark.parametrize("channels", [1821, 3641, 14479, 28958])
def test_convolutions_of_many_channels(device, channels):
    """Channels are copied in parts; the last part may be short."""
    for dtype in (torch.bfloat16, torch.float32):
        x, weight = integers(1, channels, 3, 3), integers(8, channels, 3, 3)
        expected = F.conv2d(x.double(), weight.double()).to(dtype)
        actual = F.conv2d(
            *(t.to(device, dtype).to(memory_format=torch.channels_last) for t in (x, weight))
        )
        torch.testing.assert_close(actual.cpu(), expected, rtol=0, atol=0)


# queries, keys, elements of a query's head, elements of a value's, heads, heads of keys
ATTENTIONS = [
    (5, 7, 8, 8, 2, 2),
    (65, 129, 64, 64, 4, 2),
    (33, 100, 40, 40, 2, 1),
    (17, 31, 33, 31, 1, 1),
    (100, 77, 160, 160, 1, 1),
    (40, 40, 256, 256, 1, 1),
    (3, 1, 15, 16, 1, 1),
]


@pytest.mark.parametrize("shape", ATTENTIONS, ids=str)
def test_attention(device, shape):
    """With gradients, as near to float32 as the rounding of the weights allows."""
    queries, keys, size, value_size, heads, key_heads = shape
    sizes = (heads, queries, size), (key_heads, keys, size), (key_heads, keys, value_size)
    inputs = [torch.randn(2, *each).bfloat16() for each in sizes]
    mask = torch.randn(queries, keys).bfloat16()
    for attn_mask in (None, mask):
        wanted, found = leaves(device, *inputs)
        masks = (None, None) if attn_mask is None else (mask.float(), mask.to(device))
        options = {"enable_gqa": heads != key_heads}
        expected = F.scaled_dot_product_attention(*wanted, attn_mask=masks[0], **options)
        actual = F.scaled_dot_product_attention(*found, attn_mask=masks[1], **options)
        go_back(expected, actual, torch.randn(expected.shape).bfloat16())
        pairs = [
            (actual, expected),
            *((a.grad, e.grad) for a, e in zip(found, wanted, strict=True)),
        ]
        for a, e in pairs:
            torch.testing.assert_close(
                a.detach().cpu().float(), e.detach(), rtol=0.02, atol=0.01 * e.abs().max().item()
            )


@pytest.fixture
def instruction(device):
    properties = torch.ocl.get_device_properties(device)
    has_it = (
        properties.kernel_family == "cpu"
        and properties.platform in ("Portable Computing Language", "Intel(R) OpenCL")
        and properties.native_vector_width_float >= 16
        and CPUINFO.exists()
        and "avx512_bf16" in CPUINFO.read_text()
    )
    if not has_it:
        pytest.skip("no CPU device with AVX512_BF16")


PROGRAM = """
    import torch, torch.nn.functional as F
    torch.manual_seed(0)
    def integers(*shape):
        return torch.randint(-8, 9, shape).bfloat16()
    a, b, x, w = integers(20, 30), integers(30, 17), integers(1, 8, 9, 9), integers(16, 8, 3, 3)
    for function, *inputs in (torch.mm, a, b), (torch.mv, a, b[:, 0]), (F.conv2d, x, w):
        expected = function(*(t.float() for t in inputs)).bfloat16()
        assert function(*(t.to("ocl") for t in inputs)).cpu().equal(expected)
"""


def choices(**variables):
    """The lines of the log of PROGRAM, which is right in any case."""
    ended = run_python(PROGRAM, OCL_LOG_ALGORITHMS="1", **{"OCL_DISABLE": None, **variables})
    assert ended.returncode == 0, ended.stderr
    lines = ended.stderr.splitlines()
    return [line for line in lines if "product, BF" in line or "convolution, " in line]


def test_instructions_are_used(instruction):
    product, vector, convolution = choices()
    assert ": cpu_pairs; refused: " in product
    assert vector.endswith(": cpu_vector_pairs")
    assert ": channels_last_pairs; refused: " in convolution


def test_other_algorithms_can_be_asked_for(instruction):
    lines = choices(OCL_DISABLE="cpu_pairs,cpu_vector_pairs,channels_last_pairs")
    assert all("pairs (OCL_DISABLE)" in line for line in lines)
    lines = choices(OCL_CONV_ALGORITHM="padded", OCL_GEMM_ALGORITHM="cpu_tiles")
    assert lines[0].endswith(": cpu_tiles")
    assert ", Float" in lines[2] and ": padded" in lines[2], lines


def test_product_that_widens_without_its_algorithm(device):
    code = """
        import torch
        x, numbers = torch.randint(-8, 9, (64, 96)), torch.randint(-8, 9, (40, 96))
        actual = torch._weight_int8pack_mm(
            x.bfloat16().to("ocl"), numbers.to("ocl", torch.int8),
            torch.ones(40, dtype=torch.bfloat16, device="ocl"))
        print(actual.cpu().equal((x @ numbers.t()).bfloat16()))
    """
    assert output_of(code, OCL_DISABLE="cpu_pairs") == "True"


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        pytest.param("TASK __kernel", "#error no assembly\nTASK __kernel", id="no assembly"),
        pytest.param('"+vr"', '"+rv"', id="other registers"),
    ],
)
def test_compilers_that_fail_are_found(instruction, tmp_path, wanted, found):
    """A probe tells, and the products are computed without the instructions."""
    kernels = altered_kernels(tmp_path, "dot_bfloat16*.cl*", wanted, found)
    lines = choices(OCL_KERNEL_DIR=kernels)
    assert "cpu_pairs (the probe of AVX512_BF16 failed)" in lines[0], lines
    assert ": cpu_vector; refused: cpu_vector_pairs (the probe" in lines[1], lines


def test_first_product_in_a_capture(device):
    """Nothing is probed there, and the graph is right."""
    code = """
        import torch
        a, b = torch.randint(-8, 9, (20, 30)).bfloat16(), torch.randint(-8, 9, (30, 17)).bfloat16()
        x, y = a.to("ocl"), b.to("ocl")
        graph = torch.ocl.Graph()
        with torch.ocl.graph(graph):
            z = x @ y
        graph.replay()
        print(z.cpu().equal((a.float() @ b.float()).bfloat16()))
    """
    assert output_of(code) == "True"
