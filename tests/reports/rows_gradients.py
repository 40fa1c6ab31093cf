"""Gradients, and derivatives of derivatives."""

import torch
import torch.nn.functional as F
from reports import normal, report, values, whole

f16, f64 = torch.float16, torch.float64
GRADIENTS = dict(differentiate=True)

for start, end in ((0, 6), (2, 7), (5, 13)):
    report(180164, normal(4, 13, 5), normal(4, end - start, 5), **GRADIENTS)(
        lambda x, y, a=start, b=end: torch.slice_scatter(x, y, 1, a, b).sum(1)
    )
report(180771, normal(5), normal(2), **GRADIENTS)(
    lambda x, y: torch.slice_scatter(x, y, 0, 0, 2).sum()
)
report(183898, normal(6), normal(3), **GRADIENTS)(
    lambda x, y: torch.slice_scatter(x, y, 0, 1, 4).sum()
)
report(182012, normal(8, 8), normal(8), **GRADIENTS)(
    lambda x, y: torch.diagonal_scatter(x, y).sum()
)
report(182012, normal(4, 8), normal(8), **GRADIENTS)(
    lambda x, y: torch.select_scatter(x, y, 0, 1).sum()
)
report(186799, normal(4, 7), normal(4, 7, seed=1), **GRADIENTS)(
    lambda x, y: (torch.atan2(x, y).amin(1), torch.atan2(y, x).amax(0))
)
report(186799, normal(1, 10, 2), normal(2, 2), normal(2, 2), near=(1e-3, 1e-4), **GRADIENTS)(
    lambda x, a, b: x @ a + ((x @ a).amax(1, keepdim=True)).expand(-1, 10, -1) @ b
)
report(186799, whole(3, 6, low=0, high=2).float(), **GRADIENTS)(
    lambda x: (x.amax(1), x.amin(0), x.max(1)[0])
)
report(185509, normal(1, 2, 6, 8), normal(3, 2, 3, 3), normal(3), near=(1e-3, 1e-4), **GRADIENTS)(
    lambda x, w, b: F.max_pool2d(
        F.conv2d(
            F.interpolate(x, scale_factor=(1.5, 1.25), mode="bilinear")[:, :, 1:7, 1:8],
            w,
            b,
            padding=1,
        ),
        3,
        1,
        1,
    )
)
report(193061, normal(2, 40, 16), normal(6, 16), near=(1e-3, 1e-3), **GRADIENTS)(
    lambda x, t: (lambda y: y + F.layer_norm(y, (16,)) * (1 + t[2]) + t[3])(
        x + F.layer_norm(x, (16,)) * (1 + t[0]) + t[1]
    )
)
report(193061, normal(1, 6000, 8), normal(1, 4, 8), near=(1e-3, 1e-2), **GRADIENTS)(
    lambda x, t: (lambda y, s: y + F.layer_norm(y, (8,)) * (1 + s[2]) + s[3])(
        x + F.layer_norm(x, (8,)) * (1 + t.chunk(4, 1)[0]) + t.chunk(4, 1)[1], t.chunk(4, 1)
    )
)
report(152309, normal(5, 3, 4), near=(1e-3, 1e-4), **GRADIENTS)(
    lambda x: (x.transpose(0, 1).contiguous().softmax(-1) @ x.permute(1, 2, 0)).transpose(0, 2)
)
report(100794, normal(1, 1, 6, 6), normal(1, 1, 4, 4), **GRADIENTS)(
    lambda x, w: F.interpolate(F.conv2d(x, w), size=[2, 2], mode="bicubic")
)
report(136662, normal(2, 3))(
    lambda x: torch.func.grad(lambda x: twice_into_a_column(torch.zeros_like(x), x).sum())(x)
)
report(190855, values(*range(1, 10), dtype=f64).view(3, 3) / 10)(
    lambda x: torch.func.hessian(
        lambda t: torch.mean(
            1.0 / (t + torch.trace(t) * torch.eye(3, dtype=t.dtype, device=t.device))
        )
    )(x)
)
report(190855, normal(3, 3))(
    lambda x: (
        torch.func.jacfwd(torch.trace)(x),
        torch.func.jacrev(lambda t: t.diagonal().prod())(x),
    )
)
report(194706, torch.arange(1.0, 10.0).reshape(3, 3) / 10)(
    lambda x: torch.func.jacfwd(lambda x: torch.mm(torch.prod(x) + x, torch.sum(x) + x).sum())(x)
)
report(162795, normal(32, 256), normal(256), normal(256), near=(1e-3, 1e-3), **GRADIENTS)(
    lambda x, w, b: F.layer_norm(x, (256,), w, b)
)
report(171493, normal(40, 3), whole(40, low=0, high=4), **GRADIENTS)(
    lambda f, b: f / (torch.zeros(4, 3, device=f.device).index_add(0, b, f**2)[b] + 1)
)
report(170745, normal(6, 8, dtype=f64), normal(6, 8, dtype=f64, seed=1).abs(), **GRADIENTS)(
    lambda x, t: (F.poisson_nll_loss(x, t), F.huber_loss(x, t), F.smooth_l1_loss(x, t, beta=0.5))
)
report(155247, normal(5, 4), whole(5, low=0, high=4), **GRADIENTS)(
    lambda x, t: (F.nll_loss(x, t), F.cross_entropy(x, t, label_smoothing=0.1))
)
report(155247, normal(4), torch.tensor(2), **GRADIENTS)(
    lambda x, t: (F.nll_loss(x, t), F.cross_entropy(x, t))
)
report(135546, normal(5, 4), values(1, -100, 3, 0, -100, dtype=torch.int64), **GRADIENTS)(
    F.cross_entropy
)
report(172062, normal(2, 7), **GRADIENTS)(lambda x: (x.cumprod(1), x.cumsum(0), x.logcumsumexp(1)))
report(141727, normal(2, 7, 64), normal(64), near=(1e-3, 1e-4), **GRADIENTS)(
    lambda x, w: F.rms_norm(x, (64,), w, 1e-5)
)
report(115260, normal(3, 4), normal(3, 1), **GRADIENTS)(
    lambda x, y: (torch.tan(torch.cat((x, x), 1) * torch.max(y, y * 2)), x.norm(dim=1), x.prod(1))
)
report(148814, normal(3, 4), **GRADIENTS)(
    lambda x: (x.norm(), F.normalize(x * 0), x.std(1), x.var())
)


def twice_into_a_column(y, x):
    y[:, 0] += x[:, 2].abs()
    y[:, 0] += x[:, 2].abs()
    return y
