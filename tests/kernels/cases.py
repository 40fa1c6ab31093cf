"""Calls that launch the kernels of rows, elements, indices, sorting, losses and random numbers."""

import torch
import torch.nn.functional as F
from case_support import with_gradients


def norms(make, n):
    x, rows = make(4, n, 5, grad=True), make(n, 7, grad=True)
    weight, bias = make(n, grad=True), make(n, grad=True)
    batch = F.batch_norm(x, None, None, weight, bias, training=True)
    flat = F.batch_norm(rows, None, None, make(7), make(7), training=True)
    layer = F.layer_norm(rows, (7,), make(7), make(7))
    long = F.layer_norm(rows.mT, (n,), weight, bias)
    return [
        *with_gradients(batch, x, weight, bias),
        *with_gradients(flat, rows),
        *with_gradients(layer, rows),
        *with_gradients(long, rows, weight, bias),
        *torch.var_mean(rows.detach(), 1),
        *torch.var_mean(rows.detach(), 0),
    ]


def reductions(make, n):
    x = make(n, 6)
    flat = make(60 * n)
    found = [x.sum(0), x.sum(1), x.sum(), x.amax(0), x.prod(1), flat.sum(), flat.amax()]
    found += [x.argmax(0), x.argmax(1), x.argmax(), flat.argmin(), *x.max(0), *x.min(1)]
    return [*found, make(3, n, 4).mT[:, ::2].argmax(1), make(3, 4, n)[:, ::2, ::2].argmax(2)]


def scans(make, n):
    x = make(n, 9)
    flat = make(20 * n)
    return [x.cumsum(0), x.cumsum(1), x.cumprod(1), flat.cumsum(0), *flat.cummax(0), *x.cummin(0)]


def long_rows(make, n):
    """Reductions in several parts, which further launches join."""
    return [make(2**15 + n, 2).argmax(0), make(2**13 + 99 * n).cumsum(0)]


def softmaxes(make, n):
    x = make(n, 11, grad=True)
    found = []
    for axis in (0, 1):
        found += with_gradients(x.softmax(axis), x)
        found += with_gradients(x.log_softmax(axis), x)
    return found


def sorting(make, n):
    x, long = make(n, 8), make(1, 12 * n)
    found = [
        *x.sort(1),
        *x.sort(0),
        *long.sort(dim=1, stable=True),
        *x.topk(3, 1),
        *long.topk(5, 1),
    ]
    return [*found, *long.half().sort(dim=1, stable=True), *make(9 * n).topk(2 * n)]


def searching(make, n):
    numbers = make.integers(5, 4 * n).sort()[0]
    found = [*torch.unique_consecutive(numbers, return_inverse=True, return_counts=True)]
    found += [*make.integers(9, 5 * n).unique(return_counts=True), torch.bincount(numbers)]
    edges = make(n).sort()[0]
    found += [torch.searchsorted(edges, make(3, n)), torch.histc(make(4 * n), 7, -2, 2)]
    return [*found, torch.mode(make.integers(4, 3, n))[0]]


def elements(make, n):
    x, y = make(n, 5), make(5)
    wide = make(n, 33)
    found = [x * y, (x + 1).exp(), torch.where(x > 0, x, y), wide.mT.contiguous(), x.half() + 1]
    found += [
        torch.cat([x, wide], 1),
        x.roll(2, 0),
        x.flip(1),
        x.mT.clone(),
        F.pad(x, (1, 2, 3, 1)),
    ]
    return [
        *found,
        torch.arange(n, device=x.device),
        x.triu(),
        wide.tril(2),
        x.new_zeros(n).fill_(3),
    ]


def lists(make, n):
    tensors = [make(n), make(3, n), make(2)]
    found = [*torch._foreach_add(tensors, 2), *torch._foreach_norm(tensors)]
    for kind in ("SGD", "Adam", "AdamW", "Adagrad"):
        leaves = [x.clone().requires_grad_() for x in tensors]
        options = {"momentum": 0.9} if kind == "SGD" else {}
        step = getattr(torch.optim, kind)(leaves, lr=0.1, **options)
        for _ in range(2):
            for leaf in leaves:
                leaf.grad = leaf.detach() * 0.5
            step.step()
        found += leaves
    return found


def scaler(make, n):
    gradients, found, scale = [make(n), make(5)], make(1) * 0, make(1) * 0 + 2
    torch._amp_foreach_non_finite_check_and_unscale_(gradients, found, 1 / scale)
    tracker = make.integers(1, 1, dtype=torch.int32)
    return [*gradients, torch._amp_update_scale_(scale, tracker, found, 2.0, 0.5, 3)]


def indexing(make, n):
    x, rows = make(n, 6), make.integers(n, 2 * n)
    found = [x[rows], x.index_select(0, rows), x.gather(0, make.integers(n, n, 6))]
    found += [x.take(make.integers(6 * n, n)), x.masked_fill(x > 0, 2), x[x > 0], x.nonzero()]
    found += [x.clone().index_add(0, rows, make(2 * n, 6)), make(3 * n).nonzero()]
    found += [x.index_put((rows,), make(2 * n, 6), accumulate=True)]
    found += [x.scatter_add(0, make.integers(n, n, 6), make(n, 6))]
    found += [x.scatter(0, make.permutation(n)[:, None].expand(n, 6), make(n, 6))]
    found += [x.scatter_reduce(0, make.integers(n, n, 6), make(n, 6), "amax")]
    return [*found, x.index_copy(0, make.permutation(n), make(n, 6))]


def last_writes(make, n):
    """Several writes to one element write the same value, so any may win."""
    rows = make.integers(max(n // 3, 1), 2 * n)
    x, ones = make(n, 6), make(2 * n, 6) * 0 + 1
    torch.use_deterministic_algorithms(True)
    try:
        found = [x.index_put((rows,), ones), x.index_add(0, rows, ones)]
        found += [x.scatter(0, rows[:, None].expand(-1, 6)[:n], ones)]
        return [*found, x.index_put((rows,), ones, accumulate=True)]
    finally:
        torch.use_deterministic_algorithms(False)


def one_number(make, n):
    """To repeated places."""
    x, rows = make(n, 6), make.integers(max(n // 3, 1), n)
    return [x.scatter(0, rows[:, None].expand(-1, 6), 2), x.index_fill(0, rows, 3)]


def many_writes(make, n):
    """The same as last_writes(), with enough elements that GPUs sort them."""
    rows = make.integers(n, 2060 + n)
    x, ones = make(n, 2), make(len(rows), 2) * 0 + 1
    torch.use_deterministic_algorithms(True)
    try:
        return [x.index_put((rows,), ones), x.index_put((rows,), ones, accumulate=True)]
    finally:
        torch.use_deterministic_algorithms(False)


def embeddings(make, n):
    weight, index = make(n, 5, grad=True), make.integers(n, 3, n)
    found = with_gradients(F.embedding(index, weight, scale_grad_by_freq=True), weight)
    found += with_gradients(F.embedding(index, weight), weight)
    for mode in ("sum", "mean", "max"):
        found += with_gradients(F.embedding_bag(index, weight, mode=mode), weight)
    one_long = make.integers(n, 1, 6 * n)
    return found + with_gradients(F.embedding_bag(one_long, weight, mode="mean"), weight)


def segments(make, n):
    data = make(6 * n, 4, grad=True)
    lengths = make.copied(torch.tensor([2 * n, 0, 3 * n, n]))
    found = []
    for kind in ("sum", "mean", "max", "min", "prod"):
        result = torch.segment_reduce(data, kind, lengths=lengths, initial=1, axis=0)
        found += with_gradients(result, data)
    one = make(6 * n, grad=True)
    lengths = make.copied(torch.tensor([6 * n]))
    return found + with_gradients(torch.segment_reduce(one, "sum", lengths=lengths), one)


def losses(make, n):
    x, target = make(n, 5, grad=True), make.integers(5, n)
    weight = make(5).abs()
    plane = make(2, 5, n, grad=True)
    found = with_gradients(F.cross_entropy(x, target, weight), x)
    found += with_gradients(F.nll_loss(x, target, reduction="none"), x)
    found += with_gradients(F.nll_loss(plane, make.integers(5, 2, n), reduction="sum"), plane)
    found += with_gradients(F.multi_margin_loss(x, target, reduction="none"), x)
    found += with_gradients(F.multilabel_margin_loss(x, make.integers(5, n, 5)), x)
    found += with_gradients(F.binary_cross_entropy(x.sigmoid(), x.detach().sigmoid()), x)
    return found


def ctc(make, n):
    length = min(n, 40)
    x = make(2 * length, 3, 6, grad=True)
    lengths = torch.tensor([2 * length, length + 2, 2 * length])
    targets = make.integers(5, 3, length) + 1
    wanted = torch.tensor([length // 2, 1, 0])
    loss = F.ctc_loss(x.log_softmax(2), targets, lengths, wanted, reduction="none")
    return with_gradients(loss, x)


def distances(make, n):
    x, y = make(n, 4, grad=True), make(5, 4, grad=True)
    mode = "donot_use_mm_for_euclid_dist"
    found = with_gradients(torch.cdist(x, y, 2.0, mode), x, y)
    small = make(min(n, 40), 3, grad=True)
    return found + with_gradients(torch.pdist(small, 3), small)


def transforms(make, n):
    x = make(3, n)
    found = [torch.fft.rfft(x), torch.fft.irfft(torch.fft.rfft(x), n), torch.fft.fft(x)]
    found += [torch.fft.fft(x.mT, dim=0), torch.fft.rfft(make(2, 2 * n))]
    return [torch.view_as_real(t) if t.is_complex() else t for t in found]


def random_numbers(make, n):
    """Their values are not the CPU's: all are finite."""
    x = make(n).abs()
    draws = [torch.rand_like(x), torch.randn_like(x), torch.randint(3, (n,), device=x.device)]
    draws += [torch.poisson(x), torch._standard_gamma(x + 0.5), torch.bernoulli(x / (x + 1))]
    draws += [torch.binomial(x * 0 + 9, x / (x + 1)), F.dropout(x, 0.3), torch.randperm(n).to(x)]
    draws += [torch.empty_like(x).exponential_(), torch.multinomial(x, 2).to(x)]
    draws += [torch._sample_dirichlet(x[None] + 0.5), torch.randperm(n, device=x.device)]
    if x.device.type != "cpu":
        seed_and_offset = torch.ops.ocl.draw_philox(n, x.device, 0)
        draws[0] = draws[0] + (seed_and_offset * 0).sum()
    return [draw.isfinite().all() for draw in draws]


CASES = [
    value for name, value in list(globals().items()) if getattr(value, "__module__", 0) == __name__
]
