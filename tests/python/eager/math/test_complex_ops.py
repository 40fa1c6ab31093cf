"""Complex tensors against CPU: reductions, products, indexing, rearrangement, random numbers."""

import pytest
import torch
from support import COMPLEX, generator, name_of

every_type = pytest.mark.parametrize("dtype", COMPLEX, ids=name_of)


def numbers(shape, dtype=torch.complex64, seed=0):
    return torch.randn(shape, dtype=dtype, generator=generator(seed))


def close(actual, expected, factor=1):
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    double = expected.dtype in (torch.complex128, torch.float64)
    tolerance = (1e-12 if double else 2e-5) * factor
    torch.testing.assert_close(
        actual.resolve_conj().cpu(), expected.resolve_conj(), rtol=tolerance, atol=tolerance
    )


def compare(device, function, *tensors, factor=1):
    close(function(*[t.to(device) for t in tensors]), function(*tensors), factor)


REDUCTIONS = {
    "sum": lambda x, **at: torch.sum(x, **at),
    "mean": lambda x, **at: torch.mean(x, **at),
    "prod": lambda x, dim, keepdim: torch.prod(x, dim, keepdim),
    "all": lambda x, **at: torch.all(x, **at),
    "any": lambda x, **at: torch.any(x, **at),
    "var": lambda x, **at: torch.var(x, **at),
    "std": lambda x, **at: torch.std(x, **at),
    "logsumexp": lambda x, **at: torch.logsumexp(x, **at),
    "norm": lambda x, **at: torch.linalg.vector_norm(x, **at),
    "norm_0": lambda x, **at: torch.linalg.vector_norm(x, 0, **at),
    "norm_1": lambda x, **at: torch.linalg.vector_norm(x, 1, **at),
    "norm_3": lambda x, **at: torch.linalg.vector_norm(x, 3, **at),
    "norm_inf": lambda x, **at: torch.linalg.vector_norm(x, float("inf"), **at),
}


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("keepdim", [False, True])
@every_type
def test_reductions(device, name, keepdim, dtype):
    x = numbers((4, 9, 5), dtype)
    x[1, 2] = x[:, 3, 1] = 0
    for dim in (0, 1, 2):
        for view in (lambda t: t, lambda t: t.permute(2, 0, 1), lambda t: t[:, ::2]):
            compare(
                device, lambda t, v=view, d=dim: REDUCTIONS[name](v(t), dim=d, keepdim=keepdim), x
            )


@pytest.mark.sample
@pytest.mark.parametrize("shape", [(7,), (3, 50), (5, 0), (0, 4)])
def test_reductions_of_all(device, shape):
    x = numbers(shape)
    for function in (torch.sum, torch.prod, torch.all, torch.any, torch.linalg.vector_norm):
        compare(device, function, x)
    compare(device, lambda t: t.sum((0,)), x)


def test_long_reductions(device):
    """Cut into parts, and many outputs."""
    for shape, dim in (
        ((70000,), 0),
        ((3, 9000), 1),
        ((9000, 3), 0),
        ((40, 300), 0),
        ((30, 20, 9), 1),
    ):
        x = numbers(shape) / 100 + 1
        for function in (torch.sum, torch.mean, torch.var):
            compare(device, lambda t, f=function, d=dim: f(t, dim=d), x, factor=5)
        compare(device, lambda t, d=dim: torch.linalg.vector_norm(t, dim=d), x, factor=5)
        unit = x / x.abs()
        compare(device, lambda t, d=dim: torch.prod(t, d), unit, factor=50)
    compare(device, lambda t: t.transpose(0, 1).sum((0, 2)), numbers((6, 7, 8)))


@pytest.mark.sample
def test_scans(device):
    x = numbers((4, 6))
    for function in (torch.cumsum, torch.cumprod, torch.logcumsumexp):
        for dim in (0, 1):
            compare(device, lambda t, f=function, d=dim: f(t, d), x, factor=5)


@pytest.mark.sample
@every_type
def test_products(device, dtype):
    a, b, c = numbers((3, 5, 7), dtype), numbers((3, 7, 4), dtype, 1), numbers((5, 4), dtype, 2)
    compare(device, lambda a, b: a[0] @ b[0], a, b)
    compare(device, torch.bmm, a, b)
    compare(device, lambda a, b, c: torch.baddbmm(c, a, b, beta=0.5, alpha=2 - 1j), a, b, c)
    compare(device, lambda a, b, c: torch.addmm(c, a[0], b[0], beta=1j, alpha=1j), a, b, c)
    compare(device, lambda a, b, c: torch.addmm(c, a[0], b[0], beta=0), a, b, c)
    compare(device, lambda a, b, c: torch.addbmm(c, a, b, beta=2), a, b, c)
    compare(device, lambda a, b: a[0] @ b[0, :, 0], a, b)
    compare(device, lambda a, b: torch.addmv(a[0, :, 0], a[0], b[0, :, 0], alpha=2), a, b)
    compare(device, lambda a, b: torch.dot(a[0, 0], b[0, :, 1]), a, b)
    compare(device, lambda a, b: torch.vdot(a[0, 0], b[0, :, 1]), a, b)
    compare(device, lambda a, b: torch.einsum("bij,bjk->ik", a, b), a, b)


@pytest.mark.sample
def test_conjugate_products(device):
    a, b = numbers((3, 5, 7)), numbers((3, 5, 7), seed=1)
    compare(device, lambda a, b: a.mH @ b, a, b)
    compare(device, lambda a, b: a[0] @ b[0].mH, a, b)
    compare(device, lambda a, b: a[0].conj() @ b[0].mT, a, b)
    compare(device, lambda a, b: torch.addmm(a[1].conj()[:, :5], a[0], b[0].mH), a, b)
    compare(device, lambda a, b: torch.dot(a[0, 0].conj(), b[0, 0]), a, b)
    compare(device, lambda a, b: torch.vdot(a[0, 0].conj(), b[0, 0].conj()), a, b)
    compare(device, lambda a, b: torch.linalg.vecdot(a, b), a, b)
    compare(device, lambda a, b: torch.mv(a[0].conj(), b[0, 0].conj()), a, b)
    compare(device, lambda a, b: a.conj().imag @ b.imag.mT, a, b)
    for out in (torch.empty(5, 5), torch.empty(5, 5).t(), torch.empty(0)):
        expected = a[0] @ b[0].mT
        target = out.to(torch.complex64).to(device)
        torch.mm(a[0].to(device), b[0].mT.to(device), out=target)
        close(target, expected)


def test_product_gradients(device):
    a, b = numbers((4, 6)), numbers((6, 3), seed=1)
    tensors = [(a, b), (a.to(device), b.to(device))]
    for pair in tensors:
        for t in pair:
            t.requires_grad_()
        (pair[0] @ pair[1]).abs().sum().backward()
    close(tensors[1][0].grad, tensors[0][0].grad)
    close(tensors[1][1].grad, tensors[0][1].grad)


def test_linear_and_convolution(device):
    x, w, b = numbers((3, 4, 9)), numbers((5, 4, 3), seed=1), numbers((5,), seed=2)
    compare(device, torch.nn.functional.conv1d, x, w, b)
    compare(
        device,
        lambda x, w, b: torch.nn.functional.linear(x, w[0].expand(4, 4, 3)[0].repeat(1, 3)),
        x,
        w,
        b,
    )


INDEXING = {
    "gather": lambda x, i: x.gather(0, i),
    "index": lambda x, i: x[i[:, 0]],
    "index_two": lambda x, i: x[i[:, 0], i[:, 1]],
    "index_select": lambda x, i: x.index_select(1, i[0]),
    "take": lambda x, i: x.take(i),
    "scatter": lambda x, i: x.scatter(1, i.argsort(1), x * 2),
    "scatter_number": lambda x, i: x.scatter(1, i, 2 - 1j),
    "scatter_add": lambda x, i: x.scatter_add(0, i, x),
    "index_put": lambda x, i: x.index_put((torch.arange(3).to(i), i[0]), x[0, :3] * 2),
    "index_put_add": lambda x, i: x.index_put((i[:, 0], i[:, 1]), x[:, 0], accumulate=True),
    "index_add": lambda x, i: x.index_add(1, i[0], x[:, :3], alpha=1 - 2j),
    "index_fill": lambda x, i: x.index_fill(0, i[0], 3j),
    "index_copy": lambda x, i: x.index_copy(1, torch.arange(2).to(i), x[:, 1:]),
    "put": lambda x, i: x.put(torch.arange(4).to(i), x.flatten()[:4] * 3),
    "put_add": lambda x, i: x.put(i[0], x[0, :3], accumulate=True),
    "masked_select": lambda x, i: x[i > 0],
    "masked_fill": lambda x, i: x.masked_fill(i > 0, 1j),
    "masked_fill_tensor": lambda x, i: x.masked_fill(i > 0, x[0, 0]),
    "nonzero": lambda x, i: (x * (i > 0)).nonzero(),
    "embedding": lambda x, i: torch.nn.functional.embedding(i, x),
    "flip": lambda x, i: x.flip(0, 1),
    "roll": lambda x, i: x.roll((1, -2), (0, 1)),
    "cat": lambda x, i: torch.cat([x, x.conj(), i]),
    "tril": lambda x, i: x.tril(),
    "triu": lambda x, i: x.triu(1),
    "pad": lambda x, i: torch.nn.functional.pad(x, (1, 2), value=2),
    "pad_reflect": lambda x, i: torch.nn.functional.pad(x, (1, 2), mode="reflect"),
    "repeat": lambda x, i: x.repeat(2, 2),
    "where": lambda x, i: torch.where(i > 0, x, x.conj()),
    "renorm": lambda x, i: x.renorm(2, 0, 1.5),
    "unfold": lambda x, i: x.unfold(1, 2, 1).clone(),
    "foreach": lambda x, i: torch.stack(torch._foreach_add(torch._foreach_mul([x, x], 2j), [x, x])),
}


@pytest.mark.sample
@pytest.mark.parametrize("name", INDEXING)
@every_type
def test_indexing(device, name, dtype):
    index = torch.tensor([[0, 2, 1], [1, 0, 2], [2, 1, 1]])
    compare(device, INDEXING[name], numbers((3, 3), dtype), index)
    if name not in ("put_add",):
        compare(device, lambda x, i: INDEXING[name](x.t(), i), numbers((3, 3), dtype), index)


@every_type
def test_scatter_reduce(device, dtype):
    x, index = numbers((3, 3), dtype), torch.tensor([[0, 0, 1], [1, 0, 2], [2, 1, 1]])
    for reduce in ("add", "multiply"):
        compare(device, lambda x, i, r=reduce: x.scatter(0, i, x * 2, reduce=r), x, index)
        compare(device, lambda x, i, r=reduce: x.scatter(0, i, 2 + 1j, reduce=r), x, index)


def test_index_gradients(device):
    x, index = numbers((5, 4)), torch.tensor([3, 0, 3, 1])
    tensors = [x.clone().requires_grad_(), x.to(device).requires_grad_()]
    for t in tensors:
        i = index.to(t.device)
        (
            t[i].abs().sum() + t.gather(0, i[None]).abs().sum() + t.unfold(0, 3, 2).abs().sum()
        ).backward()
    close(tensors[1].grad, tensors[0].grad)


@pytest.mark.sample
def test_factories(device):
    close(torch.eye(3, dtype=torch.complex64, device=device), torch.eye(3, dtype=torch.complex64))
    expected = torch.linspace(1 - 1j, 3 + 2j, 7)
    close(torch.linspace(1 - 1j, 3 + 2j, 7, device=device), expected)


@pytest.mark.sample
def test_random(device):
    for make in (torch.randn, torch.rand):
        x = make(50, 50, dtype=torch.complex64, device=device)
        real = torch.view_as_real(x).cpu()
        expected = torch.view_as_real(make(50, 50, dtype=torch.complex64))
        assert abs(real.mean() - expected.mean()) < 0.05
        assert abs(real.std() - expected.std()) < 0.05


def test_lazy_bits(device):
    z = numbers((4, 3))
    for function in (
        lambda t: t.conj().sum(0),
        lambda t: t.conj().imag,
        lambda t: t.conj().imag.sum(),
        lambda t: torch.view_as_real(t.conj().resolve_conj()),
        lambda t: t.conj().t().contiguous(),
        lambda t: t.conj().prod(),
        lambda t: t.conj().abs().norm(),
        lambda t: t.clone().conj().mul_(2j),
        lambda t: t.new_zeros(4, 3).conj().copy_(t),
        lambda t: t.imag.neg() + t.conj().imag,
        lambda t: t.clone().index_add_(0, torch.tensor([0, 0], device=t.device), t.conj()[:2]),
    ):
        compare(device, function, z)
