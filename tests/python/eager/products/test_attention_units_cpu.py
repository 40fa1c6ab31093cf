"""Attention by the matrix unit of CPUs: by AMX where the machine has it, and in plain OpenCL C."""

import textwrap

from support import output_of, run_python
from unit_modes import both, for_cpu_family, has_amx

pytestmark = for_cpu_family
HEAD = """
    import itertools, math, torch
    from torch.nn.functional import scaled_dot_product_attention as attention
    from torch_ocl import _C

    forward = torch.ops.aten._scaled_dot_product_fused_attention_overrideable
    backward = torch.ops.aten._scaled_dot_product_fused_attention_overrideable_backward
    torch.manual_seed(0)

    def make(*shape, dtype=torch.bfloat16, room=0):
        '''Random numbers; with room, a part of a larger tensor of NaN.'''
        t = torch.randn(shape).to(dtype)
        whole = torch.full([*shape[:-2], shape[-2] + room, shape[-1] + room], torch.nan).to(dtype)
        part = whole[..., room // 2 : room // 2 + shape[-2], room // 2 : room // 2 + shape[-1]]
        part.copy_(t)
        return part

    def operands(batch=1, heads=2, queries=40, keys=70, size=64, value_size=None, key_heads=None,
                 **options):
        '''-> query, key, value, and a gradient of the output'''
        value_size, key_heads = value_size or size, key_heads or heads
        return [make(*shape, **options) for shape in (
            (batch, heads, queries, size), (batch, key_heads, keys, size),
            (batch, key_heads, keys, value_size), (batch, heads, queries, value_size))]

    def move(t):
        '''With its strides, and what surrounds it.'''
        base = t._base if t._base is not None else t
        return base.to("ocl").as_strided(t.shape, t.stride(), t.storage_offset())

    def exact(q, k, v, g, mask=None, is_causal=False, scale=None, kept=1, sums=None):
        '''Results in float64, each with a bound of its error: weights and results are rounded.'''
        q, k, v, g = (t.double() for t in (q, k, v, g))
        scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
        group = q.shape[1] // k.shape[1]
        k, v = (t.repeat_interleave(group, 1) for t in (k, v))
        scores = scale * (q @ k.mT) + (0 if mask is None else mask.double())
        scores = scores.float().double()  # next to a large number of a mask, products do not count
        if is_causal:
            later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
            scores = scores.masked_fill(later, -torch.inf)
        log_sum = scores.logsumexp(-1)
        p = torch.softmax(scores, -1).nan_to_num(0)
        w = p * kept
        out, out_size = w @ v, w @ v.abs()
        slopes = p * ((g @ v.mT) * kept - (g * out).sum(-1, keepdim=True))
        error = slopes.abs() + p * (g.abs() * out_size).sum(-1, keepdim=True)
        shared = lambda t: t.unflatten(1, (-1, group)).sum(2)
        results = [(out, out_size), (scale * slopes @ k, scale * error @ k.abs()),
                   (scale * shared(slopes.mT @ q), scale * shared(error.mT @ q.abs())),
                   (shared(w.mT @ g), shared(w.mT @ g.abs()))]
        return log_sum.where(log_sum > -torch.inf, torch.inf), results

    def compute(q, k, v, g, mask=None, is_causal=False, scale=None, dropout=0):
        '''-> log_sum; output and gradients. The unit's kernels compute all of them.'''
        q, k, v, g = (move(t) for t in (q, k, v, g))
        mask = None if mask is None else move(mask)
        out, log_sum, *_, seed, offset, _ = forward(q, k, v, mask, dropout, is_causal, scale=scale)
        assert _C.last_kernel() == "attention_unit_forward", (_C.last_kernel(), q.shape, k.shape)
        grads = []
        for wanted, kernel in ([1, 0, 0, 0], "grad_query"), ([0, 1, 1, 0], "grad_key"):
            grads += [t for t in backward(
                g, q, k, v, mask, wanted, out, log_sum, None, None, 0, 0, dropout, is_causal, seed,
                offset, scale=scale)[:3] if t is not None and t.numel()]
            assert _C.last_kernel() == f"attention_unit_{kernel}", _C.last_kernel()
        return log_sum.cpu(), [t.cpu() for t in (out, *grads)]

    def check(q, k, v, g, mask=None, dropout=0, kept=1, **options):
        log_sum, expected = exact(q, k, v, g, mask, kept=kept, **options)
        actual_log_sum, actual = compute(q, k, v, g, mask, dropout=dropout, **options)
        torch.testing.assert_close(actual_log_sum.double(), log_sum, rtol=1e-5, atol=1e-5)
        for name, a, (e, size) in zip(("out", "query", "key", "value"), actual, expected):
            bound = 2.0**-8 * size + 2.0**-8 * e.abs() + 1e-6
            worst = ((a.double() - e).abs() / bound).max().item()
            assert worst <= 1, (name, worst, q.shape, k.shape, v.shape, options)
"""


def run(code, mode):
    return output_of(textwrap.dedent(HEAD) + textwrap.dedent(code), OCL_MATRIX_UNITS=mode)


@both
def test_lengths(mode):
    """Around those of blocks and chunks; what surrounds the operands is not read."""
    run(
        """
    lengths = (32, 47), (33, 32), (31, 64), (128, 70), (129, 33), (65, 257), (5, 400), (1100, 1)
    for (queries, keys), causal in itertools.product(lengths, (False, True)):
        check(*operands(2, 3, queries, keys, room=2), is_causal=causal)
    """,
        mode,
    )


@both
def test_sizes_of_heads(mode):
    run(
        """
    for size, value_size in (16, 16), (33, 20), (80, 96), (255, 256):
        check(*operands(1, 2, 45, 75, size, value_size, room=3))
    """,
        mode,
    )


@both
def test_many_rows(mode):
    """Sums of all blocks are kept between panels of rows."""
    run(
        """
    check(*operands(1, 1, 70, 1090, 256))
    check(*operands(1, 1, 600, 40, 256))
    check(*operands(1, 1, 1060, 1100, 256), is_causal=True)
    check(*operands(1, 4, 50, 1090, 256, key_heads=2), is_causal=True)
    check(*operands(1, 4, 530, 50, 256, key_heads=2))
    """,
        mode,
    )


@both
def test_heads_in_groups(mode):
    run(
        """
    for heads, key_heads in (4, 2), (3, 1):
        for causal in (False, True):
            check(*operands(2, heads, 50, 37, key_heads=key_heads), is_causal=causal)
    """,
        mode,
    )


@both
def test_layouts(mode):
    """Rows of other heads in between, rows 2 KiB apart, shared rows, gaps in rows."""
    run(
        """
    def each(change, **options):
        return [change(t) for t in operands(**options)]

    check(*each(lambda t: t.transpose(1, 2).contiguous().transpose(1, 2), heads=16))
    q, k, v, g = operands()
    k, v, g = (t.mT.contiguous().mT for t in (k, v, g))
    check(q, k, v, g)
    check(*each(lambda t: t[:1, :1].expand(2, 3, -1, -1)))
    check(*each(lambda t: t[:, :, ::2], queries=90, keys=80))
    check(*operands(), scale=0.7)
    check(*operands(), scale=1e-9)
    """,
        mode,
    )


@both
def test_masks(mode):
    run(
        """
    for queries, keys in (40, 70), (65, 64), (96, 160):
        x = operands(2, 3, queries, keys)
        for shape in (queries, keys), (2, 3, queries, keys), (2, 1, 1, keys), (1, 3, queries, 1):
            mask = torch.randn(shape).bfloat16()
            check(*x, mask)
            check(*x, mask.masked_fill(torch.rand(shape) < 0.3, -torch.inf))
        check(*x, torch.randn(keys, queries).bfloat16().t())
        check(*x, make(queries, keys, room=2))
    mask = torch.zeros(96, 160).bfloat16()
    mask[3:40] = -torch.inf  # these queries see no key
    check(*x, mask)
    mask.fill_(torch.finfo(torch.bfloat16).min)  # all keys count the same
    out, size = exact(*x, mask)[1][0]
    assert ((compute(*x, mask)[1][0].double() - out).abs() <= 2.0**-7 * size).all()
    seen = torch.rand(96, 160) < 0.5
    actual = attention(*(move(t) for t in x[:3]), attn_mask=seen.to("ocl"))
    assert _C.last_kernel() == "attention_unit_forward"
    check(*x, torch.zeros(96, 160).bfloat16().masked_fill(~seen, -torch.inf))
    expected = attention(*(t.double() for t in x[:3]), attn_mask=seen)
    torch.testing.assert_close(actual.cpu().double(), expected, rtol=0.02, atol=0.02)
    """,
        mode,
    )


@both
def test_dropout(mode):
    """The weights that the other kernels drop, in all three kernels."""
    run(
        """
    for causal, (queries, keys), heads, key_heads in itertools.product(
            (False, True), ((70, 57), (33, 128)), (4,), (4, 2)):
        q, k, v, g = operands(2, heads, queries, keys, key_heads=key_heads)
        # By the other kernels, which have float32. The weights are 0 or 2 / keys.
        same = torch.zeros(2, heads, queries, 64, device="ocl")
        one = torch.zeros(2, heads, keys, 64, device="ocl")
        identity = torch.eye(keys, device="ocl").expand(2, heads, keys, keys)
        torch.manual_seed(3)
        weights = forward(same, one, identity, None, 0.5)[0]
        assert _C.last_kernel() == "attention_forward"
        kept = (weights.cpu().double() * keys).round()
        assert set(kept.unique().tolist()) == {0, 2}
        torch.manual_seed(3)
        check(q, k, v, g, dropout=0.5, kept=kept, is_causal=causal)
    zero = compute(q, k, v, g, dropout=1.0)[1]
    assert all(t.eq(0).all() for t in zero)
    """,
        mode,
    )


@both
def test_special_numbers(mode):
    """NaN and infinities are where the other kernels, of float32, have them."""
    run(
        """
    q, k, v, g = operands(1, 2, 70, 300)
    q[0, 0, 3, 2], k[0, 0, 200, 1], k[0, 1, 5, 7] = torch.nan, torch.inf, -torch.inf
    q[0, 1, 40, 1], q[0, 1, 41, 1] = torch.inf, -torch.inf
    v[0, 0, 290, 1], v[0, 1, 7, 8], v[0, 1, 9, 9] = torch.inf, torch.nan, -torch.inf
    mask = torch.randn(70, 300).bfloat16()
    mask[9, 200], mask[10, 5], mask[11], mask[12] = torch.inf, torch.nan, -torch.inf, torch.nan
    for bias, causal in (None, False), (None, True), (mask, False):
        actual = compute(q, k, v, g, bias, is_causal=causal)
        wide = [move(t).float() for t in (q, k, v, g)]
        wide_bias = None if bias is None else bias.to("ocl").float()
        out, log_sum, *_, seed, offset, _ = forward(*wide[:3], wide_bias, 0, causal)
        expected = out, *backward(wide[3], *wide[:3], wide_bias, [1, 1, 1, 0], out, log_sum, None,
                                  None, 0, 0, 0, causal, seed, offset)[:3]
        assert _C.last_kernel() == "attention_grad_key"
        torch.testing.assert_close(actual[0], log_sum.cpu(), rtol=1e-5, atol=1e-5, equal_nan=True)
        for a, e in zip(actual[1], expected):
            a, e = a.float(), e.cpu()
            if causal and a.size(2) == 300:
                # Keys after a row of NaN: they are NaN in tiles that the row reaches. Tiles differ.
                after = torch.arange(300)[:, None] > torch.tensor([3, 41])[:, None, None]
                some_nan = after & (a.isnan() | e.isnan())
                a, e = a.masked_fill(some_nan, 0), e.masked_fill(some_nan, 0)
            torch.testing.assert_close(a, e, rtol=0.05, atol=0.05, equal_nan=True)
    """,
        mode,
    )


@both
def test_large_scores(mode):
    """Each query finds one key: its weight is 1, in the backward pass, too."""
    run(
        """
    for size in 1e2, 1e6, 1e15:
        q = k = size * torch.eye(64).bfloat16().expand(1, 2, 64, 64)
        v, g = make(1, 2, 64, 64), make(1, 2, 64, 64)
        _, (out, of_query, of_key, of_value) = compute(q, k, v, g)
        assert out.equal(v) and of_value.equal(g), size
    """,
        mode,
    )


@both
def test_results_repeat(mode):
    run(
        """
    x = operands(2, 4, 200, 300, key_heads=2)
    first = compute(*x)
    for _ in range(3):
        again = compute(*x)
        assert first[0].equal(again[0])
        assert all(a.equal(b) for a, b in zip(first[1], again[1]))
    """,
        mode,
    )


@both
def test_a_captured_call(mode):
    """Each replay drops other weights, and the backward pass drops the same."""
    run(
        """
    q, k, v, g = (t.to("ocl").requires_grad_() for t in operands())
    out = attention(q, k, v, dropout_p=0.5)  # probes
    torch.autograd.grad(out, (q, k, v), g)
    graph = torch.ocl.Graph()
    ones = torch.ones_like(v).detach().requires_grad_()
    with torch.ocl.graph(graph):
        out = attention(q, k, ones, dropout_p=0.5)
        grad = torch.autograd.grad(out, ones, torch.ones_like(g))[0]
    sums = []
    for _ in range(3):
        graph.replay()
        total = out.double().sum().item()  # a sum of the weights, as is the gradient
        torch.testing.assert_close(grad.double().sum().item(), total, rtol=1e-3, atol=0)
        sums.append(total)
    assert len(set(sums)) == 3
    """,
        mode,
    )


def test_other_kernels_hand_over_the_same():
    """log_sum and the results are those of the unit's kernels, so one can follow the other."""
    code = """
    for causal, (queries, keys) in itertools.product((False, True), ((65, 129), (130, 70))):
        check(*operands(2, 4, queries, keys, key_heads=2), is_causal=causal)
    check(*operands(1, 1, 40, 40, 256))
    """
    program = textwrap.dedent(HEAD).replace("attention_unit_", "attention_")
    output_of(program + textwrap.dedent(code), OCL_DISABLE="unit_attention")


def log(code, **variables):
    program = textwrap.dedent(HEAD) + textwrap.dedent(code)
    ended = run_python(program, **{"OCL_LOG_ALGORITHMS": "1", **variables})
    assert ended.returncode == 0, ended.stderr
    return ended.stderr


def test_the_log_says_what_is_used():
    code = """
    def call(queries=40, keys=70, dtype=torch.bfloat16, **options):
        q, k, v, g = (t.to("ocl").requires_grad_() for t in operands(
            queries=queries, keys=keys, dtype=dtype, size=options.pop("size", 64)))
        torch.autograd.grad(attention(q, k, v, **options), (q, k, v), g)

    call()
    """
    emulated = {"OCL_MATRIX_UNITS": "emulate"}
    sizes = "of [1, 2, 40, 64] and [1, 2, 70, 64]"
    text = log(
        code
        + """
    call(20, 20)
    call(500, 20, size=16)
    call(dtype=torch.float32)
    call(scale=-1.0)
    call(scale=0.0)
    """,
        **emulated,
    )
    for kind in (
        "attention",
        "gradient of attention's query",
        "gradients of attention's key and value",
    ):
        assert f"BFloat16 {kind} {sizes}: unit_attention; refused: decode_attention" in text, text
    for reason in (
        "for bfloat16",
        "few queries and keys",
        "few queries or keys of short heads",
        "a scale that is not positive",
    ):
        assert (
            f"tile_attention; refused: decode_attention (many queries), unit_attention ({reason})"
            in text
        )
    assert "unit_attention (OCL_DISABLE)" in log(code, OCL_DISABLE="unit_attention", **emulated)
    assert "unit_attention (OCL_MATRIX_UNITS=0)" in log(code, OCL_MATRIX_UNITS="0")
    if not has_amx:
        text = log(code, OCL_MATRIX_UNITS=None)
        assert "unit_attention (no matrix unit of the device is known)" in text
