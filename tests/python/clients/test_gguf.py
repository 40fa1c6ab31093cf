"""Weights in the blocks of GGUF files: torch_ocl.gguf, by the formulas of transformers."""

import pytest
import torch
from gguf_files import SCALES, random_blocks

from torch_ocl import gguf

dequant = pytest.importorskip("transformers.integrations.gguf.dequant")
NUMBERS = {getattr(dequant, f"GGML_{name}"): name for name in SCALES}
TYPES = pytest.mark.parametrize("kind", NUMBERS, ids=NUMBERS.values())
NEAR = {torch.float32: 1e-6, torch.float16: 1e-3, torch.bfloat16: 8e-3}


def blocks_of(kind, *shape):
    """Blocks [.., bytes of a row] for weights of the shape."""
    weights, size = dequant.GGML_BLOCK[kind]
    *rows, width = shape
    numbers = torch.Generator().manual_seed(width)
    return random_blocks(NUMBERS[kind], size, (*rows, width // weights), numbers).flatten(-2)


def weights_of(blocks, kind):
    rows = blocks.flatten(0, -2)
    weights = dequant.dequantize(rows, kind).view(len(rows), -1)
    return weights.view(*blocks.shape[:-1], -1)


def test_the_types_are_those_of_the_kernels():
    assert set(NUMBERS) == gguf.GEMV_TYPES


@TYPES
@pytest.mark.parametrize("dtype", NEAR)
def test_rows_are_the_same_numbers(device, kind, dtype):
    blocks = blocks_of(kind, 5, 512)
    actual = gguf.dequantize(blocks.to(device), kind, 5, 512, dtype)
    assert torch.equal(actual.cpu(), weights_of(blocks, kind).to(dtype))


@TYPES
def test_chosen_rows(device, kind):
    blocks, at = blocks_of(kind, 5, 256), torch.tensor([4, 0, 4])
    actual = gguf.get_rows(blocks.to(device), at.to(device), kind, 256, torch.float32)
    assert torch.equal(actual.cpu(), weights_of(blocks, kind)[at])


@TYPES
def test_blocks_anywhere_in_memory(device, kind):
    """At an odd address, and as columns of a larger tensor."""
    blocks = blocks_of(kind, 3, 256)
    odd = torch.zeros(blocks.numel() + 1, dtype=torch.uint8, device=device)
    odd[1:] = blocks.flatten().to(device)
    wide = torch.cat([blocks, blocks], 1).to(device)[:, : blocks.size(1)]
    for moved in (odd[1:].view_as(blocks), wide):
        actual = gguf.dequantize(moved, kind, 3, 256, torch.float64)
        assert torch.equal(actual.cpu(), weights_of(blocks, kind).double())


@TYPES
@pytest.mark.parametrize("dtype", NEAR)
@pytest.mark.parametrize("m", [1, 2, 7])
def test_products(device, kind, dtype, m):
    blocks = blocks_of(kind, 70, 768)
    x = torch.randn(m, 768).to(dtype)
    actual = gguf.mul_mat_vec(blocks.to(device), x.to(device), kind, 70).cpu()
    weights = weights_of(blocks, kind).double()
    scale = x.double().abs() @ weights.abs().t()
    assert actual.dtype == dtype and actual.shape == (m, 70)
    assert ((actual - x.double() @ weights.t()).abs() <= NEAR[dtype] * scale).all()


def test_products_of_columns_and_of_nothing(device):
    kind = dequant.GGML_Q4_K
    blocks = blocks_of(kind, 4, 256).to(device)
    x = torch.randn(256, 3, device=device).t()
    expected = gguf.mul_mat_vec(blocks, x.contiguous(), kind, 4)
    assert torch.equal(gguf.mul_mat_vec(blocks, x, kind, 4), expected)
    assert gguf.mul_mat_vec(blocks, x[:0], kind, 4).shape == (0, 4)
    assert gguf.mul_mat_vec(blocks[:0], x, kind, 0).shape == (3, 0)
    nothing = gguf.mul_mat_vec(blocks[:, :0], x[:, :0], kind, 4)
    assert torch.equal(nothing.cpu(), torch.zeros(3, 4))


@TYPES
def test_products_of_experts(device, kind):
    blocks = blocks_of(kind, 3, 8, 256)
    x, ids = torch.randn(4, 256), torch.tensor([[0, 2], [2, 1], [1, 1], [0, 1]])
    actual = gguf.mul_mat_id(blocks.to(device), x.to(device), ids.to(device), kind, 8).cpu()
    expected = torch.einsum("mcnk,mk->mcn", weights_of(blocks, kind)[ids], x)
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)
    on_cpu = gguf.mul_mat_id(blocks, x, ids, kind, 8)
    torch.testing.assert_close(on_cpu, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("expert", [-1, 3, 2**32, -(2**32) + 1])
def test_an_unknown_expert_is_an_error(device, expert):
    kind = dequant.GGML_Q8_0
    blocks, x = blocks_of(kind, 3, 8, 32).to(device), torch.randn(1, 32, device=device)
    ids = torch.tensor([[expert]], device=device)
    with pytest.raises(RuntimeError, match=f"expert {expert} is out of bounds for experts 3"):
        gguf.mul_mat_id(blocks, x, ids, kind, 8).cpu()
    with pytest.raises(TypeError, match="expected integers as experts"):
        gguf.mul_mat_id(blocks, x, ids.float(), kind, 8)


@pytest.mark.parametrize(
    ("x", "blocks", "kind", "error", "says"),
    [
        ((1, 32), (4, 34), 10, NotImplementedError, "no kernel reads ggml type 10"),
        ((1, 32), (4, 33), 8, RuntimeError, "rows of Q8_0 blocks of 34 bytes"),
        ((1, 64), (4, 34), 8, RuntimeError, "rows of 32 numbers"),
        ((32,), (4, 34), 8, RuntimeError, "expected a matrix"),
    ],
)
def test_errors(device, x, blocks, kind, error, says):
    weights = torch.zeros(blocks, dtype=torch.uint8, device=device)
    with pytest.raises(error, match=says):
        gguf.mul_mat_vec(weights, torch.zeros(x, device=device), kind, 4)
    with pytest.raises(RuntimeError, match="but got Double"):
        gguf.mul_mat_vec(
            torch.zeros(4, 34, dtype=torch.uint8, device=device),
            torch.zeros(1, 32, dtype=torch.float64, device=device),
            8,
            4,
        )


def test_gradient_of_the_input(device):
    kind = dequant.GGML_Q6_K
    blocks, x = blocks_of(kind, 6, 256), torch.randn(2, 256)
    mine, other = x.to(device).requires_grad_(), x.requires_grad_()
    gguf.mul_mat_vec(blocks.to(device), mine, kind, 6).square().sum().backward()
    (other @ weights_of(blocks, kind).t()).square().sum().backward()
    torch.testing.assert_close(mine.grad.cpu(), other.grad, rtol=1e-4, atol=1e-4)
    ids = torch.zeros(2, 1, dtype=torch.int64, device=device)
    result = gguf.mul_mat_id(blocks[None].to(device), mine, ids, kind, 6)
    with pytest.raises(NotImplementedError, match="dequantize=True"):
        result.sum().backward()


def test_compiled_without_a_break(device):
    from transformers.integrations.gguf import kernels
    from transformers.integrations.gguf.utils import GgufLinear

    kind = dequant.GGML_Q5_K
    layer = GgufLinear(256, 16, kind)
    layer.weight.data = blocks_of(kind, 16, 256)
    layer.to(device)
    before, kernels._gguf_kernel = kernels._gguf_kernel, kernels.GgufKernel(gguf)
    try:
        for rows in (1, 20):
            x = torch.randn(rows, 256, device=device)
            compiled = torch.compile(lambda x: torch.relu(layer(x) + 1), fullgraph=True)
            torch.testing.assert_close(compiled(x), torch.relu(layer(x) + 1))
    finally:
        kernels._gguf_kernel = before
