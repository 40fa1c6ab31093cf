"""Reductions, scans, sorting, and what is fused with them."""

import torch
import torch.nn.functional as F
from reports import normal, report, values, whole

f16, bf16, f32, f64 = torch.float16, torch.bfloat16, torch.float32, torch.float64
u8, i8, i32, i64 = torch.uint8, torch.int8, torch.int32, torch.int64
BYTES = values(5, 1, 100, 3, 7, 8, 9, 13, 100, 120, 127, 2, 6, 4, 11, 12, 90, 80, dtype=u8)

# A reduction, then another program over its result.
report(135796, normal(31, 65))(lambda x: (x.sum(1).repeat(2), x.amax(0).tile(3)))
report(135796, normal(31, 65))(lambda x: x.argmin(1).repeat(2, 2))
report(189895, torch.ones(1, 16384, dtype=torch.bool))(
    lambda m: F.pad(torch.cumsum(m.sum(-1, dtype=i32), 0, dtype=i32), (1, 0))
)
report(189895, normal(3, 5000))(
    lambda x: (F.pad(x.sum(1), (1, 2)), F.pad(x.amax(1), (0, 1), value=7))
)
report(179931, normal(3, 65, 8, 8))(lambda x: F.adaptive_avg_pool2d(x, 7).flatten(1).sum(-1))
report(180848, normal(2, 33, 8, 8, dtype=f64))(
    lambda x: F.adaptive_avg_pool2d(x, 7).flatten(1).sum(-1)
)
report(180956, normal(3, 33, 8, 8))(lambda x: F.adaptive_avg_pool2d(x, 7).flatten(1).mean(-1))
report(182181, normal(8, 3, 1))(
    lambda x: (x.norm(dim=-1), x.norm(dim=-1, keepdim=True), x.norm(1, 2))
)
report(186029, whole(8, low=0, high=4), values(1.0, -2.0, 3.0, 0.0, 4.0, -5.0, 6.0, 7.0))(
    lambda x, w: (x.bincount(w, minlength=6), x.bincount(w, minlength=6).count_nonzero())
)
report(171493, torch.ones(1024, 1), torch.zeros(1024, dtype=i64))(
    lambda f, b: f / (torch.zeros(3, 1, device=f.device).index_add_(0, b, f**2 + 0.01)[b] + 1e-6)
)
report(154703, torch.full((3000, 1000), 0.5))(lambda x: (x.mean(), x.sum(), x.mean(0).mean()))
report(113015, whole(50, 20, low=0, high=99, dtype=i32))(
    lambda x: (x[3:4], x[::7].sum(0), torch.max(x[3:4], -x[::7]))
)
report(115261, whole(13, dtype=u8, low=0, high=200), whole(13, dtype=u8, low=0, high=200, seed=1))(
    lambda a, b: (torch.max(a, b) + a, (torch.max(a, b).int() ** 2).sum())
)
report(143337, normal(40, 300) + 100, near=(1e-3, 1e-4))(lambda x: torch.var_mean(x, 1))
report(141541, normal(1, 8, 40, 40))(lambda x: F.group_norm(x, 4))
report(113167, normal(5, 1))(lambda x: torch.var_mean(x, dim=-1, correction=0, keepdim=True))
report(186577, normal(64, 128))(lambda x: torch.reciprocal(torch.abs(F.layer_norm(x, [128])) + 1))
report(186577, normal(64, 128))(lambda x: (torch.rsqrt(F.layer_norm(x, [128]).square() + 1)).sum(1))
report(162410, normal(20, 20), normal(20, 20, seed=1))(
    lambda x, y: x.copy_(x.flip(1)) + (y.sum(1) + y)
)
report(189787, normal(3, 33))(lambda x: F.softmax(x, -1).sum(-1))

# Indices of extremes.
report(178964, normal(8, 8).t(), normal(8, 8, seed=1))(lambda a, b: (a + b).max(dim=1))
report(178964, normal(33, 8).t(), normal(8, 33, seed=1))(lambda a, b: (a * b).min(dim=0))
report(193661, normal(6, 5, 9).permute(1, 2, 0))(
    lambda x: (
        x.mean(-1).argmax(),
        x.var(-1).argmax(0),
        x.sum(-1).argmin(1),
        x.logsumexp(-1).argmax(),
    )
)
report(193661, normal(4, 5, 16)[..., ::2])(lambda x: (x.mean(-1).argmax(), x.amax(-1).argmax(-1)))
report(193492, normal(2, 8, 6, 6).contiguous(memory_format=torch.channels_last))(
    lambda x: F.adaptive_avg_pool2d(x, 1).flatten(1).argmax(1)
)
report(114229, normal(3, 4, 5, 6), normal(3, 4, 5, 6, seed=1))(
    lambda x, y: (x / y, (x / y - x / y).argmax(3), (x * y).argmin(2))
)
report(93630, whole(10, 10, low=1, high=5, dtype=i32))(
    lambda x: (x.argmax(0), x.argmin(1), x.argmax())
)
report(191499, BYTES)(lambda x: (x.amin(), x.amax(), torch.min(x), x.argmin(), x.argmax()))
report(191499, BYTES.to(i8))(lambda x: ((-x).max(), x.min(), (-x).argmax(), x.min(0)))
report(191499, BYTES.repeat(3).to(i8))(lambda x: (x.view(3, 18).amin(1), (-x).view(3, 18).amax(1)))


@report(183082, normal(5, 7))
def _(x):
    x = x.clone()
    x.sin_()
    return x.t().argmax(), x.t().argmin(0)


# Scans and sorting.
report(193263, normal(1))(lambda x: torch.tensor(5.0, device=x.device).cumsum(0))
report(193265, normal(1))(lambda x: (torch.full((), 5, device=x.device).cumsum(-1), x[0].cumsum(0)))
report(179571, normal(5))(
    lambda x: x * torch.full((5,), 0.5, device=x.device).cumsum(0).flip(0).cumsum(0).flip(0)
)
report(188224, normal(1))(
    lambda x: torch.cummin(torch.bartlett_window(0, periodic=False, device=x.device).clone(), 0)[0]
)
report(132107, torch.full((100,), float("inf"), dtype=f64))(lambda x: torch.cumsum(x, -1))
report(172062, normal(2, 20, dtype=f64), normal(2, 20, dtype=f64, seed=1))(
    lambda g, x: torch.ops.aten.cumprod_backward(g, x, 1, x.cumprod(1))
)
report(117623, values(0.9201, 0.1166, 0.7))(lambda x: torch.cumsum(x, 0, dtype=i32))
report(174459, whole(8, 3, low=1, high=3))(
    lambda x: torch.ops.aten.sort.stable(x, stable=None, dim=-1, descending=True)[0]
)
report(174459, whole(8, 30, low=1, high=9))(lambda x: x.sort(1, stable=True, descending=True))
report(182343, values(0, 3, 7, 12, dtype=i64), torch.arange(12))(
    lambda o, v: torch.searchsorted(o[1:], v, right=True)
)
report(160964, torch.arange(10), values(2.5, 4.5, 5.5))(
    lambda b, x: (torch.bucketize(x, b[1:]), torch.bucketize(x, b[::2]), torch.bucketize(x, b[3:7]))
)
report(185587, normal(1, 4, 1, 6).abs() + 1)(
    lambda x: torch.cumulative_trapezoid(torch.polygamma(0, x + 0.1).unsqueeze(2))
)


def closure(fill):
    return lambda x: torch.full((2,), fill, dtype=i64, device=x.device).cumsum(0).sum()


report(193876, normal(1))(closure(1))
report(193876, normal(1))(closure(2))

# Products.
report(196596, torch.full((4,), float("nan")), normal(1, 4), normal(4, 4))(
    lambda x, a, b: torch.addmm(x, a, b, beta=0)
)
report(196596, normal(4), torch.full((1, 4), float("nan")), normal(4, 4))(
    lambda x, a, b: torch.addmm(x, a, b, alpha=0)
)
report(
    196577,
    torch.full((4,), 10.0),
    normal(10240, 4),
    normal(4, 4),
    config={"post_grad_fusion_options": {"decompose_mm_pass": {}}},
)(lambda x, a, b: torch.addmm(x, a, b, beta=0.5, alpha=2))
report(183899, torch.zeros(11), normal(3, 7), normal(11, 7))(
    lambda b, x, w: torch.addmm(b, x, w.t(), beta=0.0, alpha=0.25)
)
report(96087, torch.full((3, 2, 2), float("nan")), normal(3, 2, 4), normal(3, 4, 2))(
    lambda x, a, b: torch.baddbmm(x, a, b, beta=0.0)
)
report(181568, normal(2, 15, 32), normal(32, 17), normal(17), near=(3e-2, 3e-2))(
    lambda x, w, b: ((x @ w).to(bf16) + b, ((x @ w).to(bf16) + b).mean(-1))
)
report(179561, normal(8, 16), normal(16, 8), near=(1e-2, 1e-2))(
    lambda x, w: ((x @ w).half().float() * torch.sigmoid((x @ w).half().float())).sum(1)
)
report(179575, normal(2, 5, 8), normal(4, 8, 2))(
    lambda x, w: torch.einsum("bte,hed->bhtd", x, w).softmax(-1)
)
report(141561, normal(1, 3, 9, 9), normal(4, 3, 3, 3))(
    lambda x, w: F.conv2d(x, w, padding=1).relu()
)
report(194329, normal(4, 6, dtype=f16), autocast=f16, near=(1e-2, 1e-2))(
    lambda x: (x.sum(1), x.softmax(1), x.cumsum(1))
)
