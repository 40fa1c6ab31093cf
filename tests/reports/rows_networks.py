"""Attention, normalisation, control flow: patterns of networks."""

import torch
import torch.nn.functional as F
from reports import normal, report, whole
from torch._higher_order_ops.scan import scan

bf16, f16 = torch.bfloat16, torch.float16
QKV = [normal(2, 2, 5, 8, seed=k) for k in range(3)]


@report(195320, normal(2, 5, 16), normal(16, 16), normal(16, 16, seed=1), normal(16, 16, seed=2))
def _(x, wq, wk, wv):
    q = (x @ wq).view(2, 5, 2, 8).permute(0, 2, 1, 3)
    k = (x @ wk).view(2, 5, 2, 8).permute(0, 2, 3, 1)
    v = (x @ wv).view(2, 5, 2, 8).permute(0, 2, 1, 3)
    return ((torch.matmul(q, k) * 0.3).softmax(-1) @ v).transpose(1, 2).reshape(2, 5, 16)


@report(195320, normal(5, 5, 5, 5), normal(5, 5, 5, 5, seed=1), normal(5, 5, 5, 5, seed=2))
def _(q, k, v):
    return torch.matmul(q, k.permute(2, 0, 3, 1)).mul(0.4).softmax(-1).matmul(v)


@report(195589, normal(2, 1, 8), normal(2, 2, 8), normal(2, 2, 8, seed=1), normal(8, 8))
def _(q, k, v, w):
    q, k, v = q.view(1, 1, 2, 1, 8), k.view(1, 1, 2, 2, 8), v.view(1, 1, 2, 2, 8)
    y = (torch.matmul(q, k.transpose(-2, -1)) / 8**0.5).softmax(-1).matmul(v)
    return F.linear(y.view(2, 1, 8), w)


report(195782, *QKV, normal(5, 5))(
    lambda q, k, v, m: (
        (m + q @ k.transpose(-2, -1)).softmax(-1) @ v,
        (q @ k.mT + m).softmax(-1) @ v,
    )
)
report(191203, *QKV, torch.triu(torch.full((5, 5), -1e9), 1), torch.tensor(0.5))(
    lambda q, k, v, m, s: F.softmax(q @ k.transpose(-2, -1) / s + m, -1) @ v
)
report(179578, *QKV)(
    lambda q, k, v: F.dropout((q @ k.transpose(-2, -1)).div(2.5).softmax(-1), 0.0).matmul(v)
)
report(100318, *QKV, torch.zeros(5, 5, dtype=torch.bool))(
    lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m)
)
report(121174, *QKV)(
    lambda q, k, v: ((q @ k.transpose(-2, -1) / 8**0.5 + 0.1).softmax(-1) @ v, q.sum(-1))
)
report(159469, *QKV, near=(1e-3, 1e-4), differentiate=True)(
    lambda q, k, v: F.scaled_dot_product_attention(
        q, k[:, :1], v[:, :1], is_causal=True, enable_gqa=True
    )
)
report(181696, normal(6, 10, 12), normal(10), normal(10).abs() + 1, near=(1e-3, 1e-3))(
    lambda x, mean, var: F.group_norm(F.elu(F.batch_norm(x, mean, var)), 5)
)
report(183120, normal(2, 4, 6, 6), normal(4), normal(4).abs() + 1, near=(1e-3, 1e-3))(
    lambda x, mean, var: torch.log(
        F.group_norm(F.elu(F.batch_norm(x, mean, var)), 2).clamp(min=0.5)
    )
)
report(183601, normal(4, 3, 10, 12), near=(1e-3, 1e-3))(
    lambda x: F.normalize(F.hardswish(F.instance_norm(x) * x), dim=0)
)
report(
    191433,
    *[normal(4, 12, seed=k) for k in range(3)],
    normal(12, 2),
    normal(6, 8, 2),
    whole(6, 8, low=0, high=4),
    autocast=bf16,
    near=(5e-2, 5e-2),
)(
    lambda a, b, c, w, x, i: F.rms_norm(
        F.embedding(i, a) + F.embedding(i, b) + F.linear(x, w) + F.embedding(3 - i, c), (12,)
    )
)
report(168126, normal(2, 3, 8, 8, dtype=bf16), normal(4, 3, 3, 3, dtype=bf16), near=(1e-1, 1e-1))(
    lambda x, w: F.gelu(F.group_norm(F.conv2d(x, w, padding=1), 2)).mean((2, 3))
)
report(158530, normal(1, 3, 8, 8), normal(4, 3, 3, 3), normal(4, 4, 3, 3), near=(1e-3, 1e-3))(
    lambda x, a, b: F.relu(F.conv2d(F.relu(F.conv2d(x, a, padding=1)), b, padding=1))
)
report(178879, normal(4, 6, 8))(
    lambda x: torch.cat(
        [torch.tanh(x.select(1, k)) + torch.sigmoid(x.select(1, k)) for k in range(6)], 1
    )
)


@report(166525, normal(2, 2), normal(2, 2, seed=1))
def _(a, b):
    zero = torch.zeros((), dtype=torch.int64, device=a.device)
    return torch.while_loop(
        lambda i, x, y: i < 3,
        lambda i, x, y: (i + 1, x + a, y + b),
        (zero, torch.zeros_like(a), torch.zeros_like(b)),
    )


@report(153679, normal(7, 3), normal(3), normal(3, seed=1), differentiate=True, near=(1e-3, 1e-4))
def _(x, a, b):
    def layer(carry, x, w):
        carry = torch.tanh(carry * w + x)
        return carry, carry.clone()

    first = scan(lambda c, x: layer(c, x, a), torch.zeros_like(a), x)[1]
    return scan(lambda c, x: layer(c, x, b), torch.zeros_like(b), first)[1]
