"""Calls that eager kernels refuse: the compiled program must refuse them, too."""

import torch
import torch.nn.functional as F
from reports import normal, report, values, whole

f16, f64, i32, i64 = torch.float16, torch.float64, torch.int32, torch.int64

report(194501, values(1.0), values(0.0))(lambda x, y: F.smooth_l1_loss(x, y, beta=-1.0))
report(193757, torch.full((4, 4), 1.5))(lambda t: F.binary_cross_entropy(torch.ones_like(t), t))
report(185246, torch.full((4,), 1.5))(torch.bernoulli)
report(183769, normal(3, 4))(lambda x: torch.select(x.unsqueeze(1), 1, 1))
report(183762, values(-2.0, 3.0))(lambda x: torch.celu_(x, 0.0))
report(183608, normal(5, 2), values(2, -2, 4, dtype=i64))(lambda w, i: F.embedding(i, w))
report(151918, normal(4, 1), torch.arange(-4, 4))(lambda w, i: torch.embedding(w, i))
report(100831, normal(1, 1), whole(1, 10, low=3, high=100))(lambda w, i: F.embedding(i, w))
report(121251, normal(2, 2))(lambda x: torch.index_select(x, 0, torch.tensor([2], device=x.device)))
report(111952, normal(2))(lambda x: x[torch.tensor([1], device=x.device) + 1])
report(126691, normal(8, 4))(lambda a: a[torch.arange(1, -a.numel() - 1, -1, device=a.device)])
report(185885, normal(4, 3), values(0, -1, dtype=i64), normal(2, 3))(
    lambda x, i, s: torch.index_add(x, 0, i, s)
)
report(131321, normal(4), values(0, 1, 0, -1, dtype=i64), normal(4))(
    lambda x, i, s: torch.scatter_reduce(x, 0, i, s, "sum")
)
report(135546, normal(5, 4), values(1, -1, 3, 0, 2, dtype=i64))(F.cross_entropy)
report(147206, torch.tensor([1, 0, 2]))(lambda x: torch.remainder(1, x <= 0))
report(154420, values(5, 3, dtype=torch.uint8), values(0, 2, dtype=torch.uint8))(
    lambda x, y: (torch.fmod(x, y), torch.remainder(x, y))
)
report(174174, values(5, 3, dtype=i64))(lambda x: torch.remainder(x, 0))
report(178013, values(0, 4, dtype=i64), values(0, 2, dtype=i64))(torch.floor_divide)
report(143717, values(4, 2, dtype=i64), values(0, 2, dtype=i64))(lambda x, y: x.div_(y))
report(147280, normal(1))(
    lambda x: torch.linalg.tensorinv(torch.fft.fftfreq(1, device=x.device).reshape(1, 1), 1)
)
report(147100, normal(9))(lambda x: torch.as_strided(x, (1,), (-1,)) + 1.0)
report(177630, normal(1, 3, 4, dtype=f16), normal(1, 4, 2))(torch.matmul)
report(171191, normal(2, 4, 8), normal(2, 8, 4), normal(2, 4, 4, dtype=f64), normal(2, 4, 8))(
    lambda q, k, m, v: torch.bmm((torch.bmm(q, k) + m).softmax(-1), v)
)
report(195579, normal(500, 1), normal(1, 1), normal(1, 1))(torch.addmm)
report(193811, whole(1, 3, 1, 8, dtype=i32))(
    lambda x: torch.ops.aten.upsample_bilinear2d(x, [16, 15], False, None, None)
)
report(193815, normal(8, 256).abs() + 2, torch.ones(8, 8))(torch.special.zeta)
report(195675, normal(4))(lambda x: torch.clamp(x, min=-3.4e39, max=3.4e39))
report(195675, normal(4))(lambda x: torch.clamp_min(x, -3.4e39))
report(195675, normal(4, dtype=f16))(lambda x: F.pad(x, (1, 1), value=1e9))
report(137213, normal(10, 10), torch.empty(10, dtype=f64), torch.empty(10, dtype=f64))(
    lambda x, a, b: torch.aminmax(x, dim=-1, out=(a, b))
)
report(188224, normal(3))(lambda x: torch.cummin(x, -46)[0])
