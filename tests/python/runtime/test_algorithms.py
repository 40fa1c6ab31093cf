"""Tables of algorithms of convolutions and matrix products: the preferred row, and the log."""

import pytest
import torch
import torch.nn.functional as F
from support import output_of, run_python

from torch_ocl import _C

# name: its last kernel in the forward direction
KERNELS = {
    "channels_last_product": "gemm",
    "channels_last_depthwise": "depthwise",
    "channels_last_winograd": "winograd_last_blocks winograd_last_panels",
    "channels_last": "conv_channels_last",
    "depthwise": "conv_depthwise",
    "winograd": "winograd_tiles winograd_rows",
    "broadcast": "conv_broadcast",
    "padded": "conv_taps",
    "split": "",
    "gpu_winograd": "winograd_results",
    "tiles": "conv_tiles",
    "direct": "conv_direct",
    "plain": "conv_forward",
}
# input, weight, groups
SHAPES = [
    ((2, 64, 14, 15), (64, 64, 3, 3), 1),
    ((2, 64, 5, 6), (80, 64, 3, 3), 1),
    ((2, 24, 9, 10), (24, 1, 3, 3), 24),
    ((2, 24, 9, 10), (32, 24, 1, 1), 1),
]


@pytest.fixture
def prefer(device):
    yield _C.prefer_conv_algorithm
    _C.prefer_conv_algorithm("")


def results(x, weight, bias, groups, grad=None):
    """-> the output and the gradients of input and weight, and the forward direction's kernel"""
    padding = weight.shape[2] // 2
    y = F.conv2d(x, weight, bias, padding=padding, groups=groups)
    ran = _C.last_kernel()
    grad = torch.ones_like(y) if grad is None else grad.to(x.device)
    options = [1, 1], [padding] * 2, [1, 1], False, [0, 0], groups, [True, True, False]
    gradients = torch.ops.aten.convolution_backward(grad, x, weight, None, *options)[:2]
    return [t.cpu() for t in (y, *gradients)], ran


# Not in the sample: test_conv.py has each of these kernels, and oclgrind would take minutes.
@pytest.mark.parametrize("name", KERNELS)
def test_every_algorithm_computes_the_same(device, prefer, name):
    """In all three directions, also where it does not apply and another one is chosen."""
    family = torch.ocl.get_device_properties(device).kernel_family
    prefer(name)
    ran = []
    for shape, weight_shape, groups in SHAPES:
        tensors = torch.randn(shape), torch.randn(weight_shape), torch.randn(weight_shape[0])
        expected, _ = results(*tensors, groups)
        for memory_format in (torch.contiguous_format, torch.channels_last):
            x, weight, bias = (t.to(device) for t in tensors)
            x = x.to(memory_format=memory_format)
            actual, kernel = results(x, weight, bias, groups)
            ran.append(kernel)
            for e, a in zip(expected, actual):
                torch.testing.assert_close(a, e, rtol=1e-4, atol=2e-3)
    of_family = {"tiles": "gpu", "direct": "gpu", "plain": family}.get(name, "cpu")
    if name in ("split", "gpu_winograd"):  # for tensors of 2 GiB, for many channels: own tests
        return
    used = any(kernel in KERNELS[name].split() for kernel in ran)
    assert used == (of_family == family), ran


def test_unknown_name(prefer):
    with pytest.raises(ValueError, match=r"there is no algorithm 'winograt'; there are .*winograd"):
        prefer("winograt")


LOG = """
    import torch
    for _ in range(2):
        x, w = (torch.ones(s, device="ocl") for s in ((1, 8, 6, 6), (8, 8, 3, 3)))
        torch.conv2d(x, w, stride=2)
    print(torch.ocl.get_device_properties(0).kernel_family)
"""


def test_log(device):
    """A line for a shape, once, with each refused algorithm and the reason."""
    ended = run_python(LOG, OCL_LOG_ALGORITHMS="1")
    assert ended.returncode == 0, ended.stderr
    lines = [line for line in ended.stderr.splitlines() if line.startswith("torch_ocl: ")]
    assert len(lines) == 1, ended.stderr
    problem, refused = lines[0].split("; refused: ")
    chosen = "padded" if "cpu" in ended.stdout else "tiles"
    assert "8 to 8 channels, 6x6 to 2x2, kernel 3x3, stride 2x2" in problem
    assert problem.endswith(": " + chosen)
    reason = "the stride is not 1" if chosen == "padded" else "for CPU devices"
    assert f"winograd ({reason})" in refused


TABLES = """
    import torch
    x = torch.rand(4, 5000, device="ocl")
    for k in (3, 4000):
        x.topk(k, dim=1)
    x.index_add(0, torch.tensor([0, 3], device="ocl"), x[:2])
"""


def test_log_of_other_tables(device):
    ended = run_python(TABLES, OCL_LOG_ALGORITHMS="1")
    assert ended.returncode == 0, ended.stderr
    few, many = (f"torch_ocl: topk of {k} in [4, 5000] along dimension 1: " for k in (3, 4000))
    lines = ended.stderr.splitlines()
    assert f"{few}topk" in lines, lines
    assert f"{many}sort; refused: topk (a sort finds so many faster)" in lines, lines
    assert any("index_add" in line and "refused: sorted_writes (" in line for line in lines), lines


def test_nothing_is_printed_without_being_asked(device):
    ended = run_python(LOG, OCL_LOG_ALGORITHMS=None)
    assert "torch_ocl: " not in ended.stderr


def test_variable(device):
    program = """
    import torch
    from torch_ocl import _C
    x, w = (torch.ones(s, device="ocl") for s in ((1, 8, 6, 6), (8, 8, 3, 3)))
    try:
        torch.conv2d(x, w)
        print(_C.last_kernel())
    except ValueError as error:
        print(error)
    """
    assert output_of(program, OCL_CONV_ALGORITHM="plain") == "conv_forward"
    message = output_of(program, OCL_CONV_ALGORITHM="fastest")
    assert message.startswith("OCL_CONV_ALGORITHM: there is no algorithm 'fastest'; there are ")
    assert all(name in message for name in KERNELS)


@pytest.mark.parametrize(
    "name", ["cpu_vector", "cpu_tiles", "gpu_vector", "gpu_tiles", "plain_product"]
)
def test_every_product_is_the_same(device, name):
    """Where the algorithm applies, and where another one is chosen: matrices, vectors, batches."""
    _C.prefer_gemm_algorithm(name)
    try:
        for a_shape, b_shape in (
            ((20, 30), (30, 17)),
            ((1, 30), (30, 17)),
            ((20, 30), (30, 1)),
            ((3, 9, 30), (3, 30, 1)),
        ):
            a, b = torch.randn(a_shape), torch.randn(b_shape)
            actual = a.to(device) @ b.to(device)
            torch.testing.assert_close(actual.cpu(), a @ b, rtol=1e-4, atol=1e-4)
    finally:
        _C.prefer_gemm_algorithm("")


PRODUCT = """
    import torch
    from torch_ocl import _C
    a, b = torch.ones(20, 30, device="ocl"), torch.ones(30, 1, device="ocl")
    print((a @ b).sum().item())
    torch.mm(a, a.t())
    print(_C.last_tuned().choice)
"""


def test_log_of_products(device):
    family = torch.ocl.get_device_properties(device).kernel_family
    ended = run_python(PRODUCT, OCL_LOG_ALGORITHMS="1")
    assert ended.returncode == 0, ended.stderr
    vector, matrix = [line for line in ended.stderr.splitlines() if "matrix product" in line]
    assert f"20x30 by 30x1: {family}_vector" in vector
    assert f"20x30 by 30x20 (transposed): {family}_tiles; refused: " in matrix
    assert f"{family}_vector (no vector)" in matrix


def test_variables_of_products(device):
    family = torch.ocl.get_device_properties(device).kernel_family
    variables = {"OCL_GEMM_ALGORITHM": f"{family}_tiles", "OCL_LOG_ALGORITHMS": "1"}
    ended = run_python(PRODUCT, OCL_GEMM_TILE="6", **variables)
    assert ended.stdout.split() == ["600.0", "6"], ended.stderr
    assert f"20x30 by 30x1: {family}_tiles" in ended.stderr
    for variable, value in (("OCL_GEMM_TILE", "big"), ("OCL_GEMM_ALGORITHM", "best")):
        ended = run_python(PRODUCT, **{variable: value})
        assert f"ValueError: {variable}: " in ended.stderr and f"'{value}'" in ended.stderr


DISABLED = """
    import torch, torch.nn.functional as F
    from torch_ocl import _C
    x, w = torch.ones(1, 8, 6, 6, device="ocl"), torch.ones(8, 8, 3, 3, device="ocl")
    queries = torch.ones(1, 8, 20, 6, device="ocl")  # too many for attention_decode
    kernels = []
    for function in (
        lambda: F.conv2d(x, w),
        lambda: x[0, 0] @ x[0, 1],
        lambda: F.scaled_dot_product_attention(queries, x, x),
        lambda: torch.ones(64, 65, device="ocl").t().contiguous(),
    ):
        assert function().isfinite().all()
        function()
        kernels.append(_C.last_kernel())
    print(*kernels)
"""


def test_disabled_algorithms(device):
    family = torch.ocl.get_device_properties(device).kernel_family
    usual = output_of(DISABLED, OCL_DISABLE=None).split()
    attention = "attention_forward"
    assert usual[1:] == ["gemm", attention, "transpose"] and usual[0] != "conv_forward"
    names = f"tiles,direct,padded,broadcast, winograd,{family}_tiles fused_attention"
    kernels = output_of(DISABLED, OCL_DISABLE=names).split()
    assert kernels[:2] == ["conv_forward", "gemm_plain"]
    assert kernels[2] != attention and kernels[3] == "transpose"
    kernels = output_of(DISABLED, OCL_DISABLE="transpose_tiles").split()
    assert kernels[:3] == usual[:3] and kernels[3] != "transpose"


@pytest.mark.parametrize("name", ["plain", "conv", "gpu-tiles"])
def test_unknown_disabled_algorithm(device, name):
    """The last resort cannot be disabled either."""
    ended = run_python(DISABLED, OCL_DISABLE=f"tiles,{name}")
    message = f"ValueError: OCL_DISABLE: '{name}' is nothing that can be disabled; there are "
    assert message in ended.stderr
    for known in ("winograd", "gpu_tiles", "fused_attention", "vectors", "sorted_writes"):
        assert known in ended.stderr.split(message)[1]
