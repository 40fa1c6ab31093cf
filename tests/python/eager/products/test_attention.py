"""scaled_dot_product_attention, its gradients, and nn.MultiheadAttention against the CPU."""

import pytest
import torch
from support import HALVES
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention as attention

TOLERANCE = {torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2, torch.float64: 1e-12}


def shapes(batch=2, heads=3, queries=20, keys=37, size=16, value_size=None, key_heads=None):
    key_heads = key_heads or heads
    return (
        (batch, heads, queries, size),
        (batch, key_heads, keys, size),
        (batch, key_heads, keys, value_size or size),
    )


def tensors(sizes, dtype=torch.float32):
    return [torch.randn(size).to(dtype) for size in sizes]


def results(operands, where, mask=None, **options):
    """-> output and the gradients of query, key and value, on the CPU"""
    leaves = [t.detach().to(where).requires_grad_() for t in operands]
    out = attention(*leaves, attn_mask=None if mask is None else mask.to(where), **options)
    torch.manual_seed(5)
    out.backward(torch.randn(out.shape).to(out.dtype).to(where))
    return [out.detach().cpu(), *(leaf.grad.cpu() for leaf in leaves)]


def compare(device, operands, mask=None, fused=True, **options):
    """Against the CPU's composition of operators in float32 or more."""
    dtype = operands[0].dtype
    wide = torch.promote_types(dtype, torch.float32)
    wide_mask = mask.to(wide) if mask is not None and mask.dtype == dtype else mask
    with sdpa_kernel(SDPBackend.MATH):
        expected = results([t.to(wide) for t in operands], "cpu", wide_mask, **options)
    if fused:
        with sdpa_kernel(SDPBackend.OVERRIDEABLE):
            actual = results(operands, device, mask, **options)
    else:
        actual = results(operands, device, mask, **options)
    for left, right, operand in zip(actual, expected, [operands[0], *operands], strict=True):
        assert left.dtype == operand.dtype
        # The gradients sum over all queries or keys.
        tolerance = TOLERANCE[dtype] * (1 if left is actual[0] else 3)
        torch.testing.assert_close(left.to(wide), right, rtol=tolerance, atol=tolerance)


@pytest.mark.sample
@pytest.mark.parametrize("is_causal", [False, True])
def test_values_and_gradients(device, is_causal):
    compare(device, tensors(shapes(1, 2, 9, 19, 8)), is_causal=is_causal)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("is_causal", [False, True])
def test_halves(device, dtype, is_causal):
    compare(device, tensors(shapes(), dtype), is_causal=is_causal)


@pytest.mark.parametrize("size, value_size", [(1, 1), (5, 5), (64, 64), (24, 40), (128, 128)])
def test_sizes_of_heads(device, size, value_size):
    compare(device, tensors(shapes(1, 2, 33, 70, size, value_size)))


def test_largest_heads(device):
    compare(device, tensors(shapes(1, 1, 40, 70, 256)), is_causal=True)


def test_larger_heads_are_composed(device):
    operands = tensors(shapes(1, 1, 4, 5, 257))
    compare(device, operands, fused=False)
    with (
        sdpa_kernel(SDPBackend.OVERRIDEABLE),
        pytest.raises(RuntimeError, match="more than 256 elements"),
    ):
        attention(*(t.to(device) for t in operands))


def refusals():
    """name -> (why the fused kernels refuse it, operands, options)"""

    def case(reason, mask=None, dtype=torch.float32, key_size=None, **options):
        operands = tensors(shapes(1, 4, 5, 6, 8, key_heads=options.pop("key_heads", None)), dtype)
        if key_size:
            operands[1] = torch.randn(key_size)
        return reason, operands, {"attn_mask": mask, **options}

    mask = torch.zeros(5, 6)
    return {
        "dtype": case("the kernels take float32", dtype=torch.float64),
        "dimensions": ("need 4 dimensions", [torch.randn(4, 5, 8)] * 3, {}),
        "batch": case("the same batch size", key_size=(2, 4, 6, 8)),
        "rows": case("key and value need the same number of rows", key_size=(1, 4, 7, 8)),
        "heads of key": case("key and value need the same number of heads", key_size=(1, 2, 6, 8)),
        "heads": case("without enable_gqa", key_heads=2),
        "groups": case("no multiple of the key's", key_heads=3, enable_gqa=True),
        "gradient": case("no gradient of attn_mask", mask.requires_grad_()),
        "broadcast": case("does not broadcast", torch.zeros(3, 6)),
    }


@pytest.mark.parametrize("name", refusals())
def test_refusals_say_which_condition_failed(device, name):
    reason, operands, options = refusals()[name]
    if operands[0].dtype == torch.float64 and not torch.ocl.get_device_properties(device).has_fp64:
        pytest.skip("the device has no float64")
    move = {k: v.to(device) if isinstance(v, torch.Tensor) else v for k, v in options.items()}
    with sdpa_kernel(SDPBackend.OVERRIDEABLE), pytest.raises(RuntimeError, match=reason):
        attention(*(t.to(device) for t in operands), **move)


@pytest.mark.parametrize("queries, keys", [(1, 1), (1, 200), (200, 1), (130, 66), (16, 64)])
@pytest.mark.parametrize("is_causal", [False, True])
def test_lengths(device, queries, keys, is_causal):
    compare(device, tensors(shapes(1, 2, queries, keys)), is_causal=is_causal)


@pytest.mark.parametrize("shape", [(20, 37), (2, 3, 20, 37), (2, 1, 1, 37), (1, 3, 20, 1), (37,)])
def test_masks(device, shape):
    operands = tensors(shapes())
    compare(device, operands, torch.randn(shape))
    seen = torch.rand(shape) < 0.7
    compare(device, operands, seen)


@pytest.mark.sample
def test_queries_that_see_no_key(device):
    seen = torch.ones(20, 37, dtype=torch.bool).tril(-2)
    compare(device, tensors(shapes(1, 1, 20, 37, 4)), seen)


def test_half_masks(device):
    compare(device, tensors(shapes(), torch.float16), torch.randn(2, 3, 20, 37).half())


@pytest.mark.parametrize("dtype", HALVES)
def test_wider_masks(device, dtype):
    """-70000 is minus infinity in float16: a row of it would be NaN."""
    mask = torch.randn(20, 37)
    mask[3] = -70000
    compare(device, tensors(shapes(), dtype), mask)


def test_strided_mask(device):
    compare(device, tensors(shapes()), torch.randn(37, 20).t())


def test_gradient_of_the_mask(device):
    operands, mask = tensors(shapes()), torch.randn(20, 37)
    grads = []
    for where in ("cpu", device):
        leaf = mask.clone().to(where).requires_grad_()
        attention(*(t.to(where) for t in operands), attn_mask=leaf).square().sum().backward()
        grads.append(leaf.grad.cpu())
    torch.testing.assert_close(grads[1], grads[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("key_heads", [1, 2])
def test_heads_in_groups(device, key_heads):
    compare(device, tensors(shapes(2, 4, 20, 37, key_heads=key_heads)), enable_gqa=True)


def test_scale(device):
    compare(device, tensors(shapes()), scale=0.7)
    compare(device, tensors(shapes()), scale=-0.7)


def test_strides(device):
    batch_first = [torch.randn(s[0], s[2], s[1], s[3]).transpose(1, 2) for s in shapes()]
    compare(device, batch_first)
    last_dim_apart = [torch.randn(s[0], s[1], s[3], s[2]).transpose(2, 3) for s in shapes()]
    compare(device, last_dim_apart)
    expanded = [torch.randn(1, 1, *s[2:]).expand(s) for s in shapes()]
    compare(device, expanded)


@pytest.mark.sample
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_rows_that_begin_anywhere(device, dtype):
    """Misaligns one operand at a time: GPUs read rows by fours if all operands are aligned."""
    size = 16
    bases = tensors([(1, 2, 7, 20)] * 4, dtype)
    on_device = [base.to(device) for base in bases]
    odd = tensors([(1, 2, 7, 18)] * 4, dtype)
    odd_on_device = [base.to(device) for base in odd]
    # The operand that is not aligned (query, key, value, gradient), by its first element or its
    # rows.
    cases = [(None, 0), *((which, first) for which in range(4) for first in (1, 2, 0))]
    for which, first in cases:
        results = []
        for even, other in ((bases, odd), (on_device, odd_on_device)):
            x = [t[:, :, 1:6, 4 : 4 + size] for t in even]
            if which is not None:
                t = other[which] if first == 0 else even[which]
                x[which] = t[:, :, :5, first : first + size]
            leaves = [t.detach().requires_grad_() for t in x[:3]]
            out = attention(*leaves)
            results.append([out, *torch.autograd.grad(out, leaves, x[3])])
        tolerance = 4 * TOLERANCE[dtype]
        for e, a in zip(*results, strict=True):
            torch.testing.assert_close(a.cpu(), e, rtol=tolerance, atol=tolerance)


@pytest.mark.sample
def test_large_heads(device):
    """In the sample, whose programs `make gpu-check` compiles: these take most registers."""
    compare(device, tensors(shapes(1, 1, 20, 20, 128)))


@pytest.mark.sample
def test_order_of_memory(device):
    query = torch.randn(2, 20, 3, 16, device=device).transpose(1, 2)
    key, value = (torch.randn(2, 37, 3, 16, device=device).transpose(1, 2) for _ in range(2))
    assert attention(query, key, value).stride() == query.stride()


@pytest.mark.parametrize("dtype", [torch.float64])
def test_double_is_composed(device, dtype):
    compare(device, tensors(shapes(), dtype), fused=False)


@pytest.mark.parametrize("sizes", [(2, 5, 4), (5, 4), (2, 2, 3, 5, 4)])
def test_other_ranks_are_composed(device, sizes):
    compare(device, tensors([sizes] * 3), fused=False)


def test_special_values(device):
    query, key, value = tensors(shapes(1, 1))
    query[0, 0, 3, 2] = float("nan")
    value[0, 0, 5, 1] = float("inf")
    actual = attention(query.to(device), key.to(device), value.to(device))
    torch.testing.assert_close(
        actual.cpu(), attention(query, key, value), equal_nan=True, rtol=1e-4, atol=1e-5
    )


def dropped(device, size, p, **options):
    """The weights that attention used: with an identity for the values."""
    query, key = (torch.randn(1, 2, size, 16, device=device) for _ in range(2))
    value = torch.eye(size, device=device).expand(1, 2, size, size)
    return query, key, attention(query, key, value, dropout_p=p, **options)


@pytest.mark.sample
def test_dropout(device):
    size, p = 20, 0.25
    torch.manual_seed(3)
    query, key, weights = dropped(device, size, p)
    _, _, other = dropped(device, size, p)
    plain = torch.softmax(query @ key.mT / 4, -1)
    kept = weights != 0
    assert abs(kept.float().mean().item() - (1 - p)) < 0.06
    torch.testing.assert_close(weights, plain / (1 - p) * kept)
    assert (kept != (other != 0)).any()
    torch.manual_seed(3)
    torch.testing.assert_close(dropped(device, size, p)[2], weights)


def test_all_dropped(device):
    _, _, weights = dropped(device, 20, 1.0)
    assert (weights == 0).all()


@pytest.mark.parametrize("is_causal", [False, True])
def test_gradients_of_dropout(device, is_causal):
    """The backward draws the weights that the forward drew."""
    size, p = 70, 0.5
    leaves = [torch.randn(1, 2, size, 16, device=device, requires_grad=True) for _ in range(3)]
    grad = torch.randn(1, 2, size, 16, device=device)
    torch.manual_seed(3)
    attention(*leaves, dropout_p=p, is_causal=is_causal).backward(grad)
    grads = [leaf.grad for leaf in leaves]

    torch.manual_seed(3)
    value = torch.eye(size, device=device).expand(1, 2, size, size)
    kept = (attention(*(t.detach() for t in leaves[:2]), value, dropout_p=p) != 0).float() / (1 - p)
    again = [leaf.detach().clone().requires_grad_() for leaf in leaves]
    scores = again[0] @ again[1].mT / 4
    if is_causal:
        later = torch.ones(size, size, device=device, dtype=torch.bool).triu(1)
        scores = scores.masked_fill(later, float("-inf"))
    (torch.softmax(scores, -1) * kept @ again[2]).backward(grad)
    for left, right in zip(grads, again, strict=True):
        torch.testing.assert_close(left, right.grad, rtol=1e-4, atol=1e-4)


def test_no_matrix_of_scores_is_made(device):
    length = 4096
    query, key, value = (torch.randn(1, 1, length, 8, device=device) for _ in range(3))
    query.requires_grad_()
    torch.ocl.reset_peak_memory_stats(device)
    before = torch.ocl.memory_allocated(device)
    attention(query, key, value).sum().backward()
    assert torch.ocl.max_memory_allocated(device) - before < length * length


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("training", [False, True])
def test_multihead_attention(device, need_weights, training):
    module = nn.MultiheadAttention(32, 4, batch_first=True).train(training)
    x = torch.randn(2, 7, 32)
    padding = torch.zeros(2, 7, dtype=torch.bool)
    padding[1, 5:] = True
    expected = module(x, x, x, key_padding_mask=padding, need_weights=need_weights)
    actual = module.to(device)(
        *[x.to(device)] * 3, key_padding_mask=padding.to(device), need_weights=need_weights
    )
    torch.testing.assert_close(actual[0].cpu(), expected[0], rtol=1e-4, atol=1e-5)
    if need_weights:
        torch.testing.assert_close(actual[1].cpu(), expected[1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("masked", [False, True])
def test_encoder_without_gradients(device, norm_first, activation, masked):
    layer = nn.TransformerEncoderLayer(
        32, 4, 64, batch_first=True, norm_first=norm_first, activation=activation
    ).eval()
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    x = torch.randn(2, 7, 32)
    padding = torch.zeros(2, 7, dtype=torch.bool)
    padding[1, 5:] = True
    options = {"src_key_padding_mask": padding} if masked else {}
    with torch.no_grad():
        expected = encoder(x, **options)
        encoder.to(device)
        actual = encoder(x.to(device), **{k: v.to(device) for k, v in options.items()})
    torch.testing.assert_close(actual.cpu(), expected, rtol=1e-4, atol=1e-5)


def test_traced(device):
    """The choice is also made for tensors without memory."""
    query, key, value = (torch.randn(1, 2, 9, 16, device=device) for _ in range(3))
    compiled = torch.compile(attention, fullgraph=True)
    torch.testing.assert_close(compiled(query, key, value), attention(query, key, value))


def test_vmap(device):
    batches = [torch.randn(3, 1, 2, 9, 16, device=device) for _ in range(3)]
    expected = torch.stack([attention(*(t[i] for t in batches)) for i in range(3)])
    torch.testing.assert_close(torch.vmap(attention)(*batches), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("probability", [-1.0, 2.0, float("nan"), float("inf")])
def test_dropout_out_of_range(device, probability):
    for place in ("cpu", device):
        query = torch.ones(1, 2, 3, 8, device=place)
        with pytest.raises(RuntimeError, match="dropout"):
            attention(query, query, query, dropout_p=probability)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bool])
def test_mask_without_rows_that_does_not_fit(device, dtype):
    for x, error in [(torch.ones(2, 3, 4, 8), IndexError), (torch.ones(3, 4, 8), RuntimeError)]:
        for where in ("cpu", device):
            mask = torch.ones(5, dtype=dtype, device=where)
            with pytest.raises(error):
                attention(*[x.to(where)] * 3, attn_mask=mask)


@pytest.mark.parametrize(
    "query, key, value, message",
    [
        ((2, 4, 8), (2, 4, 3, 8), (2, 4, 3, 8), r"need 4 dimensions.*\[2, 4, 8\]"),
        ((2, 4, 3, 8), (1, 4, 3, 8), (2, 4, 3, 8), "query and key need the same batch size"),
        ((2, 4, 3, 8), (2, 4, 3, 8), (3, 4, 3, 8), "query and value need the same batch size"),
        ((2, 4, 3, 8), (2, 2, 3, 8), (2, 4, 3, 8), "key and value need the same number of heads"),
        ((2, 4, 3, 8), (2, 4, 3, 8), (2, 4, 5, 8), "key and value need the same number of rows"),
        ((2, 4, 3, 8), (2, 4, 3, 7), (2, 4, 3, 8), "query and key need the same size of a row.* 7"),
        ((2, 4, 3, 8), (2, 3, 3, 8), (2, 3, 3, 8), "heads of the query, 4, is no multiple.* 3"),
        ((2, 4, 3, 8), (2, 0, 3, 8), (2, 0, 3, 8), "heads of the query, 4, is no multiple.* 0"),
    ],
)
def test_errors_name_the_sizes_that_differ(device, query, key, value, message):
    operands = [torch.ones(size, device=device) for size in (query, key, value)]
    with pytest.raises(RuntimeError, match=message):
        torch.ops.aten._scaled_dot_product_fused_attention_overrideable(*operands)


def test_masked_softmax_without_a_type(device):
    x, mask = torch.randn(2, 3), torch.tensor([[True, False, False], [False, False, True]])
    expected = torch._masked_softmax(x, mask, 1)
    torch.testing.assert_close(
        torch._masked_softmax(x.to(device), mask.to(device), 1).cpu(), expected
    )
    with pytest.raises(RuntimeError):
        torch._masked_softmax(torch.zeros(2, 3, 4, 4, device=device), mask.to(device))
