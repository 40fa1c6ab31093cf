"""Cases of element-wise operators, reductions, optimizers and random numbers."""

import torch
from torch.nn import functional as F

from .inputs import Family, awkward, differentiated, halves


def specials(t):
    numbers = [0.0, -0.0, 1.5, -2.5, float("inf"), -float("inf"), float("nan"), 1e30, 1e-30]
    return torch.tensor(numbers, device=t.device)


ELEMENT_WISE = Family(
    ("pointwise",),
    {
        **awkward(lambda t, x: [x.sin() * 2 + x[:1], differentiated(F.silu, x)[1], x > 0]),
        "float32": lambda t: [t.x(1000, 7).sin() + t.x(7), t.x(257).exp(), t.x(3, 1) * t.x(1, 5)],
        "float64": lambda t: [t.double(33, 17).exp() + 1, t.double(9) * t.double(9)],
        "special values": lambda t: [specials(t).tanh(), specials(t) * 2, specials(t).round()],
        "16 bits": halves(lambda x: x * 2 + x.sigmoid()),
        "integers": lambda t: [t.i((999,), 90) // 7, t.i((999,), 90) % 7 << 2, -t.i((5, 0), 9)],
        "comparisons": lambda t: [t.x(65) > 0, torch.where(t.x(3, 65) > 0, t.x(65), t.x(1))],
        "complex": lambda t: torch.view_as_real(torch.view_as_complex(t.x(33, 2)).exp() * 2j),
        "no dimensions": lambda t: t.x() + 1,
    },
    ["OCL_DISABLE=vectors"],
)


def foreach(t, x):
    """Operators on lists of tensors of many shapes."""
    tensors = [x, x[:1], x.t(), t.x(), t.x(0), t.x(4099)]
    others = [y + 1 for y in tensors]
    moved = [torch.empty_like(y) for y in tensors]
    torch._foreach_copy_(moved, tensors)
    torch._foreach_addcmul_(others, tensors, moved, 0.5)
    return [
        *torch._foreach_add(tensors, 2),
        *torch._foreach_mul(tensors, others),
        *torch._foreach_norm(tensors),
        *others,
    ]


LISTS = Family(("foreach",), awkward(foreach))


def optimized(t, x, kind, **options):
    """Three steps of an optimizer; in the second step, the second parameter has no gradient."""
    numbers = [x, x[:1].clone(), t.x(4099), t.x()]
    parameters = [y.detach().clone().requires_grad_() for y in numbers]
    optimizer = kind(parameters, **options)
    for step in range(3):
        for number, p in enumerate(parameters):
            p.grad = None if (step, number) == (1, 1) else p.detach() * 0.3 + step
        optimizer.step()
    return parameters


OPTIMIZERS = Family(
    ("optimizer",),
    {
        **awkward(lambda t, x: optimized(t, x, torch.optim.AdamW, fused=True)),
        "Adam, amsgrad": lambda t: optimized(
            t, t.x(9, 70), torch.optim.Adam, fused=True, amsgrad=True, weight_decay=0.1
        ),
        "SGD, momentum": lambda t: optimized(
            t, t.x(9, 70), torch.optim.SGD, fused=True, lr=0.1, momentum=0.9, nesterov=True
        ),
        "Adagrad": lambda t: optimized(t, t.x(9, 70), torch.optim.Adagrad, fused=True, lr=0.1),
        "not fused": lambda t: [
            *optimized(t, t.x(9, 70), torch.optim.AdamW, foreach=True),
            *optimized(t, t.x(9, 70), torch.optim.RMSprop, foreach=False),
        ],
    },
)


def unscaled(t, x, bad=None):
    """The operators of a loss scaler: divides gradients, finds infinities, updates the scale."""
    grads = [x.clone(), x[:1].clone(), t.x(4099), t.x(70, 13, dtype=torch.half)]
    if bad is not None:
        grads[2][4097] = bad
    found = torch.zeros((), device=t.device)
    torch._amp_foreach_non_finite_check_and_unscale_(grads, found, torch.full_like(found, 0.25))
    scale, steps = torch.full_like(found, 512.0), torch.zeros_like(found, dtype=torch.int32)
    torch._amp_update_scale_(scale, steps, found, 2.0, 0.5, 1)
    return [*grads, found, scale, steps]


def autocast(t):
    x, w = t.x(33, 17), t.x(9, 17)
    with torch.autocast(torch.device(t.device).type, torch.bfloat16):
        y = F.linear(x, w)
        total = y.float().sum(0)
    assert y.dtype == torch.bfloat16, y.dtype
    return [y, total]


MIXED_PRECISION = Family(
    ("optimizer", "dispatch"),
    {
        **awkward(unscaled),
        "infinity": lambda t: unscaled(t, t.x(3, 5), float("inf")),
        "NaN": lambda t: unscaled(t, t.x(3, 5), float("nan")),
        "autocast": autocast,
    },
)

REDUCTIONS = Family(
    ("reduce",),
    {
        **awkward(lambda t, x: [x.sum(), x.sum(0), x.prod(1), x.cumsum(0), x.argmax(1)]),
        "rows": lambda t: [t.x(70000, 3).sum(1), t.x(70, 3000).sum(1), t.x(1, 100001).mean()],
        "columns": lambda t: [t.x(300, 2000).sum(0), t.x(3000, 3).amax(0)],
        "float64": lambda t: [t.double(33, 70).sum(1), t.double(70000).mean()],
        "variance": lambda t: torch.var_mean(t.x(40, 50, 60), 1),
        "positions": lambda t: [t.x(500, 80).argmax(1), t.i((5000,), 9).min(0).values],
        "scans": lambda t: [t.x(300, 90).cumsum(0), t.x(9, 3000).cummax(1).values],
        "sums of 16 bits": halves(lambda x: x.sum(1)),
    },
)

SOFTMAX = Family(
    ("softmax",),
    {
        **awkward(lambda t, x: differentiated(lambda y: y.softmax(1) + y.log_softmax(0), x)),
        "softmax": lambda t: differentiated(lambda x: x.softmax(1), t.x(70, 1000)),
        "columns": lambda t: differentiated(lambda x: x.log_softmax(0), t.x(33, 65)),
        "16 bits": halves(lambda x: x.softmax(1)),
    },
)


def layer_normed(t, x):
    weight, bias = t.x(x.shape[1]), t.x(x.shape[1])
    return differentiated(lambda y: F.layer_norm(y, (x.shape[1],), weight, bias), x)


def batch_normed(x):
    return F.batch_norm(x, None, None, training=True)


NORMALISATION = Family(
    ("norm",),
    {
        **awkward(layer_normed),
        "layer norm": lambda t: differentiated(lambda x: F.layer_norm(x, (65,)), t.x(300, 65)),
        "batch norm": lambda t: differentiated(batch_normed, t.x(9, 12, 7, 5)),
        "batch norm of rows": lambda t: differentiated(batch_normed, t.x(5003, 3)),
        "group norm": lambda t: differentiated(lambda x: F.group_norm(x, 4), t.x(3, 12, 9, 9)),
    },
)


def losses(t, x):
    rows, classes = x.shape
    target, none = t.i((rows,), classes), {"reduction": "none"}
    return [
        *differentiated(lambda y: F.nll_loss(y, target, **none), x),
        *differentiated(lambda y: F.multi_margin_loss(y, target, **none), x),
    ]


def ctc(t, steps, rows, classes, labels):
    """Connectionist temporal classification of rows of `steps` steps."""
    targets = t.i((rows, labels), classes - 1) + 1
    inputs = [steps - row % 2 for row in range(rows)]
    lengths = [row % (labels + 1) for row in range(rows)]
    return differentiated(
        lambda x: F.ctc_loss(x.log_softmax(2), targets, inputs, lengths, reduction="none"),
        t.x(steps, rows, classes),
    )


LOSSES = Family(
    ("loss",),
    {
        **awkward(losses),
        "cross entropy": lambda t: F.cross_entropy(t.x(90, 33), t.i((90,), 33)),
        "of images": lambda t: differentiated(F.cross_entropy, t.x(2, 5, 9, 7), t.i((2, 9, 7), 5)),
        "several labels": lambda t: differentiated(
            F.multilabel_margin_loss, t.x(9, 5), t.i((9, 5), 5)
        ),
        "sequences": lambda t: ctc(t, 20, 7, 5, 4),
        "short sequences": lambda t: ctc(t, 2, 1, 2, 1),
        "many sequences": lambda t: ctc(t, 9, 300, 4, 3),
    },
)


def repeatable(t, draw):
    """Draws with one seed: the same numbers must come again, and then different ones."""
    torch.manual_seed(7)
    first, second = draw(), draw()
    torch.manual_seed(7)
    again = draw()
    assert torch.equal(first, again), "one seed gives two sequences"
    if first.numel() > 8:
        assert not torch.equal(first, second), "the same numbers come twice"
    return first


def drawn(t, x):
    number = repeatable(t, lambda: torch.rand_like(x))
    assert ((number >= 0) & (number < 1)).all(), "not from 0 to 1"
    kept = repeatable(t, lambda: F.dropout(torch.ones_like(x), 0.5))
    assert ((kept == 0) | (kept == 2)).all(), "dropout of ones gives other numbers than 0 and 2"
    repeatable(t, lambda: torch.bernoulli(x.sigmoid()))
    repeatable(t, lambda: torch.randint_like(x, 1000))


def moments(draw, mean, variance, count=40000):
    """Makes a case: the mean is within five standard errors, the variance within a tenth."""

    def case(t):
        found = repeatable(t, lambda: draw(torch.empty(count, device=t.device))).float()
        error = abs(found.mean().item() - mean)
        assert error < 5 * (variance / count) ** 0.5, f"the mean is {error} away from {mean}"
        ratio = found.var().item() / variance
        assert 0.9 < ratio < 1.1, f"the variance is {ratio:.3f} times {variance}"

    return case


def permutation(t):
    order = repeatable(t, lambda: torch.randperm(4099, device=t.device))
    assert torch.equal(order.sort().values, torch.arange(4099, device=t.device))


RANDOM = Family(
    ("random",),
    {
        **awkward(drawn),
        "uniform": moments(lambda x: x.uniform_(-1, 1), 0, 1 / 3),
        "normal": moments(lambda x: x.normal_(2, 3), 2, 9),
        "exponential": moments(lambda x: x.exponential_(2), 0.5, 0.25),
        "bernoulli": moments(lambda x: x.bernoulli_(0.3), 0.3, 0.21),
        "gamma": moments(lambda x: torch._standard_gamma(x.fill_(4)), 4, 4),
        "Poisson": moments(lambda x: torch.poisson(x.fill_(6)), 6, 6),
        "integers": moments(lambda x: x.random_(0, 11), 5, 10),
        "permutation": permutation,
    },
)
