"""flex_attention, compiled: kernels with the functions of the scores inside (inductor/flex)."""

import math
import pathlib

import pytest
import torch
from support import has_fp64, output_of, random_tensor
from torch.nn.attention.flex_attention import (
    AuxRequest,
    BlockMask,
    create_block_mask,
    flex_attention,
    noop_mask,
)

pytestmark = pytest.mark.usefixtures("fresh_compiler")

BIAS = random_tensor((4, 2 * 150 - 1), torch.float32, seed=7, low=-1, high=1)
DOCUMENTS = torch.tensor([40, 1, 63, 29, 17]).repeat_interleave(torch.tensor([40, 1, 63, 29, 17]))


def identity(score, b, h, m, n):
    return score


def alibi(score, b, h, m, n):
    return score + torch.exp2(-(h + 1) * 2.0) * (n - m)


def soft_capped(score, b, h, m, n):
    return 2 * torch.tanh(score / 2)


def causal_by_score(score, b, h, m, n):
    return torch.where(m >= n, score, -float("inf"))


def by_batch(score, b, h, m, n):
    return score * (b + 1) - (h % 2)


def relative_bias(bias):
    return lambda score, b, h, m, n: score + bias[h, m - n + 149]


def wrapped_bias(bias):
    """Negative indices count from the end."""
    return lambda score, b, h, m, n: score + bias[h, m - n]


def causal(b, h, m, n):
    return m >= n


def window(b, h, m, n):
    return (m >= n) & (m - n < 20)


def prefix(b, h, m, n):
    return (n < 33) | (m >= n)


def of_heads(b, h, m, n):
    return (m + h) % 2 == (n + b) % 2


def nothing_for_some(b, h, m, n):
    return (m % 3 != 0) & (m >= n)


def documents(ids):
    return lambda b, h, m, n: (ids[m] == ids[n]) & (m >= n)


def formula(query, key, value, score_mod=identity, mask_mod=noop_mask, scale=None):
    """Results and the logarithms of sums, by the matrix of all scores."""
    group = query.size(1) // key.size(1)
    key, value = (x.repeat_interleave(group, 1) for x in (key, value))
    scores = query @ key.mT * (scale or 1 / math.sqrt(query.size(-1)))
    sizes = scores.shape
    places = [torch.arange(n).view(-1, *[1] * (3 - i)) for i, n in enumerate(sizes)]
    seen = mask_mod(*places).expand(sizes)
    scores = torch.where(seen, score_mod(scores, *places), -math.inf)
    weights = torch.where(scores.isneginf().all(-1, keepdim=True), 0, scores.softmax(-1))
    return weights @ value, scores.logsumexp(-1)


def operands(
    shape=(2, 4, 150, 32), key_heads=None, keys=None, value_size=None, dtype=torch.float32
):
    batch, heads, queries, size = shape
    of_keys = batch, key_heads or heads, keys or queries
    shapes = shape, (*of_keys, size), (*of_keys, value_size or size)
    return [
        random_tensor(shape, torch.float32, seed=i, low=-2, high=2).to(dtype)
        for i, shape in enumerate(shapes)
    ]


def compiled(**options):
    torch._dynamo.reset()
    return torch.compile(flex_attention, fullgraph=True, **options)


def mask_of(mask_mod, tensors, device, block=128, batch=None, heads=None):
    lengths = tensors[0].size(2), tensors[1].size(2)
    return create_block_mask(mask_mod, batch, heads, *lengths, device=device, BLOCK_SIZE=block)


def on(device, tensors, grad=False):
    return [x.detach().to(device).requires_grad_(grad) for x in tensors]


def exact(tensors, grad=False):
    return [x.detach().double().requires_grad_(grad) for x in tensors]


def assert_close(actual, expected, tolerance=2e-5):
    for one, other in zip(actual, expected, strict=True):
        torch.testing.assert_close(
            one.detach().cpu().double(), other.detach(), rtol=tolerance, atol=tolerance
        )


def check(device, tensors, score=identity, mask=None, tolerance=2e-5, grad=True, **options):
    """score and mask: functions, or pairs of such for the CPU and for the device."""
    score, score_on_device = score if isinstance(score, tuple) else (score, score)
    mask, mask_on_device = mask if isinstance(mask, tuple) else (mask, mask)
    block_mask = None
    if mask is not None:
        names = {"block", "batch", "heads"} & options.keys()
        sizes = {name: options.pop(name) for name in names}
        block_mask = mask_of(mask_on_device, tensors, device, **sizes)
    theirs, ours = exact(tensors, grad), on(device, tensors, grad)
    expected = formula(*theirs, score, mask or noop_mask, options.get("scale"))[:1]
    actual = compiled()(*ours, score_mod=score_on_device, block_mask=block_mask, **options)
    assert actual.dtype == tensors[0].dtype
    actual = [actual]
    if grad:
        weights = torch.linspace(-1, 1, expected[0].numel()).view(expected[0].shape)
        expected += torch.autograd.grad(expected[0], theirs, weights.double())
        actual += torch.autograd.grad(actual[0], ours, weights.to(device, tensors[0].dtype))
    assert_close(actual, expected, tolerance)


@pytest.mark.parametrize("score", [identity, alibi, soft_capped, causal_by_score, by_batch])
def test_scores(device, score):
    check(device, operands(), score)


@pytest.mark.parametrize("block", [128, 32, (64, 16), (24, 40)])
@pytest.mark.parametrize("mask", [causal, window, prefix])
def test_masks(device, mask, block):
    check(device, operands(), mask=mask, block=block)


def test_a_mask_of_its_own_for_each_head(device):
    check(device, operands(), mask=of_heads, batch=2, heads=4)


def test_rows_without_a_key(device):
    tensors = operands()
    check(device, tensors, mask=nothing_for_some, score=alibi)
    block_mask = mask_of(nothing_for_some, tensors, device)
    ours = on(device, tensors)
    out, aux = compiled()(*ours, block_mask=block_mask, return_aux=AuxRequest(lse=True))
    assert out[:, :, ::3].eq(0).all() and aux.lse[:, :, ::3].isneginf().all()
    assert_close([out, aux.lse], formula(*exact(tensors), mask_mod=nothing_for_some))


@pytest.mark.parametrize("bias", [relative_bias, wrapped_bias])
def test_captured_tensors(device, bias):
    check(device, operands(), (bias(BIAS), bias(BIAS.to(device))))


def test_packed_documents(device):
    masks = documents(DOCUMENTS), documents(DOCUMENTS.to(device))
    check(device, operands(), alibi, masks, block=16)


def test_gradients_of_captured_tensors(device):
    tensors = operands()
    bias, ours = BIAS.double().requires_grad_(), BIAS.to(device).requires_grad_()
    expected, _ = formula(*exact(tensors), relative_bias(bias))
    actual = compiled()(*on(device, tensors, grad=True), score_mod=relative_bias(ours))
    expected.square().sum().backward()
    actual.square().sum().backward()
    assert_close([ours.grad], [bias.grad], 1e-4)


def test_two_reads_of_a_tensor_with_gradients_are_refused(device):
    bias = BIAS.to(device).requires_grad_()

    def twice(score, b, h, m, n):
        return score + bias[h, m] * bias[h, n]

    with pytest.raises(Exception, match="multiple indexing operations"):
        compiled()(*on(device, operands(), grad=True), score_mod=twice).sum().backward()


def test_an_index_outside_of_a_captured_tensor(device):
    bias = BIAS[:, :100].to(device)
    function = compiled()
    with pytest.raises(IndexError, match="index 149 is out of bounds"):
        function(*on(device, operands((1, 1, 150, 16))), score_mod=relative_bias(bias))
        torch.ocl.synchronize()


def test_a_captured_number(device):
    tensors = operands()

    def attend(factor, *tensors):
        return flex_attention(*tensors, score_mod=lambda score, b, h, m, n: score * factor)

    torch._dynamo.reset()
    function = torch.compile(attend, fullgraph=True, dynamic=True)
    for factor in (2, 3, 5):
        query, key, value = exact(tensors)
        expected, _ = formula(query * factor, key, value)
        assert_close([function(factor, *on(device, tensors))], [expected])


@pytest.mark.parametrize("key_heads", [1, 2])
@pytest.mark.parametrize("mask", [None, causal])
def test_grouped_queries(device, key_heads, mask):
    check(device, operands(key_heads=key_heads), alibi, mask, enable_gqa=True)


@pytest.mark.parametrize("queries, keys, size, value_size", [(7, 93, 5, 24), (150, 11, 72, 3)])
def test_sizes(device, queries, keys, size, value_size):
    tensors = operands((1, 2, queries, size), keys=keys, value_size=value_size)
    check(device, tensors, alibi, prefix, scale=0.3)


@pytest.mark.parametrize("heads", [(4, 4), (8, 2)])
def test_decoding(device, heads):
    """A query at the end, whose place is a tensor."""
    tensors = operands((3, heads[0], 1, 32), key_heads=heads[1], keys=300)
    place = torch.tensor(199)

    def until(place):
        return lambda b, h, m, n: n <= m + place

    check(device, tensors, mask=(until(place), until(place.to(device))), enable_gqa=True)


def test_keys_shared_by_the_batch(device):
    query, key, value = operands()
    tensors = query, key[:1], value[:1]
    check(device, tensors, alibi, causal, batch=2)


def test_tensors_with_other_strides(device):
    """As views of one product, with the heads next to each other."""
    packed = random_tensor((2, 60, 3, 4, 16), torch.float32, low=-1, high=1)
    theirs = packed.double().requires_grad_()
    ours = packed.to(device).requires_grad_()

    def attend(x, attention):
        return attention(*x.permute(2, 0, 3, 1, 4).unbind())

    expected, _ = attend(theirs, formula)
    torch._dynamo.reset()
    actual = torch.compile(attend, fullgraph=True)(ours, flex_attention)
    assert actual.transpose(1, 2).is_contiguous()  # as the query
    expected.square().sum().backward()
    actual.square().sum().backward()
    assert_close([actual, ours.grad], [expected, theirs.grad])


@pytest.mark.parametrize("dtype, tolerance", [(torch.float16, 1e-2), (torch.bfloat16, 6e-2)])
def test_short_floats(device, dtype, tolerance):
    check(device, operands(dtype=dtype), soft_capped, causal, tolerance)


def test_doubles(device):
    if not has_fp64(device):
        pytest.skip("the device has no float64")
    check(device, operands(dtype=torch.float64), alibi, causal, 1e-6)


def test_autocast(device):
    tensors = operands()
    expected, _ = formula(*exact(tensors), soft_capped)
    with torch.autocast("ocl", torch.bfloat16):
        actual = compiled()(*on(device, tensors), score_mod=soft_capped)
    assert actual.dtype == torch.bfloat16
    assert_close([actual], [expected], 6e-2)


def test_statistics_and_their_gradients(device):
    tensors = operands((1, 2, 70, 16))
    theirs, ours = exact(tensors, grad=True), on(device, tensors, grad=True)
    out, log_sum = formula(*theirs, alibi, causal)
    mask, request = mask_of(causal, tensors, device), AuxRequest(lse=True, max_scores=True)
    actual, aux = compiled()(*ours, score_mod=alibi, block_mask=mask, return_aux=request)
    (out.sum() + log_sum.square().sum()).backward()
    (actual.sum() + aux.lse.square().sum()).backward()
    assert_close([actual, aux.lse], [out, log_sum])
    assert_close([x.grad for x in ours], [x.grad for x in theirs], 1e-4)
    scores = theirs[0] @ theirs[1].mT / 4
    places = torch.arange(70)
    heads = torch.arange(2)[:, None, None]
    scores = alibi(scores, 0, heads, places[:, None], places)
    scores = scores.masked_fill(places[:, None] < places, -math.inf)
    assert_close([aux.max_scores], [scores.amax(-1)])


def test_nan_and_infinity(device):
    query, key, value = operands((1, 1, 40, 16))
    query[0, 0, 3, 2] = math.nan
    key[0, 0, 39, :] = 1e30
    value[0, 0, 7, 1] = math.inf
    tensors = query, key, value
    expected, _ = formula(*tensors, mask_mod=causal)
    actual = compiled()(*on(device, tensors), block_mask=mask_of(causal, tensors, device))
    torch.testing.assert_close(actual.cpu(), expected, equal_nan=True, rtol=1e-4, atol=1e-4)


def test_dynamic_lengths(device):
    function = compiled(dynamic=True)
    for length in (50, 61, 130):
        tensors = operands((2, 2, length, 16))
        theirs, ours = exact(tensors, grad=True), on(device, tensors, grad=True)
        expected, _ = formula(*theirs, alibi, causal)
        mask = mask_of(causal, tensors, device)
        with torch._dynamo.config.patch(error_on_recompile=length > 61):
            actual = function(*ours, score_mod=alibi, block_mask=mask)
        expected.sum().backward()
        actual.sum().backward()
        assert_close([actual], [expected])
        assert_close([x.grad for x in ours], [x.grad for x in theirs], 1e-4)


def test_eager_is_the_formula(device):
    tensors = operands((1, 2, 40, 16))
    theirs, ours = exact(tensors, grad=True), on(device, tensors, grad=True)
    expected, _ = formula(*theirs, alibi, causal)
    with pytest.warns(UserWarning, match="called without torch.compile"):
        torch.nn.attention.flex_attention._WARNINGS_SHOWN.discard("flex_attention_performance")
        mask = mask_of(causal, tensors, device)
        actual = flex_attention(*ours, score_mod=alibi, block_mask=mask)
    expected.sum().backward()
    actual.sum().backward()
    assert_close([actual, *(x.grad for x in ours)], [expected, *(x.grad for x in theirs)])


def test_block_masks(device):
    ids = DOCUMENTS.to(device)
    expected = create_block_mask(documents(DOCUMENTS), None, None, 150, 150, "cpu", 16)
    eager = create_block_mask(documents(ids), None, None, 150, 150, device, 16)
    made = torch.compile(create_block_mask)(documents(ids), None, None, 150, 150, device, 16)
    for mask in (eager, made, expected.to(device)):
        assert isinstance(mask, BlockMask) and mask.kv_num_blocks.device.type == "ocl"
        assert torch.equal(mask.to_dense().cpu(), expected.to_dense())


def test_memory_is_without_the_matrix_of_scores(device):
    length = 2048
    tensors = on(device, operands((1, 2, length, 16)), grad=True)
    function, mask = compiled(), mask_of(causal, tensors, device)

    def step():
        function(*tensors, score_mod=alibi, block_mask=mask).sum().backward()

    step()
    before = torch.ocl.memory_allocated(device)
    torch.ocl.reset_peak_memory_stats(device)
    step()
    peak = torch.ocl.max_memory_allocated(device) - before
    assert peak < length * length  # a quarter of one head's scores


def test_programs_in_cpp(device):
    tensors = operands((1, 2, 40, 16))
    with torch._inductor.config.patch(cpp_wrapper=True):
        check(device, tensors, alibi, causal)


IN_A_PROCESS = """
    import sys
    sys.path.insert(0, {folder!r})
    import torch
    import test_flex_attention as t

    device = torch.device("ocl", 0)
    bias = t.BIAS.to(device)
    tensors = t.operands((2, 4, 70, 32), key_heads=2)
    t.check(device, tensors, t.alibi, t.window, block=32, enable_gqa=True)
    t.check(device, tensors, (t.relative_bias(t.BIAS), t.relative_bias(bias)), enable_gqa=True)
    t.check(device, t.operands((1, 1, 1, 72), keys=90, value_size=20), t.soft_capped)
    t.check(device, t.operands(dtype=torch.float16), t.soft_capped, t.nothing_for_some, 1e-2)
    t.test_gradients_of_captured_tensors(device)
    print("done")
"""


def test_kernels_of_gpus(device):
    code = IN_A_PROCESS.format(folder=str(pathlib.Path(__file__).parent))
    assert output_of(code, OCL_KERNEL_FAMILY="gpu").split() == ["done"]
