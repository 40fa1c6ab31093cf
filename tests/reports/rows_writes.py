"""Programs that write their arguments, views and intermediate results."""

import torch
import torch.nn.functional as F
from reports import normal, report, values, whole

i16, i32, i64 = torch.int16, torch.int32, torch.int64
COUNTED = torch.arange(-12, 12).reshape(4, 6)


@torch.library.custom_op("reports::reverse_into", mutates_args=("dst",))
def reverse_into(src: torch.Tensor, dst: torch.Tensor) -> None:
    for k in range(src.shape[0]):
        dst[src.shape[0] - 1 - k] = src[k]


@torch.library.custom_op("reports::add_to_both", mutates_args=("a", "b"))
def add_to_both(a: torch.Tensor, b: torch.Tensor) -> None:
    a.add_(1)
    b.add_(2)


@torch.library.custom_op("reports::sum_into", mutates_args=("out",))
def sum_into(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
    out.copy_(a + b + 2)


@report(138908, torch.full((1, 2), -10), normal(2, 32))
def _(x, y):
    x = x + 10
    y[x] += y[x]
    return y * 1


@report(197829, normal(33, 16))
def _(x):
    x[1:] = x[:-1].clone()
    return x


@report(197829, normal(40, 50))
def _(x):
    x[:, :-1] = x[:, 1:].clone()
    x[:, 1:] += x[:, :-1].clone()
    return x.sum(0)


@report(197829, normal(9))
def _(x):
    x[2:].copy_(x[:-2].clone())
    x[:3] = x[4:7] * 1
    return x + 0


@report(198094, COUNTED + 12, COUNTED)
def _(x, s):
    y = torch.slice_scatter(x, s[1:3], dim=0, start=1, end=3)
    x.zero_()
    return y


@report(198094, normal(4, 4))
def _(x):
    y = torch.diagonal_scatter(x, x.diagonal())
    x.fill_(2)
    return y


@report(198094, normal(4, 4) * 4)
def _(x):
    x.index_fill_(0, torch.tensor([1], device=x.device), 9)
    y = x.clone()
    x.clamp_(0, 3)
    return y


@report(198094, normal(4, 4), normal(4))
def _(x, s):
    y = torch.select_scatter(x, s, 0, 2)
    x.mul_(0)
    return y, y.sum(0)


@report(198101, COUNTED)
def _(x):
    y = x.view(i32) * 2
    y.sub_(-4)
    x[:, 2:5] = 2
    return y.view(i64)


@report(198101, normal(4, 6))
def _(x):
    y = x.view(i32).bitwise_and(0x7FFFFFFF)
    x.mul_(-3)
    return y, x.view(i32)


@report(198131, torch.zeros(3, 4), torch.arange(12.0).view(3, 4))
def _(dst, src):
    dst[0:, :] = src[0:, :]
    src.add_(1)
    return src


@report(198131, normal(3, 4), normal(3, 4, seed=1))
def _(a, b):
    t = a.clone()
    a.copy_(b)
    b.copy_(t)
    return a + 0, t


@report(198031, torch.arange(8.0))
def _(x):
    y = x.clone()
    torch.ops.reports.reverse_into(y, x)
    return x * 2.0


@report(197408, normal(4, 4))
def _(x):
    y = torch.diagonal_scatter(x.view(i32).clone().view(torch.float32), x[0])
    x.add_(1)
    return y


@report(153389, normal(3, 3))
def _(x):
    out = torch.zeros_like(x)
    torch.ops.reports.add_to_both(x[0], x[1])
    torch.ops.reports.sum_into(x[0, 0], x[1, 0], out)
    return out


@report(131192, normal(2))
def _(x):
    first = x[0]
    torch.ops.reports.add_to_both(first, x[1])
    return x.sum()


@report(152425, torch.arange(2))
def _(numbers):
    found = []
    for k in range(2):
        a = numbers[k].clone().expand(2) + 0
        a[-1] = 3
        found.append(a)
    return found


@report(162410, normal(20, 20))
def _(x):
    x.copy_(x.flip(1))
    x.copy_(x.t().clone())
    return x.sum(0)


@report(163572, normal(11, 3, 3), differentiate=True)
def _(x):
    y = x.clone()
    y.zero_()
    z = y.contiguous().view(99).clone()
    return z.mul_(2) + x.sum()


@report(174187, values(1, 0, 1, 0, dtype=torch.bool), values(0, 0, 1, 1, dtype=torch.bool))
def _(a, b):
    c = a | b
    a.copy_(b)
    b.zero_()
    return c, a + b


@report(185382, normal(5), normal(5), torch.zeros(()))
def _(p, g, step):
    m, v = torch.zeros_like(p), torch.zeros_like(p)
    for _ in range(4):
        step.add_(1)
        m.mul_(0.9).add_(g, alpha=0.1)
        v.mul_(0.999).addcmul_(g, g, value=0.001)
        n = step.item()
        p.addcdiv_(m, (v.sqrt() / (1 - 0.999**n) ** 0.5).add_(1e-3), value=-0.1 / (1 - 0.9**n))
    return p * 1


@report(183575, normal(8, 8), normal(8, 8), normal(8, 8), torch.zeros(8, 8), torch.zeros(8, 8))
def _(p1, p2, x, m1, m2):
    y = x @ p1
    g1, g2 = x.t() @ y, (y @ p2).t() @ y
    m1.lerp_(g1, 0.05)
    m2.lerp_(g2, 0.05)
    p1.add_(m1, alpha=-0.01)
    p2.add_(m2, alpha=-0.01)
    return y.sum()


@report(185888, torch.arange(4.0))
def _(x):
    y = x.clone().as_strided_((2, 2), (2, 1))
    return torch.max(y), y


@report(195422, torch.ones(2, 2))
def _(x):
    y = F.dropout(x, 0.5, False)
    y += y
    return y * 1


@report(195422, torch.ones(2, 2))
def _(x):
    y = x.view_as(x)
    y += 1
    return x * 2


@report(195437, normal(6, 5, 4, 2), normal(6, 4, 4, 2), normal(6, 4, 4, 1))
def _(h, e, w):
    target = torch.as_strided(h, (6, 4, 4, 2), h.stride(), 8)
    target.addcmul_(w, e * 3.0, value=0.25)


@report(193760, normal(4, 6), normal(4, 6, seed=1))
def _(x, y):
    x.view(torch.uint8).copy_(y.view(torch.uint8))
    return x * 1


@report(193760, normal(4, 6), normal(4, 6, seed=1))
def _(x, y):
    x.view(i16).copy_(y.view(i16))
    return x.view(i32) ^ y.view(i32), x


@report(193760, normal(4, 6), normal(4, 6, seed=1))
def _(x, y):
    return x.clone().view(torch.bool).copy_(y.view(torch.bool)).view(torch.float32)


@report(125999, normal(1, 3, 2, 26), normal(1, 3, 26))
def _(a, b):
    a = a[..., 1, :]
    low, high = torch.min(a, b), torch.max(a, b)
    a.copy_(high + torch.log(1 + torch.exp(low - high)))


@report(142118, normal(4, 4))
def _(x):
    y = x.clone()[:, 1]
    y.masked_fill_(torch.ones_like(y, dtype=torch.bool), 0)
    return y


@report(94777, values(3.0, 0.5))
def _(x):
    y = torch.log(x)
    x.log_()
    return y, x * 2


@report(104463, normal(4, 4))
def _(x):
    x.diagonal().add_(1)
    x[0].mul_(2)
    x.t()[1:].sub_(1)
    return x.sum(0)


@report(104505, normal(2, 4))
def _(x):
    y = x.as_strided((2,), (3,), 1)
    y.add_(1)
    return x * 2, y


@report(160851, normal(4), values(1, 2, dtype=i64))
def _(x, s):
    return torch.slice_scatter(x, s.float(), start=0, end=2), x + 1


@report(156786, normal(12))
def _(x):
    y = x.clone()
    x[3:9] = y[0:6]
    x[0:4] += y[8:12]
    return x, y


@report(195285, normal(5, 4), normal(5, 4), whole(3, low=0, high=5))
def _(x, s, i):
    y = torch.slice_scatter(x, s[1:3], 0, 1, 3)
    z = y.index_put((i,), s[:3], accumulate=True)
    x.copy_(z)
    return y, z


@report(198010, normal(6, 6))
def _(x):
    x[:, 2:] = x[:, :-2].clone()
    x[2:, :] = x[:-2, :].clone()
    return x.trace()


@report(96064, normal(6, 30))
def _(x):
    for i in range(1, 6):
        x[i] += x[i - 1]
    return x.flip(0)


@report(151156, normal(3, 4))
def _(x):
    a = x + 1
    b = a.view(-1)
    b[3] = 100
    c = a * 2
    b[4] = -100
    return a, b, c


@report(198270, normal(128, 256))
def _(x):
    x.index_put_((torch.arange(x.size(0), device=x.device),), x * 2)
    x.add_(x.flip(0))
    return x


@report(198270, normal(4, 8))
def _(x):
    x.index_copy_(0, torch.arange(x.size(0), device=x.device), x * 2)
    x.copy_(x.flip(0))
    return x + 1


@report(198270, normal(128, 256))
def _(x):
    x[torch.arange(x.size(0), device=x.device)] = x * 3
    torch._foreach_add_([x], [x.flip(1)])
    return x


@report(198270, normal(64, 64))
def _(x):
    x.index_add_(0, torch.arange(x.size(0), device=x.device), x * 2)
    x.mul_(x.t().clone())
    x.add_(x.roll(1, 1))
    return x.sum(0)
