"""Factorizations of matrices against the CPU and against what defines them."""

import pytest
import torch
from support import COMPLEX

REAL = [torch.float32, torch.float64]
TYPES = [*REAL, *COMPLEX]
SHAPES = [(1, 1), (5, 5), (3, 4, 4), (2, 3, 7, 7), (40, 40), (2, 70, 70)]
SMALL = [(3, 3), (2, 4, 4)]


def tolerance(dtype):
    return (
        {"rtol": 2e-3, "atol": 2e-4}
        if dtype.to_real() == torch.float32
        else {
            "rtol": 1e-8,
            "atol": 1e-9,
        }
    )


def close(actual, expected, factor=1, **changed):
    limits = {**tolerance(expected.dtype), **changed}
    limits["atol"] *= factor
    torch.testing.assert_close(actual.cpu(), expected.cpu(), **limits)


def regular(shape, dtype):
    """Matrices that are far from singular."""
    size = min(shape[-2:])
    return torch.randn(shape, dtype=dtype) + 2 * size**0.5 * torch.eye(*shape[-2:], dtype=dtype)


def definite(shape, dtype):
    x = torch.randn(shape, dtype=dtype)
    return x @ x.mH / shape[-1] + torch.eye(shape[-1], dtype=dtype)


def compare(device, function, *tensors, gradients=True, factor=1):
    """Results, and gradients of the inputs, on the device and on the CPU."""
    weights, found = None, []
    for where in ("cpu", device):
        leaves = [x.detach().clone().to(where).requires_grad_(gradients) for x in tensors]
        results = function(*leaves)
        results = [results] if isinstance(results, torch.Tensor) else list(results)
        if gradients:
            useful = [y for y in results if y.requires_grad]
            if weights is None:
                weights = [torch.randn(y.shape, dtype=y.dtype) for y in useful]
            torch.autograd.backward(useful, [w.to(where) for w in weights])
            results += [x.grad for x in leaves]
        found.append([y.detach().cpu() for y in results])
    for expected, actual in zip(*found, strict=True):
        if expected.is_floating_point() or expected.is_complex():
            close(actual, expected, factor)
        else:
            assert torch.equal(actual, expected)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_cholesky(operator_device, shape, dtype):
    a = definite(shape, dtype)
    for upper in (False, True):
        compare(
            operator_device,
            lambda x, u=upper: torch.linalg.cholesky(x, upper=u),
            a,
            gradients=False,
        )
        factor = torch.linalg.cholesky(a, upper=upper)
        b = torch.randn(*shape[:-1], 3, dtype=dtype)
        compare(
            operator_device,
            lambda b, f, u=upper: torch.cholesky_solve(b, f, upper=u),
            b,
            factor,
            gradients=False,
        )
        compare(
            operator_device,
            lambda f, u=upper: torch.cholesky_inverse(f, upper=u),
            factor,
            gradients=False,
        )


@pytest.mark.parametrize("at", [0, 1, 40, 69])
def test_cholesky_of_nan(device, at):
    """`info` has the order of the first minor that is not positive, as LAPACK's."""
    a = torch.eye(70)
    a[at, at] = torch.nan
    _, info = torch.linalg.cholesky_ex(a.to(device))
    assert info.item() == torch.linalg.cholesky_ex(a).info.item() == at + 1
    with pytest.raises(torch.linalg.LinAlgError, match=f"minor of order {at + 1} "):
        torch.linalg.cholesky(a.to(device))


@pytest.mark.parametrize("n", [3, 40, 70])
def test_cholesky_of_indefinite(device, n):
    a = torch.eye(n).repeat(3, 1, 1)
    a[1, n - 2, n - 2] = -1
    a[2, 0, 0] = 0
    _, info = torch.linalg.cholesky_ex(a.to(device))
    assert info.tolist() == [0, n - 1, 1]
    with pytest.raises(torch.linalg.LinAlgError, match="leading minor of order"):
        torch.linalg.cholesky(a.to(device))


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("left", [False, True])
def test_solve_triangular(operator_device, shape, dtype, left, upper):
    a = regular(shape, dtype)
    b = torch.randn(*shape[:-2], *((shape[-1], 19) if left else (19, shape[-1])), dtype=dtype)
    for unit in (False, True):
        matrix = a / shape[-1] if unit else a
        for x, y in ((matrix, b), (matrix.mT.contiguous().mH, b.mT.contiguous().mT)):
            compare(
                operator_device,
                lambda x, y, unit=unit: torch.linalg.solve_triangular(
                    x, y, upper=upper, left=left, unitriangular=unit
                ),
                x,
                y,
                gradients=False,
            )


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("shape", [*SHAPES, (5, 9), (9, 5), (2, 40, 20), (20, 50)], ids=str)
def test_lu(operator_device, shape, dtype):
    a = torch.randn(shape, dtype=dtype)
    compare(operator_device, torch.linalg.lu_factor, a, gradients=False, factor=10)
    p, lower, upper = torch.linalg.lu(a.to(operator_device))
    close(p.to(dtype).cpu() @ lower.cpu() @ upper.cpu(), a)
    easy = regular(shape, dtype)
    _, lower, upper = torch.linalg.lu(easy.to(operator_device), pivot=False)
    close(lower.cpu() @ upper.cpu(), easy)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("left", [False, True])
def test_lu_solve(operator_device, shape, dtype, left):
    lu, pivots = torch.linalg.lu_factor(regular(shape, dtype))
    b = torch.randn(*shape[:-2], *((shape[-1], 3) if left else (3, shape[-1])), dtype=dtype)
    for adjoint in (False, True):
        compare(
            operator_device,
            lambda lu, b, adjoint=adjoint: torch.linalg.lu_solve(
                lu, pivots.to(lu.device), b, left=left, adjoint=adjoint
            ),
            lu,
            b,
            gradients=False,
        )


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_solve_and_inverse(operator_device, shape, dtype):
    a, b = regular(shape, dtype), torch.randn(*shape[:-1], 2, dtype=dtype)
    compare(operator_device, torch.linalg.solve, a, b, gradients=False)
    compare(operator_device, torch.linalg.inv, a, gradients=False)
    compare(operator_device, torch.linalg.slogdet, a / shape[-1], gradients=False)
    if shape[-1] < 10:
        compare(operator_device, torch.linalg.det, a, gradients=False)


def test_singular(device):
    a = torch.tensor([[1.0, 2, 3], [2, 4, 6], [0, 0, 1]]).to(device)
    with pytest.raises(torch.linalg.LinAlgError, match="singular"):
        torch.linalg.inv(a)
    assert torch.linalg.det(a).item() == 0
    with pytest.raises(torch.linalg.LinAlgError, match="diagonal element 2 is zero"):
        torch.cholesky_inverse(torch.eye(3, device=device).index_fill_(0, a.new_ones(1).long(), 0))
    assert torch.linalg.lu_factor_ex(a)[2].item() == torch.linalg.lu_factor_ex(a.cpu())[2].item()


@pytest.mark.parametrize("dtype", REAL, ids=str)
@pytest.mark.parametrize(
    "name", ["solve", "inv", "det", "slogdet", "cholesky", "qr", "eigh", "svd"]
)
def test_gradients(operator_device, name, dtype):
    a = definite((2, 4, 4), dtype)
    function = getattr(torch.linalg, name)
    if name == "solve":
        compare(operator_device, function, a, torch.randn(2, 4, 3, dtype=dtype))
    elif name == "eigh":  # sums of squares do not see the signs of eigenvectors
        compare(
            operator_device,
            lambda x: [torch.linalg.eigh(x + x.mT)[0], torch.linalg.eigh(x)[1].abs()],
            a,
        )
    elif name == "svd":
        compare(
            operator_device,
            lambda x: [
                f(y) for f, y in zip((torch.abs, torch.abs, torch.abs), torch.linalg.svd(x))
            ],
            a,
        )
    else:
        compare(operator_device, function, a)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("shape", [*SHAPES, (5, 9), (9, 5), (2, 80, 20), (20, 50), (3, 1)], ids=str)
def test_qr(operator_device, shape, dtype):
    a = torch.randn(shape, dtype=dtype)
    compare(operator_device, torch.geqrf, a, gradients=False)
    for mode in ("reduced", "complete", "r"):
        compare(operator_device, lambda x, m=mode: torch.linalg.qr(x, mode=m), a, gradients=False)
    factors, tau = torch.geqrf(a)
    m = shape[-2]
    for left in (False, True):
        other = torch.randn(*shape[:-2], *((m, 4) if left else (4, m)), dtype=dtype)
        for transpose in (False, True):
            compare(
                operator_device,
                lambda x, t, o, left=left, transpose=transpose: torch.ormqr(
                    x, t, o, left=left, transpose=transpose
                ),
                factors,
                tau,
                other,
                gradients=False,
            )


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("uplo", ["L", "U"])
def test_eigh(operator_device, shape, dtype, uplo):
    a = torch.randn(shape, dtype=dtype)
    on_device = a.to(operator_device)
    values, vectors = (x.cpu() for x in torch.linalg.eigh(on_device, UPLO=uplo))
    close(values, torch.linalg.eigvalsh(a, UPLO=uplo))
    close(torch.linalg.eigvalsh(on_device, UPLO=uplo), values)
    eye = torch.eye(shape[-1], dtype=dtype).expand(shape)
    close(vectors.mH @ vectors, eye)
    whole = a.tril() + a.tril(-1).mH if uplo == "L" else a.triu() + a.triu(1).mH
    diagonal = whole.diagonal(dim1=-2, dim2=-1)
    diagonal.copy_(diagonal.real.to(dtype))
    close((vectors * values.unsqueeze(-2)) @ vectors.mH, whole)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize(
    "shape", [*SHAPES, (5, 9), (9, 5), (2, 80, 20), (20, 50), (3, 1), (120, 100)], ids=str
)
@pytest.mark.parametrize("full", [False, True])
def test_svd(operator_device, shape, dtype, full):
    a = torch.randn(shape, dtype=dtype)
    u, s, vh = (x.cpu() for x in torch.linalg.svd(a.to(operator_device), full_matrices=full))
    expected = torch.linalg.svd(a, full_matrices=full)
    assert (u.shape, s.shape, vh.shape) == tuple(x.shape for x in expected)
    close(s, expected[1])
    close(torch.linalg.svdvals(a.to(operator_device)), s)
    k = s.shape[-1]
    close((u[..., :k] * s.unsqueeze(-2)) @ vh[..., :k, :], a)
    close(u.mH @ u, torch.eye(u.shape[-1], dtype=dtype).expand(*shape[:-2], -1, -1))
    close(vh @ vh.mH, torch.eye(vh.shape[-2], dtype=dtype).expand(*shape[:-2], -1, -1))


@pytest.mark.usefixtures("float64_on_the_cpu")
@pytest.mark.parametrize("shape", [(6, 4), (4, 6), (2, 5, 5)], ids=str)
def test_svd_of_deficient(device, shape):
    """Columns that belong to singular values of zero complete the basis."""
    a = torch.zeros(shape)
    a[..., 0, 0], a[..., 1, 2], a[..., 3, 2] = 3, 1e-20, 2
    u, s, vh = (x.cpu() for x in torch.linalg.svd(a.to(device)))
    close(s, torch.linalg.svdvals(a))
    k = s.shape[-1]
    close((u[..., :k] * s.unsqueeze(-2)) @ vh[..., :k, :], a)
    close(u.mT @ u, torch.eye(u.shape[-1]).expand_as(u))
    close(vh @ vh.mT, torch.eye(vh.shape[-1]).expand_as(vh))
    assert torch.linalg.matrix_rank(a.to(device)).cpu().equal(torch.linalg.matrix_rank(a))


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (5, 5), (3, 6, 6), (20, 20)], ids=str)
def test_ldl(operator_device, shape, dtype):
    x = torch.randn(shape, dtype=dtype)
    x.diagonal(dim1=-2, dim2=-1).mul_(0.1)  # so that pivots come in pairs
    b = torch.randn(*shape[:-1], 3, dtype=dtype)
    for hermitian in (False, True):
        a = x + (x.mH if hermitian else x.mT)
        expected = torch.linalg.ldl_factor(a, hermitian=hermitian)
        factors = torch.linalg.ldl_factor(a.to(operator_device), hermitian=hermitian)
        assert torch.equal(factors[1].cpu(), expected[1])
        close(factors[0].cpu().tril(), expected[0].tril(), 10)
        solution = torch.linalg.ldl_solve(*factors, b.to(operator_device), hermitian=hermitian)
        close(a @ solution.cpu(), b, 10)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("driver", ["gels", "gelsy", "gelss", "gelsd", None])
@pytest.mark.parametrize("shape", [(4, 4), (7, 3), (2, 3, 5), (40, 35)], ids=str)
def test_lstsq(operator_device, shape, driver, dtype):
    a, b = regular(shape, dtype), torch.randn(*shape[:-1], 2, dtype=dtype)
    compare(
        operator_device,
        lambda x, y: torch.linalg.lstsq(x, y, driver=driver),
        a,
        b,
        gradients=False,
        factor=10,
    )
    compare(
        operator_device,
        lambda x, y: torch.linalg.lstsq(x, y, driver=driver).solution,
        a,
        b[..., 0],
        gradients=False,
    )
    if driver in ("gelss", "gelsd"):
        a[..., 0] = a[..., 1]
        compare(
            operator_device,
            lambda x, y: torch.linalg.lstsq(x, y, driver=driver),
            a,
            b,
            gradients=False,
            factor=10,
        )


@pytest.mark.usefixtures("float64_on_the_cpu")
def test_composed(device):
    a = torch.randn(4, 6)
    for function in (
        torch.linalg.pinv,
        torch.linalg.matrix_rank,
        torch.linalg.cond,
        lambda x: torch.linalg.norm(x, 2),
        lambda x: torch.linalg.norm(x, "nuc"),
        lambda x: torch.linalg.matrix_power(x @ x.mT, -2),
        lambda x: torch.linalg.tensorinv(torch.eye(24).to(x.device).reshape(4, 6, 8, 3) * 2),
        lambda x: torch.logdet(x @ x.mT),
    ):
        compare(device, function, a, gradients=False, factor=10)


def test_not_finite(device):
    a = torch.eye(3, device=device)
    a[1, 1] = float("nan")
    with pytest.raises(torch.linalg.LinAlgError, match="non-finite"):
        torch.linalg.svd(a)
    with pytest.raises(torch.linalg.LinAlgError):
        torch.linalg.eigh(a)


@pytest.mark.parametrize("shape", [(0, 0), (3, 0, 0), (0, 3, 3), (0, 3), (3, 0)], ids=str)
def test_empty(device, shape):
    a = torch.empty(shape)
    functions = [torch.linalg.qr, torch.linalg.lu_factor, torch.linalg.svd]
    if shape[-1] == shape[-2]:
        functions += [torch.linalg.cholesky, torch.linalg.inv, torch.linalg.det, torch.linalg.eigh]
    for function in functions:
        compare(device, function, a, gradients=False)


@pytest.mark.sample
@pytest.mark.parametrize("shape", SMALL, ids=str)
def test_small(device, shape):
    a, b = definite(shape, torch.float32), torch.randn(*shape[:-1], 2)
    for function in (
        torch.linalg.cholesky,
        torch.linalg.inv,
        torch.linalg.lu_factor,
        torch.linalg.qr,
        torch.linalg.eigvalsh,
        torch.linalg.svdvals,
    ):
        compare(device, function, a, gradients=False)
    for function in (torch.linalg.solve, torch.linalg.lstsq, torch.cholesky_solve):
        compare(
            device,
            function,
            *((b, a) if function is torch.cholesky_solve else (a, b)),
            gradients=False,
        )
    factors = torch.linalg.ldl_factor(a.to(device))
    close(a @ torch.linalg.ldl_solve(*factors, b.to(device)).cpu(), b)
    compare(
        device, lambda x: torch.linalg.svd(x)[0].abs(), a + torch.eye(shape[-1]), gradients=False
    )
