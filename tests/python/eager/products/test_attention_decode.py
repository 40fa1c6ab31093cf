"""Attention of few queries: each new token of a model meets the keys and values before it."""

import pytest
import torch
from support import HALVES
from torch.nn.functional import scaled_dot_product_attention as attention

from torch_ocl import _C

TOLERANCE = {torch.float32: 2e-6, torch.float16: 1e-3, torch.bfloat16: 8e-3}


def inputs(queries, keys, size=16, value_size=None, heads=3, key_heads=None, dtype=torch.float32):
    rows = [(heads, queries, size), (key_heads or heads, keys, size)]
    rows.append((key_heads or heads, keys, value_size or size))
    return [torch.randn(2, *shape).to(dtype) for shape in rows]


def compare(
    device, operands, mask=None, kernels=("attention_decode", "attention_merge"), **options
):
    options["enable_gqa"] = operands[0].size(1) != operands[1].size(1)
    wide_mask = mask if mask is None or mask.dtype == torch.bool else mask.double()
    expected = attention(*(t.double() for t in operands), attn_mask=wide_mask, **options)
    on_device = None if mask is None else mask.to(device)
    out = attention(*(t.to(device) for t in operands), attn_mask=on_device, **options)
    assert _C.last_kernel() in kernels
    tolerance = TOLERANCE[out.dtype]
    torch.testing.assert_close(
        out.cpu().double(), expected, rtol=tolerance, atol=tolerance, equal_nan=True
    )


@pytest.mark.sample
@pytest.mark.parametrize("queries, keys", [(1, 1), (1, 63), (1, 200), (3, 130)])
def test_lengths(device, queries, keys):
    compare(device, inputs(queries, keys))


def test_many_keys_are_split(device):
    torch.manual_seed(0)
    operands = [t[:1, :1] for t in inputs(1, 5000, 64)]
    compare(device, operands, kernels=["attention_merge"])
    seen = torch.zeros(1, 5000, dtype=torch.bool)
    seen[0, 4000:4010] = True  # most parts of the keys are masked
    compare(device, operands, seen, kernels=["attention_merge"])
    compare(device, operands, torch.zeros_like(seen), kernels=["attention_merge"])


@pytest.mark.parametrize("dtype", [torch.float32, *HALVES])
@pytest.mark.parametrize("size, value_size", [(1, 1), (7, 20), (40, 33), (80, 80), (256, 200)])
def test_sizes_of_heads(device, dtype, size, value_size):
    compare(device, inputs(2, 70, size, value_size, dtype=dtype))


@pytest.mark.sample
@pytest.mark.parametrize("heads, key_heads", [(4, 2), (4, 1), (6, 2)])
def test_heads_that_share_keys_are_computed_together(device, heads, key_heads):
    operands = inputs(1, 70, heads=heads, key_heads=key_heads)
    compare(device, operands)
    compare(device, operands, torch.randn(2, heads, 1, 70))
    compare(device, operands, torch.randn(heads, 1, 1))
    compare(device, operands, torch.randn(2, heads, 1, 140)[..., ::2])
    compare(device, inputs(2, 70, heads=heads, key_heads=key_heads), torch.randn(2, heads, 2, 70))


def test_many_heads_that_share_keys(device):
    operands = inputs(1, 70, heads=40, key_heads=2)
    compare(device, operands, torch.randn(2, 40, 1, 70), kernels=["attention_forward"])


@pytest.mark.parametrize("queries", [1, 2, 4])
def test_causal(device, queries):
    """The first query sees the first key only; keys that no query sees are not read."""
    query, key, value = (t.to(device) for t in inputs(queries, 300))
    value[:, :, queries:] = float("nan")
    assert attention(query, key, value, is_causal=True).isfinite().all()
    compare(device, inputs(queries, 70), is_causal=True)
    compare(device, inputs(queries, 70, heads=4, key_heads=2), is_causal=True)


@pytest.mark.parametrize("shape", [(2, 3, 2, 70), (2, 1, 1, 70), (3, 2, 1), (2, 70), (1, 1)])
def test_masks(device, shape):
    operands = inputs(2, 70)
    compare(device, operands, torch.randn(shape))
    compare(device, operands, torch.rand(shape) < 0.5)


def test_order_in_memory(device):
    """Keys and values lie in a cache of tokens by heads, and in one with room for more tokens."""
    by_token = [torch.randn(2, t.size(2), 3, 16).transpose(1, 2) for t in inputs(1, 70)]
    compare(device, by_token)
    query, key, value = inputs(1, 200)
    for where in ("cpu", device):
        result = attention(query.to(where), key.to(where)[:, :, 9:80], value.to(where)[:, :, 9:80])
        if where == "cpu":
            expected = result
    torch.testing.assert_close(result.cpu(), expected)


@pytest.mark.sample
@pytest.mark.parametrize("keys", [64, 67, 300])
def test_special_values(device, keys):
    """The last keys of a block have no neighbours to be mixed up with."""
    query, key, value = inputs(1, keys)
    value[0, 0, keys - 1, 3] = float("inf")
    value[0, 1, 0, 4] = float("nan")
    key[1, 0, keys - 1, 2] = float("nan")
    key[1, 1, 5, 0] = float("inf")
    compare(device, [query, key, value])


def test_gradients(device):
    grads = []
    operands = inputs(2, 70, heads=4, key_heads=2)
    for where in ("cpu", device):
        leaves = [t.detach().to(where).requires_grad_() for t in operands]
        attention(*leaves, enable_gqa=True).square().sum().backward()
        grads.append([leaf.grad.cpu() for leaf in leaves])
    torch.testing.assert_close(grads[1], grads[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("batch, queries, keys", [(0, 1, 70), (2, 0, 70), (2, 1, 0)])
def test_empty(device, batch, queries, keys):
    operands = [torch.randn(batch, 3, n, 16) for n in (queries, keys, keys)]
    direct = torch.ops.aten._scaled_dot_product_fused_attention_overrideable
    out, log_sum, *_ = direct(*(t.to(device) for t in operands))
    torch.testing.assert_close(out.cpu(), attention(*operands))
    assert log_sum.shape == (batch, 3, queries)
