"""Views, padding, interpolation, indices: which element is read."""

import torch
import torch.nn.functional as F
from reports import normal, report, values, whole

bf16, f64, i64 = torch.bfloat16, torch.float64, torch.int64
inf = float("inf")
IMAGE = normal(2, 3, 6, 5)

# Padding.
report(144462, normal(1, 1, 1))(lambda x: (F.pad(x, [10, 10]), F.pad(x, [0, 3], value=2.0)))
for pads in [(0, 1, 1, 0), (-1, 2, 0, -1), (2, -3), (-1, -1, -1, -1), (5, 0, 0, 0, 0, 2)]:
    report(195582, IMAGE)(
        lambda x, p=pads: (
            F.pad(x, p, value=0.5),
            F.pad(x * 2, p, value=-inf).amax(-1),
            F.pad(x, p).sum(),
        )
    )
report(195582, normal(3, 50, 3, 3), normal(10, 50), normal(50), normal(50).abs())(
    lambda x, w, mean, var: F.linear(
        F.pad(F.batch_norm(x, mean, var).view(3, -1), (0, 50 - 450)), w
    )
)
report(194558, normal(2, 5), normal(4, 2), normal(2, 6))(
    lambda x, w, y: (F.linear(F.pad(x * 2, (0, -3)), w), F.linear(F.pad(y, (0, 2)), w.repeat(1, 4)))
)
report(115157, normal(2, 3, 7, 9))(
    lambda x: (F.pad(x.abs(), (0, 24, 34, 0), "replicate") * 2, x.abs())
)
report(97807, normal(1, 2, 3))(lambda x: F.pad(F.pad(x, (0, 1)), (0, 0, 0, 1), "constant", 3.0))
for mode in ("reflect", "replicate", "circular"):
    report(115157, IMAGE)(
        lambda x, m=mode: (F.pad(x, (2, 1, 1, 2), m), F.pad(x.sin(), (1, 0, 0, 1), m) * 2)
    )


@report(97117, values(2.0, 3.0))
def _(a):
    b = F.pad(a, (0, 0))
    a[0] = 1
    return b, a


@report(177631, torch.zeros(2, 2))
def _(a):
    b = F.pad(a, (0, 0))
    a[0] = 1
    return torch.sort(b)[0]


# Interpolation.
report(175154, values(1.0, 2.0, dtype=f64).view(1, 1, 1, 2))(
    lambda x: F.interpolate(x, scale_factor=1.3, mode="nearest")
)
report(198201, torch.arange(12.0).view(1, 1, 3, 4))(
    lambda x: F.interpolate(x, scale_factor=(1.3, 1.5), mode="nearest")
)
report(198201, torch.arange(24.0).view(1, 1, 2, 3, 4))(
    lambda x: F.interpolate(x, scale_factor=(1.3, 1.2, 1.5), mode="nearest")
)
report(198201, torch.arange(5.0).view(1, 1, 5))(
    lambda x: (
        F.interpolate(x, scale_factor=1.1),
        F.interpolate(x, scale_factor=1.1, mode="nearest-exact"),
    )
)
report(170682, normal(2, 1, 10, 15, dtype=bf16))(lambda x: F.interpolate(x, scale_factor=2.0))
report(170688, normal(2, 1, 10, 15, dtype=bf16))(
    lambda x: F.interpolate(x, scale_factor=[2.0, 3.0], recompute_scale_factor=True)
)
report(145268, normal(23, 1, 1, 1, 34))(
    lambda x: (
        F.interpolate(x, size=[1, 39, 34], mode="trilinear").mean(0),
        F.interpolate(x, size=[1, 1, 1], mode="trilinear"),
    )
)
report(150165, normal(1, 2, 8, 8))(
    lambda x: F.interpolate(x, size=(16, 16), mode="bilinear", align_corners=True)
)
report(114226, IMAGE)(lambda x: (F.interpolate(x.floor(), [1, 1]), F.pad(x, (0, 0, 0, 0)), x / 2))
report(93262, normal(2, 8, 7, 10))(
    lambda x: (F.interpolate(x, [1, 1], mode="bilinear"), F.interpolate(x, (3, 4), mode="bicubic"))
)
report(160242, whole(2, 3, 8, 8, low=0, high=3).float())(
    lambda x: (F.max_pool2d(x, 3, 2, 1), F.max_pool2d(x, 2, return_indices=True))
)
report(183249, normal(1, 2, 8, 8))(lambda x: F.fractional_max_pool2d(x, 2, output_size=(3, 3)))

# Strides.
report(174963, torch.arange(100).view(2, 5, 2, 5).to(memory_format=torch.channels_last))(
    lambda x: torch.as_strided(torch.roll(x, -1, 0), (5, 10), (4, 1), 0)
)
report(130394, normal(16, 16)[:, :8])(
    lambda x: torch.empty_strided(x.size(), x.stride(), device=x.device).copy_(x + x)
)
report(197431, normal(3, 2))(
    lambda x: torch.as_strided(x.repeat(3, 2)[:, ::2], (3, 2), x.repeat(3, 2).stride())
)
report(186850, normal(2, 4, 3, 2, 2).permute(0, 1, 3, 4, 2))(
    lambda x: (x.unsqueeze(2) * 2).sum(-1) + x.unsqueeze(2).amax(-1)
)
report(185702, normal(4, 8, 20), normal(4, 8), normal(8), normal(8), near=(1e-3, 1e-4))(
    lambda c, y, a, b: torch.stack(
        [
            torch.special.gammaln(F.softplus(c[..., 16]) + a.abs() + 0.1),
            torch.erf(c[..., 16] * b),
            torch.special.xlogy(F.softplus(c[..., 16]), F.softplus(y)),
        ],
        -1,
    )
)
report(93357, normal(2, 1, 3), normal(2, 4, 3))(
    lambda x, y: torch.cat([x.expand(2, 4, 3), y], 1) * 2
)
report(114228, normal(1, 61), normal(5, 61), normal(1, 61))(
    lambda a, b, c: (
        torch.sin(torch.max((a * c).squeeze(0), torch.cat((a, b, c)))),
        torch.cat((a * c, a * c), 1),
    )
)
report(91505, normal(4, 4))(lambda x: x.unfold(0, 2, 1).unsqueeze(1).permute(0, 2, 3, -3) * 2)
report(96484, normal(2, 3), normal(2, 2))(lambda a, b: (F.pad(a, (0, -1)) + b).min(0).values)
report(109925, normal(4, 30))(lambda x: x.flip(1).cumsum(1).flip(1)[:, ::3])
report(133512, torch.arange(10)[::2])(
    lambda x: (x.roll(2), x.flip(0), x + 1, x.view(5, 1).expand(5, 3))
)

# Indices.
report(149278, whole(4, 20, low=0, high=2), dynamo={"capture_dynamic_output_shape_ops": True})(
    lambda x: torch.where(x)
)
report(155324, whole(6, 2, low=0, high=3), dynamo={"capture_dynamic_output_shape_ops": True})(
    lambda x: (torch.nonzero(x)[:, 0], torch.nonzero(x)[:, 1])
)
report(102602, normal(1, 6, 8))(lambda x: (x[:, [-1], :], x[:, [0, -2]], x[..., [-1, 3]]))
report(151918, normal(5, 3), values(2, 0, 4, dtype=i64))(lambda w, i: F.embedding(i, w))
report(125387, normal(9), 3)(
    lambda x, k: (x[k], x[k - 1 : k + 2].sum(), torch.arange(k, device=x.device))
)
report(94778, normal(5, 5), normal(5, 5, seed=1))(
    lambda x, y: torch.index_add(x, 0, torch.arange(5, device=x.device), y)
)
report(108963, normal(3))(
    lambda s: (
        torch.zeros(4, device=s.device).index_add(
            0, torch.tensor([0, 2, 0], device=s.device), s, alpha=2.0
        )
        / 2
    )
)
report(93823, normal(2, 4, 8), torch.ones(2, 4, 1, dtype=torch.bool))(
    lambda x, m: x.masked_fill(m, 0)
)
report(151510, normal(3, 4), whole(3, 2, low=0, high=4))(lambda x, i: x.gather(1, i) * 2)


@report(196570, normal(8, 8))
def _(x):
    m = torch.full((8, 8), -10000.0, device=x.device)
    a = torch.arange(8, device=x.device)
    m[a.unsqueeze(0), a.unsqueeze(1)] = 0
    return torch.softmax(x + m, -1)


@report(163420, normal(4, 4), values(3.0), dynamo={"capture_scalar_outputs": True})
def _(x, y):
    x.fill_diagonal_(y.item())
    return x * 2
