"""Sparse tensors against the CPU."""

import pytest
import torch
from support import has_fp64

FLOATS = [torch.float32, torch.float16, torch.bfloat16]


def random_sparse(shape=(7, 9), dtype=torch.float32, share=0.3):
    return torch.randn(shape).mul(torch.rand(shape) < share).to(dtype)


def doubled():
    """A COO tensor with entries that occur twice."""
    indices = torch.tensor([[3, 0, 3, 1, 0], [2, 1, 2, 0, 1]])
    return torch.sparse_coo_tensor(indices, torch.arange(1.0, 6), (5, 4))


@pytest.mark.sample
def test_coo(device):
    expected = doubled()
    indices, values = expected._indices().to(device), expected._values().to(device)
    actual = torch.sparse_coo_tensor(indices, values, (5, 4))
    assert actual.device.type == "ocl"
    assert actual.layout == torch.sparse_coo
    assert not actual.is_coalesced()
    assert actual._nnz() == 5
    torch.testing.assert_close(actual.to_dense().cpu(), expected.to_dense())
    merged = actual.coalesce()
    assert merged.is_coalesced()
    assert torch.equal(merged.indices().cpu(), expected.coalesce().indices())
    torch.testing.assert_close(merged.values().cpu(), expected.coalesce().values())


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64, torch.bool])
@pytest.mark.parametrize("shape, sparse_dim", [((7, 9), 2), ((6,), 1)])
def test_to_sparse_and_back(device, dtype, shape, sparse_dim):
    dense = random_sparse(shape).mul(3).to(dtype)
    actual = dense.to(device).to_sparse(sparse_dim)
    expected = dense.to_sparse(sparse_dim)
    assert torch.equal(actual.indices().cpu(), expected.indices())
    assert torch.equal(actual.to_dense().cpu(), dense)
    assert torch.equal(actual.cpu().to_dense(), dense)
    assert torch.equal(expected.to(device).to_dense().cpu(), dense)


def test_coalesce_rows(device):
    indices, values = torch.tensor([[3, 0, 3, 3]]), torch.randn(4, 5)
    expected = torch.sparse_coo_tensor(indices, values, (4, 5)).coalesce()
    actual = torch.sparse_coo_tensor(indices.to(device), values.to(device), (4, 5)).coalesce()
    torch.testing.assert_close(actual.values().cpu(), expected.values())


def test_empty(device):
    actual = torch.sparse_coo_tensor(size=(3, 4), device=device)
    assert actual._nnz() == 0
    assert torch.equal(actual.to_dense().cpu(), torch.zeros(3, 4))
    assert torch.equal(torch.mm(actual, torch.ones(4, 2, device=device)).cpu(), torch.zeros(3, 2))


def test_print(device):
    assert "layout=torch.sparse_coo" in repr(doubled().to(device))


@pytest.mark.sample
def test_csr(device):
    dense = random_sparse()
    actual, expected = dense.to(device).to_sparse_csr(), dense.to_sparse_csr()
    assert actual.layout == torch.sparse_csr
    assert torch.equal(actual.crow_indices().cpu(), expected.crow_indices())
    assert torch.equal(actual.col_indices().cpu(), expected.col_indices())
    assert torch.equal(actual.to_dense().cpu(), dense)
    again = torch.sparse_csr_tensor(
        actual.crow_indices(), actual.col_indices(), actual.values(), dense.shape, device=device
    )
    assert torch.equal(again.to_dense().cpu(), dense)


@pytest.mark.parametrize("layout", [torch.sparse_csr, torch.sparse_csc, torch.sparse_coo])
@pytest.mark.parametrize("target", [torch.sparse_csr, torch.sparse_csc, torch.sparse_coo])
def test_layouts(device, layout, target):
    if {layout, target} == {torch.sparse_csr, torch.sparse_csc}:
        pytest.skip("not done: a DispatchStub of this conversion has no ocl kernel")
    dense = random_sparse()
    actual = dense.to(device).to_sparse(layout=layout).to_sparse(layout=target)
    assert actual.layout == target
    assert torch.equal(actual.to_dense().cpu(), dense)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
@pytest.mark.parametrize("shape", [(7, 9, 5), (40, 30, 37), (1, 9, 1)])
def test_products(device, dtype, layout, shape):
    m, k, n = shape
    dense, other, addend = random_sparse((m, k), dtype), torch.randn(k, n), torch.randn(m, n)
    other, addend = other.to(dtype), addend.to(dtype)
    sparse = dense.to(device).to_sparse(layout=layout)
    expected = dense.float() @ other.float()
    tolerance = 1e-5 if dtype == torch.float32 else 3e-2
    options = {"rtol": tolerance, "atol": 4 * tolerance}
    torch.testing.assert_close((sparse @ other.to(device)).cpu().float(), expected, **options)
    torch.testing.assert_close(
        torch.addmm(addend.to(device), sparse, other.to(device), beta=0.5, alpha=2).cpu().float(),
        0.5 * addend.float() + 2 * expected,
        **options,
    )


@pytest.mark.sample
def test_product_with_double_entries(device):
    other = torch.randn(4, 20)
    actual = torch.sparse.mm(doubled().to(device), other.to(device))
    torch.testing.assert_close(actual.cpu(), doubled().to_dense() @ other)


@pytest.mark.fallback_allowed
def test_gradients_of_a_product(device):
    dense, other = random_sparse(), torch.randn(9, 5)
    grads = []
    for where in ("cpu", device):
        sparse = dense.to(where).to_sparse().detach().requires_grad_()
        leaf = other.clone().to(where).requires_grad_()
        torch.sparse.mm(sparse, leaf).square().sum().backward()
        grads.append([sparse.grad.to_dense().cpu(), leaf.grad.cpu()])
    for left, right in zip(grads[1], grads[0], strict=True):
        torch.testing.assert_close(left, right, rtol=1e-4, atol=1e-5)


def test_sums(device):
    a, b = doubled(), random_sparse((5, 4)).to_sparse()
    dense = torch.randn(5, 4)
    there = [t.to(device) for t in (a, b, dense)]
    torch.testing.assert_close((there[0] + there[1]).to_dense().cpu(), (a + b).to_dense())
    torch.testing.assert_close((there[0] - there[1]).to_dense().cpu(), (a - b).to_dense())
    torch.testing.assert_close((there[2] + there[0]).cpu(), dense + a)
    torch.testing.assert_close((there[0] * 3).to_dense().cpu(), (a * 3).to_dense())
    torch.testing.assert_close((there[0] / 2).to_dense().cpu(), (a / 2).to_dense())


@pytest.mark.parametrize("name", ["sin", "sqrt", "neg", "relu", "sign", "tanh"])
@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
def test_element_wise(device, name, layout):
    dense = random_sparse().abs()
    function = getattr(torch, name)
    actual = function(dense.to(device).to_sparse(layout=layout))
    assert actual.layout == layout
    torch.testing.assert_close(actual.to_dense().cpu(), function(dense))


def test_transpose_and_select(device):
    sparse = random_sparse().to_sparse()
    there = sparse.to(device)
    assert torch.equal(there.t().to_dense().cpu(), sparse.t().to_dense())
    assert torch.equal(there.sum().cpu(), sparse.sum())


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.SparseAdam])
def test_sparse_gradients_of_an_embedding(device, kind):
    weight, index = torch.randn(10, 4), torch.tensor([1, 3, 3, 7])
    results = []
    for where in ("cpu", device):
        embedding = torch.nn.Embedding(10, 4, sparse=True, _weight=weight.clone()).to(where)
        optimizer = kind(embedding.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            embedding(index.to(where)).square().sum().backward()
            assert embedding.weight.grad.layout == torch.sparse_coo
            optimizer.step()
        results.append(embedding.weight.detach().cpu())
    torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=1e-5)


@pytest.mark.fallback_allowed
def test_others_fall_back(device):
    dense = random_sparse((3, 5, 6))
    other = torch.randn(3, 6, 4)
    torch.ocl.reset_fallback_stats()
    actual = torch.bmm(dense.to(device).to_sparse(), other.to(device))
    assert torch.ocl.fallback_stats() == {"aten::bmm": 1}
    torch.testing.assert_close(actual.cpu(), torch.bmm(dense, other))
    softmax = torch.sparse.softmax(doubled().coalesce().to(device), 1)
    torch.testing.assert_close(
        softmax.cpu().to_dense(), torch.sparse.softmax(doubled().coalesce(), 1).to_dense()
    )


def test_nested_tensors_in_python(device):
    parts = [torch.randn(n, 4) for n in (2, 5)]
    nested = torch.nested.nested_tensor(
        [p.to(device) for p in parts], layout=torch.jagged, device=device
    )
    doubled_parts = (nested * 2).unbind()
    for left, right in zip(doubled_parts, parts, strict=True):
        torch.testing.assert_close(left.cpu(), right * 2)
    torch.testing.assert_close(nested.values().cpu(), torch.cat(parts))


@pytest.mark.parametrize("start, end", [("csr", "csc"), ("csc", "csr"), ("bsr", "bsc")])
def test_conversions_of_layouts(device, start, end):
    dense = random_sparse((6, 8))
    start, end = (getattr(torch, f"sparse_{name}") for name in (start, end))
    block = {} if start in (torch.sparse_csr, torch.sparse_csc) else {"blocksize": (2, 4)}
    actual = dense.to(device).to_sparse(layout=start, **block).to_sparse(layout=end, **block)
    assert actual.layout == end
    assert torch.equal(actual.cpu().to_dense(), dense)


@pytest.mark.parametrize("sparse_dim", [1, 2])
@pytest.mark.parametrize("shared", [True, False])
def test_sparse_times_sparse(device, sparse_dim, shared):
    a, b = random_sparse(), random_sparse(share=0.5 * shared)
    actual = a.to(device).to_sparse(sparse_dim) * b.to(device).to_sparse(sparse_dim)
    expected = a.to_sparse(sparse_dim) * b.to_sparse(sparse_dim)
    assert torch.equal(actual.cpu().to_dense(), expected.to_dense())
    if sparse_dim == 2:
        torch.testing.assert_close(
            (a.to(device).to_sparse() * b.to(device)).to_dense().cpu(), a * b
        )


@pytest.mark.parametrize("coalesced", [True, False])
def test_sparse_mask(device, coalesced):
    sparse, mask = doubled(), torch.eye(5, 4).to_sparse()
    sparse, mask = (sparse.coalesce(), mask) if coalesced else (mask, sparse)
    there = sparse.to(device), mask.to(device)
    for source in ("coo", "dense"):
        left, right = (t if source == "coo" else t.to_dense() for t in (sparse, there[0]))
        expected, actual = left.sparse_mask(mask), right.sparse_mask(there[1])
        assert torch.equal(actual._indices().cpu(), expected._indices())
        assert torch.equal(actual._values().cpu(), expected._values())
    expected = sparse._sparse_mask_projection(mask, accumulate_matches=True)
    actual = there[0]._sparse_mask_projection(there[1], accumulate_matches=True)
    assert torch.equal(actual.cpu().to_dense(), expected.to_dense())


@pytest.mark.fallback_allowed
@pytest.mark.parametrize("reduce", ["sum", "amax"])
def test_gradients_of_a_product_with_a_reduction(device, reduce):
    sparse, dense, grads = random_sparse(), torch.randn(9, 4), []
    for where in ("cpu", device):
        leaves = [t.to(where).requires_grad_() for t in (sparse.to_sparse_csr(), dense.clone())]
        product = torch.sparse.mm(*leaves, reduce)
        left, right = torch.autograd.grad(product.sum(), leaves)
        grads.append((left.cpu().values(), right.cpu()))
    torch.testing.assert_close(grads[1], grads[0])


MIXED = [torch.float32, torch.float64, torch.int64, torch.bool]


def entries(dtype, columns, scale):
    values = (torch.tensor([1.5, 2.5, -3.5]) * scale).to(dtype)
    return torch.sparse_coo_tensor([[0, 1, 2], columns], values, (3, 4))


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("name", ["add", "sub", "mul"])
@pytest.mark.parametrize("left", MIXED, ids=str)
@pytest.mark.parametrize("right", MIXED, ids=str)
def test_mixed_types(device, name, left, right, in_place):
    if torch.float64 in (left, right) and not has_fp64(device):
        pytest.skip("the device has no float64")
    dense = (torch.arange(12.0).reshape(3, 4) * 1.1).to(left)
    for a in (entries(left, [1, 0, 3], 1.3), dense):
        if a is dense and in_place and name == "mul":
            continue  # on the CPU, by the fallback
        b, results = entries(right, [1, 2, 3], -0.7), []
        for where in ("cpu", device):
            x = a.to(where).clone()
            try:
                result = getattr(x, name + "_" * in_place)(b.to(where))
                results.append((result.dtype, result.layout, result.to_dense().cpu()))
            except RuntimeError as error:
                results.append((type(error), str(error)))
        if isinstance(results[0][-1], torch.Tensor):
            assert results[0][:2] == results[1][:2]
            torch.testing.assert_close(results[1][-1], results[0][-1])
        else:
            assert results[0][0] is results[1][0], results


def test_alpha_of_integers(device):
    a = entries(torch.int64, [1, 0, 3], 1).to(device)
    with pytest.raises(RuntimeError, match="alpha must not be a floating point number"):
        torch.add(a, a, alpha=2.5)


@pytest.mark.parametrize("name", ["add_", "sub_", "mul_"])
def test_coalesced_in_place(device, name):
    """The result is one of the operands, whose entries are still to be read."""
    a, b = doubled().coalesce(), entries_of_five().coalesce()
    for other in (b, a):
        expected = getattr(a.clone(), name)(other)
        target = a.to(device)
        result = getattr(target, name)(target if other is a else other.to(device))
        assert result is target
        torch.testing.assert_close(result.to_dense().cpu(), expected.to_dense())


def entries_of_five():
    return torch.sparse_coo_tensor([[3, 0, 4], [2, 1, 0]], [2.0, 3.0, 4.0], (5, 4))


@pytest.mark.fallback_allowed
@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64], ids=str)
def test_compressed_sums_of_other_entries(device, dtype):
    def matrix(columns):
        values = torch.tensor([3, 4, 5]).to(dtype)
        return torch.sparse_csr_tensor([0, 1, 3], columns, values, (2, 3))

    a, b = matrix([2, 0, 2]), matrix([2, 1, 2])
    for function in (torch.add, torch.mul, lambda a, b: torch.add(a, b, alpha=2)):
        expected = function(a, b).to_dense()
        assert torch.equal(function(a.to(device), b.to(device)).to_dense().cpu(), expected)
    out = torch.sparse_csr_tensor([0, 0, 0], [], torch.tensor([], dtype=dtype), (2, 3)).to(device)
    torch.add(a.to(device), b.to(device), out=out)
    assert torch.equal(out.to_dense().cpu(), torch.add(a, b).to_dense())


def test_many_entries_of_one_bool(device):
    values = torch.ones(256, dtype=torch.bool)
    x = torch.sparse_coo_tensor(torch.zeros(1, 256, dtype=torch.long), values, (3,))
    on_device = x.to(device)
    assert on_device.coalesce().values().tolist() == [True]
    assert on_device.to_dense().tolist() == [True, False, False]
    dense = torch.zeros(3, dtype=torch.bool, device=device)
    assert (dense + on_device).tolist() == [True, False, False]


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("alpha", [False, True, 0, 2])
def test_alpha_of_bool(device, alpha, in_place):
    dense = torch.tensor([True, False, True, False])
    sparse = torch.sparse_coo_tensor([[0, 1, 1]], torch.tensor([True, True, False]), (4,))

    def function(dense, sparse):
        return (
            dense.clone().add_(sparse, alpha=alpha) if in_place else dense.add(sparse, alpha=alpha)
        )

    assert (
        function(dense.to(device), sparse.to(device)).tolist() == function(dense, sparse).tolist()
    )


@pytest.mark.parametrize("alpha", [False, 1, 2])
@pytest.mark.parametrize("columns", [[], [0, 1, 1]])
def test_bools_without_entries(device, columns, alpha):
    values = torch.ones(len(columns), dtype=torch.bool)
    x = torch.sparse_coo_tensor([columns], values, (4,))
    none = torch.sparse_coo_tensor([[]], values[:0], (4,))
    result = torch.add(x.to(device), none.to(device), alpha=alpha)
    assert result.dtype == torch.bool
    assert result._indices().tolist() == torch.add(x, none, alpha=alpha)._indices().tolist()


@pytest.mark.parametrize("values", [[100, 100], [True, True]])
def test_products_of_entries_of_other_types(device, values):
    """The entries of one place are added in the common type."""
    indices = torch.tensor([[0, 0], [1, 1]])
    x = torch.sparse_coo_tensor(indices, torch.tensor([1.0, 2.0]), (3, 3))
    y = torch.tensor(values)
    y = torch.sparse_coo_tensor(indices, y if y.dtype == torch.bool else y.to(torch.int8), (3, 3))
    result = (x.to(device) * y.to(device)).to_dense()
    assert torch.equal(result.cpu(), (x * y).to_dense())


@pytest.mark.fallback_allowed
@pytest.mark.parametrize("layout", ["bsr", "int64 csr", "csr"])
def test_a_compressed_tensor_and_itself(device, layout):
    x = torch.eye(4)
    x = x.to_sparse_bsr((2, 2)) if layout == "bsr" else x.to_sparse_csr()
    if layout.startswith("int64"):
        x = torch.sparse_csr_tensor(x.crow_indices(), x.col_indices(), x.values().long(), (4, 4))
    y = x.to(device)
    assert torch.equal((y + y).cpu().to_dense(), (x + x).to_dense())


def test_product_of_types_with_nothing_stored(device):
    """The types matter only where there is an entry, as on the CPU."""
    place, none = torch.tensor([[1]]), torch.zeros(1, 0, dtype=torch.int64)
    make = torch.sparse_coo_tensor
    full = {t: make(place, torch.ones(1, dtype=t), (4,)) for t in (torch.int64, torch.float32)}
    empty = {t: make(none, torch.ones(0, dtype=t), (4,)) for t in full}
    for a in (full[torch.int64], empty[torch.int64]):
        for b in (full[torch.float32], empty[torch.float32]):
            if a._nnz() and b._nnz():
                with pytest.raises(RuntimeError, match="in mul operation"):
                    a.to(device).mul_(b.to(device))
                continue
            expected, actual = a.clone().mul_(b), a.to(device).mul_(b.to(device))
            assert actual.dtype == expected.dtype and actual._nnz() == expected._nnz() == 0
