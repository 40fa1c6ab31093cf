"""flex_attention, compiled: kernels with the functions of the scores inside (inductor/flex)."""

import math
import pathlib

import pytest
import support
import torch
from flex_cases import (
    DOCUMENTS,
    alibi,
    assert_close,
    by_batch,
    causal,
    causal_by_score,
    check,
    compiled,
    documents,
    exact,
    formula,
    identity,
    mask_of,
    nothing_for_some,
    of_heads,
    on,
    operands,
    prefix,
    soft_capped,
    window,
)
from support import has_fp64, output_of, random_tensor
from torch.nn.attention.flex_attention import (
    AuxRequest,
    BlockMask,
    create_block_mask,
    flex_attention,
)

pytestmark = pytest.mark.usefixtures("fresh_compiler")


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


@pytest.mark.parametrize("key_heads", [1, 2])
@pytest.mark.parametrize("mask", [None, causal])
def test_grouped_queries(device, key_heads, mask):
    check(device, operands(key_heads=key_heads), alibi, mask, enable_gqa=True)


@pytest.mark.parametrize(
    "queries, keys, size, value_size", [(7, 93, 5, 24), (150, 11, 72, 3), (40, 70, 256, 320)]
)
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
    """Query, key and value are views of one product, with adjacent heads."""
    packed = random_tensor((2, 60, 3, 4, 16), torch.float32, low=-1, high=1)
    theirs = packed.double().requires_grad_()
    ours = packed.to(device).requires_grad_()

    def attend(x, attention):
        return attention(*x.permute(2, 0, 3, 1, 4).unbind())

    expected, _ = attend(theirs, formula)
    torch._dynamo.reset()
    actual = torch.compile(attend, fullgraph=True)(ours, flex_attention)
    assert actual.transpose(1, 2).is_contiguous()  # like the query
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


@pytest.mark.parametrize("dtype, tolerance", [(torch.float16, 1e-2), (torch.bfloat16, 6e-2)])
def test_autocast(device, dtype, tolerance):
    tensors = operands()
    theirs, ours = exact(tensors, grad=True), on(device, tensors, grad=True)
    expected, _ = formula(*theirs, soft_capped)
    with torch.autocast("ocl", dtype):
        actual = compiled()(*ours, score_mod=soft_capped)
    assert actual.dtype == dtype
    assert_close([actual], [expected], tolerance)
    expected.sum().backward()
    actual.float().sum().backward()
    assert_close([x.grad for x in ours], [x.grad for x in theirs], tolerance)


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


def test_gradients_of_statistics_alone(device):
    tensors = operands((1, 2, 70, 16))
    theirs, ours = exact(tensors, grad=True), on(device, tensors, grad=True)

    def sums(*tensors):
        return flex_attention(*tensors, score_mod=alibi, return_aux=AuxRequest(lse=True))[1].lse

    torch._dynamo.reset()
    actual, expected = torch.compile(sums, fullgraph=True)(*ours), formula(*theirs, alibi)[1]
    assert_close([actual], [expected])
    grads = torch.autograd.grad(actual.square().sum(), ours)
    expected = torch.autograd.grad(expected.square().sum(), theirs[:2])
    assert_close(grads, [*expected, torch.zeros_like(theirs[2])], 1e-4)


def test_empty_operands(device):
    for shape, keys in (((2, 2, 0, 16), 5), ((0, 2, 4, 16), 4)):
        tensors = on(device, operands(shape, keys=keys), grad=True)
        result = compiled()(*tensors)
        assert result.shape == tensors[0].shape
        for tensor, grad in zip(tensors, torch.autograd.grad(result.sum(), tensors)):
            assert torch.equal(grad, torch.zeros_like(tensor))
    tensors = operands((1, 2, 4, 16))
    with pytest.raises(Exception, match="not compiled for heads without elements"):
        compiled()(*on(device, (*tensors[:2], tensors[2][..., :0])))
    without_keys = tensors[0], tensors[1][:, :, :0], tensors[2][:, :, :0]
    with pytest.raises(Exception, match="needs at least one key"):
        compiled()(*on(device, without_keys))


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
    for length in (70, 101, 130):
        tensors = operands((2, 2, length, 16))
        theirs, ours = exact(tensors, grad=True), on(device, tensors, grad=True)
        expected, _ = formula(*theirs, alibi, causal)
        mask = mask_of(causal, tensors, device, block=32)
        with torch._dynamo.config.patch(error_on_recompile=length > 70):
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


def test_options_of_other_backends(device):
    tensors = operands((2, 2, 50, 16))
    check(device, tensors, alibi, causal, kernel_options={"BLOCK_M": 64, "PRESCALE_QK": True})
    with pytest.raises(Exception, match="no BACKEND='FLASH' on ocl"):
        compiled()(*on(device, tensors), kernel_options={"BACKEND": "FLASH"})


def test_scales_that_differ_from_call_to_call(device):
    tensors = operands((2, 2, 50, 16))

    def attend(scale, *tensors):
        return flex_attention(*tensors, scale=scale)

    torch._dynamo.reset()
    function = torch.compile(attend, fullgraph=True)
    for scale in (0.5, 0.25, 0.125):
        expected, _ = formula(*exact(tensors), scale=scale)
        assert_close([function(scale, *on(device, tensors))], [expected])


def test_a_slice_of_a_block_mask(device):
    """A query's part of a row, as when a text is read in chunks."""
    tensors = operands((2, 2, 128, 16))
    mask = mask_of(causal, tensors, device, block=32)[:, :, 2:3]
    mask.mask_mod, mask.seq_lengths = lambda b, h, m, n: m + 64 >= n, (32, 128)
    query, key, value = on(device, tensors)
    actual = compiled()(query[:, :, 64:96], key, value, block_mask=mask)
    assert_close([actual], [formula(*exact(tensors), mask_mod=causal)[0][:, :, 64:96]])


@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
def test_modes(device, mode):
    tensors = operands((2, 2, 50, 16))
    function = compiled(mode=mode)
    for _ in range(3):  # the third call is a replay
        theirs, ours = exact(tensors, grad=True), on(device, tensors, grad=True)
        expected, actual = formula(*theirs, alibi)[0], function(*ours, score_mod=alibi)
        expected.sum().backward()
        actual.sum().backward()
        assert_close([actual, *(x.grad for x in ours)], [expected, *(x.grad for x in theirs)])


def test_programs_in_cpp(device):
    tensors = operands((1, 2, 40, 16))
    with torch._inductor.config.patch(cpp_wrapper=True):
        check(device, tensors, alibi, causal)


IN_A_PROCESS = """
    import sys
    sys.path += {folders!r}
    import torch
    import flex_cases as t
    from test_flex_attention_captured import test_gradients_of_captured_tensors

    device = torch.device("ocl", 0)
    bias = t.BIAS.to(device)
    tensors = t.operands((2, 4, 70, 32), key_heads=2)
    t.check(device, tensors, t.alibi, t.window, block=32, enable_gqa=True)
    t.check(device, tensors, (t.relative_bias(t.BIAS), t.relative_bias(bias)), enable_gqa=True)
    t.check(device, t.operands((1, 1, 1, 72), keys=90, value_size=20), t.soft_capped)
    t.check(device, t.operands(dtype=torch.float16), t.soft_capped, t.nothing_for_some, 1e-2)
    test_gradients_of_captured_tensors(device)
    memory = torch.ocl.get_device_properties(device).local_memory
    try:
        t.compiled()(*t.on(device, t.operands((1, 1, 2, memory // 4))))
    except Exception as error:
        print("bytes of local memory for heads of" in str(error))
"""


def test_kernels_of_gpus(device):
    code = IN_A_PROCESS.format(
        folders=[str(pathlib.Path(file).parent) for file in (__file__, support.__file__)]
    )
    assert output_of(code, OCL_KERNEL_FAMILY="gpu").split() == ["True"]
