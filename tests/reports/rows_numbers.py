"""Element-wise programs: types, conversions, special numbers, integers that wrap around."""

import torch
import torch.nn.functional as F
from reports import normal, report, values, whole

inf, nan = float("inf"), float("nan")
f16, bf16, f32, f64 = torch.float16, torch.bfloat16, torch.float32, torch.float64
u8, i8, i16, i32, i64 = torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64
SPECIAL = values(-inf, -1e30, -3.5, -1.0, -0.0, 0.0, 0.25, 1.0, 7.0, 1e30, inf, nan)


def flags(x):
    return torch.arange(len(x), device=x.device).bool()


# Integers.
report(143566, values(1000, -3, 7, dtype=i64), values(64, 70, 3, dtype=i64))(
    torch.bitwise_left_shift
)
report(143555, values(1000, -3, 7, dtype=i64), values(64, 70, 3, dtype=i64))(
    torch.bitwise_right_shift
)
report(161763, values(7, 200, dtype=u8), normal(3, 2))(lambda c, x: (c + x, -c, -c + x, (-c) / 2))
report(105264, values(128, 250, dtype=u8))(lambda x: ((x + x).to(i16), (x * x).float()))
report(93829, values(6, 0, 255, dtype=u8))(lambda x: (torch.neg(x), torch.neg(x) < 4))
report(109105, whole(4, 5, dtype=i8, low=-128, high=128), whole(5, dtype=i8))(
    lambda x, y: ((x * 6 * y).int(), (6 * (x * y)).long(), (x + x).to(i32))
)
report(113143, whole(14, dtype=i8, low=-60, high=60))(lambda x: ((x * 8).int(), x.int() * 8))
report(187018, values(200, 200, 3, dtype=u8))(
    lambda x: (torch.cat([-x.abs(), -x.abs()]).sum(), (-x.abs()).long())
)
report(190764, values(2**31 - 1, -(2**31), 5, dtype=i32))(
    lambda x: ((x + 1).long(), (x - 7).long(), (x * 3).long(), (-x).long(), x.abs().long())
)
report(175966, normal(1))(
    lambda x: torch.arange(0, 11, device=x.device) * torch.tensor([10**9], device=x.device)
)
report(183901, normal(1))(lambda x: torch.arange(9, device=x.device) * 1500000000)
report(184406, values(-(2**31), 7, dtype=i32), values(-1, -2, dtype=i32))(torch.floor_divide)
report(141559, torch.ones(10, dtype=i64), torch.ones(10, dtype=u8))(lambda a, b: (a > 1) & (b > 0))
report(164486, torch.full((), 5, dtype=i16))(
    lambda x: torch.div(
        torch.add(torch.full((), 1, dtype=i16, device=x.device), x),
        torch.full((1,), 3, dtype=i16, device=x.device).squeeze(),
    )
)
report(145929, values(2, 5, dtype=u8), values(-10, -7, -7, -3, dtype=i8))(torch.bucketize)
report(198081, values(0, 3, 0, dtype=u8))(lambda x: (x.any(), x.all(), x.any(0) * 200 + 100))
report(174172, normal(6))(lambda x: (torch.copysign(x, -0.0), torch.copysign(x, 2)))
report(173987, values(3.14, 1.0, 2.5, dtype=bf16))(
    lambda x: (torch.eq(x, 3.14), x < 3.14, x == 2.5, torch.ne(x, 0.1))
)

# Conversions.
report(156788, values(1.5410, -0.2934, -2.1788, 0.5684, -1.0845))(lambda x: (x.to(u8), x.to(i8)))
report(158567, torch.arange(-128.0, 256.0))(lambda x: (x.to(u8), x.to(i16), x.clamp(0, 255).byte()))
report(131910, normal(20, seed=1))(lambda x: (x.byte(), (x * 100).char(), x.short()))
report(151510, values(3.7, nan, 2e9))(
    lambda x: torch.nan_to_num(x, nan=0, posinf=5, neginf=-5).long()
)
report(176565, normal(4, 4))(lambda x: (x.to(bf16).to(f32), x.half().float() * 3))
report(185337, torch.arange(20.0).reshape(5, 4).t() / 7)(
    lambda x: (x.half().float(), x.half().float().sum(1))
)
report(183761, normal(4, 5), near=(2e-3, 2e-3))(
    lambda x: (torch.where(x > 0, x, torch.full_like(x, 0.3)).half() + 1, x.half() + x)
)
report(197091, whole(3, 4), normal(3, 4, dtype=f16), normal(3, 4))(
    lambda b, h, f: (torch.ldexp(b, h), torch.ldexp(h, f), torch.ldexp(f, h), torch.ldexp(f, b))
)
report(191308, whole(1, 3, 4, dtype=i8), whole(1, 4, 2, dtype=i8))(
    lambda a, b: (a.int() @ b.int()).to(i8)
)
report(189518, normal(1))(
    lambda x: torch.ones((2, 4, 4), dtype=torch.bool, device=x.device).cumsum(1, dtype=bf16)
)
report(145401, normal(64, 40, dtype=f16) + 8, near=(1e-2, 2e-3))(lambda x: torch.var_mean(x, 1))

# Special numbers.
report(197895, values(1.0, 0.5, 6.0, 1.0, -1.0, inf), values(0.1, 0.1, 0.2, 1 / 3, 0.1, 2.0))(
    lambda a, b: (a // b, torch.floor_divide(a, b), torch.div(a, b, rounding_mode="floor"))
)
report(194345, values(1e10, 65504.0, 7.5, -7.5), values(3e-3, 6e-2, 2.0, 2.0))(
    lambda a, b: (torch.remainder(a, b), torch.fmod(a, b))
)
report(193755, values(-1.0, 2.0, 0.0, -0.0), values(1.0, -1.0, 3.0, -3.0), signs=True)(
    lambda a, b: (torch.remainder(a, b), torch.fmod(a, b))
)
report(183606, values(-0.0, -1.0, 1.5, -2.5), signs=True)(
    lambda x: (torch.frac(x), 1 / torch.frac(x))
)
report(189799, values(-0.5, -0.0, 0.0, -0.9), signs=True)(
    lambda x: (torch.ceil(x) + torch.zeros_like(x), F.elu(x), torch.ceil(x).add(0).reciprocal())
)
report(189799, values(-0.0, 0.0, 4.0), signs=True)(
    lambda x: (x.sqrt(), x.sqrt().rsqrt(), x.rsqrt())
)
report(185610, values(-0.0, 0.0, nan, 1.0), values(0.0, -0.0, 1.0, nan), signs=False)(
    lambda x, y: (torch.minimum(x, y), torch.maximum(x, y), torch.fmin(x, y), torch.fmax(x, y))
)
report(194347, values(-0.0, -0.0, 2.0, dtype=f64), values(0.0, -0.0, 3.0, dtype=f64))(torch.minimum)
report(188231, normal(4))(
    lambda x: (flags(x) == flags(x), flags(x) != flags(x), flags(x) == flags(x).logical_not())
)
report(188230, normal(4))(
    lambda x: (torch.minimum(flags(x), flags(x)), torch.maximum(flags(x), flags(x).logical_not()))
)
report(187935, values(-0.0, 0.0, -1.0, 2.5, -nan, dtype=f64))(torch.signbit)
report(172067, normal(5))(
    lambda x: (torch.clamp(x, None, nan), torch.clamp(x, nan), x.clamp(0, nan))
)
report(195675, normal(4))(lambda x: torch.clamp(x, min=-3.4e38, max=3.4e38))
report(194976, normal(2, 6), 0.5)(
    lambda x, limit: F.silu(x).clamp(max=limit) * x.clamp(-limit, limit)
)
report(161150, normal(1, 10), values(inf))(lambda x, s: ((x * s).softmax(-1), x * s))
report(163932, normal(5, 5))(lambda x: ((x * 1e14).softmax(-1), (x * 1e30).log_softmax(1)))
report(
    144029,
    values(1.7 + 1j, 2.0, dtype=torch.complex64),
    values(0.4 + 2j, 1j, dtype=torch.complex64),
)(torch.logaddexp)
report(144029, SPECIAL, SPECIAL.flip(0))(
    lambda x, y: (torch.logaddexp(x, y), torch.logaddexp2(x, y))
)
report(143790, SPECIAL)(lambda x: (torch.frexp(x)[0], torch.frexp(x[2:10])[1]))
report(187332, values(inf, -inf, 2.0, nan))(torch.special.i0)
report(188545, values(nan, inf, -inf, 3.0, dtype=f64))(torch.special.bessel_y0)
report(143648, values(2.0, 0.5, -1.5))(lambda x: torch.special.polygamma(0, x))
report(147450, values(-0.5, 0.5, 3.0))(lambda x: torch.special.polygamma(1, x))
report(152205, values(2, 5, dtype=i64))(lambda x: torch.special.polygamma(0, x))
report(173478, normal(512).abs() + 1)(lambda x: torch.special.psi(torch.atan(x) + 1))
report(198133, values(0.99, 0.9999, 0.999999, 0.99999994, -0.9999999))(torch.erfinv)
report(198133, values(0.999, 1 - 1e-9, 1 - 1e-12, dtype=f64))(torch.erfinv)
report(198183, values(*[1e-8, 1e-7, 2e-7, 5e-7, 1e-6, 1e-5, 1e-4, 1e-3] * 4), near=(1e-5, 1e-12))(
    lambda x: (torch.erf(x) / x, torch.atanh(x) / x)
)
report(142223, normal(64, 64))(torch.tanh)
report(177839, torch.full((2, 20), 0.3)[:, :17])(lambda x: torch.special.logit(x, eps=0.51))
report(170745, normal(6, 8, dtype=f64) + 2, whole(6, 8, low=0, high=32))(
    lambda x, t: F.poisson_nll_loss(x, t, full=True, eps=1e-10, reduction="none")
)
report(181692, normal(3, 4))(lambda x: (F.rrelu(x, training=False), F.rrelu(x, 0.2, 0.4, False)))
report(181693, values(-4.0, -3.0, -1.0, 0.0, 2.9, 3.0, 5.0))(
    lambda x: (F.hardswish(x), F.hardsigmoid(x))
)
report(181694, normal(4, 5), normal(4, 5), normal(4, 5).abs() + 0.5)(
    lambda x, a, b: (torch.addcdiv(x, a, b, value=-2), torch.addcmul(x, a, b, value=0.5))
)
report(176797, normal(40), normal(40), values(0.3))(
    lambda x, y, w: (torch.lerp(x, y, 0.7), torch.lerp(x, y, w), torch.lerp(x, y, 0.2))
)
report(170684, normal(5, 6, 7, dtype=bf16), normal(5, 6, 7, dtype=bf16, seed=1))(
    lambda x, y: F.cosine_similarity(x, y, 0, 1e-6)
)
report(182225, normal(1, 2, 7, 16, dtype=bf16), normal(1, 7, 16, dtype=bf16), near=(6e-2, 3e-2))(
    lambda q, c: (
        q * c.unsqueeze(1) + torch.cat((-q[..., 8:], q[..., :8]), -1) * c.sin().unsqueeze(1)
    )
)
report(159239, normal(1, 2, 6, 8), normal(6, 8))(
    lambda q, c: q * c.cos() + torch.cat((-q[..., 4:], q[..., :4]), -1) * c.sin()
)
report(160746, normal(1, 16), normal(3, 16), normal(3, 1))(
    lambda a, b, c: (
        torch.add(
            torch.cos(a * torch.add(a, b)), torch.cos(torch.full((3, 16), -0.4, device=a.device))
        )
        * c
    )
)

# Complex numbers.
report(148950, normal(5, 5, dtype=torch.complex64))(lambda x: x + torch.conj(x))
report(174891, torch.ones(2, 2, dtype=torch.complex64))(
    lambda x: x + torch.ones(2, 1, dtype=torch.complex64, device=x.device)
)
report(171850, normal(3, 4), normal(4, 4, dtype=torch.complex64) * (1 + 2j))(
    lambda x, w: (torch.complex(x, torch.zeros_like(x)).conj() @ w).conj() * 2
)


@report(197586, values(1 + 1j, 2 - 1j, dtype=torch.complex64))
def _(x):
    x[0] = complex(-0.0, 0.0)
    return torch.angle(x)


@report(188225, normal(1))
def _(x):
    one = torch.ones(2, 2, device=x.device)
    return torch.softmax(torch.arccosh(torch.log2(torch.atan2(one, one))), 1)


@report(145587, normal(4, 3), normal(4, 3))
def _(a, b):
    return a.shape[0] * a * b


@report(142328, normal(6, 4))
def _(x):
    y = x.reshape(x.shape[0], -1) / (x.norm() + 1e-7)
    return y * max(1, x.shape[0] / x[0].numel()) ** 0.5


@report(135432, [3, 4], normal(1))
def _(numbers, x):
    return torch.tensor(numbers, dtype=torch.float32, device=x.device)


@report(187580, values(float("nan"), float("inf"), -0.0, -1.0, 1.0), whole(5), signs=True)
def _(x, n):
    return x * 0, 0 * x + 1, (x * 0).sum(), x.half() * 0, n * 0, torch.mul(x, 0) - n
