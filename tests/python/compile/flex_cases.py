"""Helpers for the tests of flex_attention: score functions, masks, and PyTorch's formula."""

import math

import torch
from support import random_tensor
from torch.nn.attention.flex_attention import create_block_mask, flex_attention, noop_mask

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
