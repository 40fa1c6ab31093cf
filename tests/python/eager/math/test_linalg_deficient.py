"""QR and singular values of matrices with dependent columns, from which rounding leaves numbers so
small that their squares underflow."""

import math

import pytest
import torch
from support import assert_agrees, generator, has_fp64

MATRICES = {
    "ones": torch.ones(5, 5),
    "more rows": torch.ones(9, 4),
    "more columns": torch.ones(3, 12),
    "many": torch.ones(110, 110),
    "batch": torch.ones(2, 4, 4) * 3,
    "one row, repeated": torch.linspace(0.5, 1.5, 4099).expand(3, 4099),
    "tiny": torch.full((4, 4), 1e-25),
    "large": torch.full((4, 4), 1e25),
}


@pytest.fixture(params=list(MATRICES))
def matrix(request):
    return MATRICES[request.param]


def assert_orthonormal(q):
    torch.testing.assert_close(
        q.mH @ q, torch.eye(q.shape[-1], dtype=q.dtype).expand_as(q.mH @ q), rtol=0, atol=2e-5
    )


def assert_product(actual, expected):
    unit = expected.abs().max()
    torch.testing.assert_close(actual / unit, expected / unit, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64], ids=str)
def test_qr(device, matrix, dtype):
    a = matrix.to(dtype)
    q, r = (x.cpu() for x in torch.linalg.qr(a.to(device)))
    assert_orthonormal(q)
    assert_product(q @ r, a)


@pytest.mark.usefixtures("float64_on_the_cpu")
@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64], ids=str)
def test_svd(device, matrix, dtype):
    a = matrix.to(dtype)
    u, s, vh = (x.cpu() for x in torch.linalg.svd(a.to(device), full_matrices=False))
    assert_product(s, torch.linalg.svdvals(a))
    assert_product((u * s.unsqueeze(-2)) @ vh, a)
    assert_orthonormal(u)
    assert_orthonormal(vh.mH)
    assert torch.linalg.matrix_rank(a.to(device)).eq(1).all()


def test_factors_of_matrices_with_nan(device):
    """A NaN is taken as the pivot where it comes first, and is no zero: no error, as on the CPU."""
    nan = math.nan
    for rows in ([[nan, 1.0], [0.0, 2.0]], [[0.0, 1.0], [nan, 2.0]], [[nan] * 3] * 3):
        matrix = torch.tensor(rows)
        for function in (torch.linalg.lu_factor_ex, torch.linalg.inv_ex):
            expected, actual = function(matrix), function(matrix.to(device))
            assert actual.info.item() == expected.info.item()
    assert torch.linalg.inv(torch.full((3, 3), nan, device=device)).isnan().all()


@pytest.mark.parametrize("columns,seed", [(120, 0), (200, 0), (200, 1), (200, 2)])
def test_svd_of_graded_columns(device, columns, seed):
    """Singular values from 1 down to numbers far below the precision."""
    if not has_fp64(device):
        pytest.skip("float32 has no such numbers")
    numbers = torch.randn(columns, columns, dtype=torch.float64, generator=generator(seed))
    order = torch.randperm(columns, generator=generator(seed))
    a = numbers * 10 ** -torch.linspace(0, 40, columns, dtype=torch.float64)[order]
    u, s, vh = (x.cpu() for x in torch.linalg.svd(a.to(device)))
    torch.testing.assert_close((u * s) @ vh, a, rtol=0, atol=1e-11)
    assert_orthonormal(u)
    assert_orthonormal(vh.mH)


def test_singular_values_of_columns_by_ascending_length(device):
    # The count of sweeps does not depend on the order of columns.
    graded = torch.randn(150, 150, generator=generator()) * torch.logspace(-12, 0, 150)
    rounds = []
    for a in (graded, graded.flip(1)):
        x = a.to(device)
        with torch.profiler.profile() as profile:
            u, s, vh = torch.linalg.svd(x)
        rounds.append(sum(e.count for e in profile.key_averages() if "jacobi_round" in e.key))
        assert_product((u * s @ vh).cpu(), a)
    assert 0 < rounds[0] <= 1.5 * rounds[1]


@pytest.mark.parametrize(
    "a",
    [
        torch.tensor([[1.0, 0], [2, 0], [3, 0]]),
        torch.tensor([[1.0, 0, 3], [0, 0, 0]]),
        torch.zeros(3, 2),
        torch.zeros(2, 3, 3),
        torch.stack([torch.zeros(3, 3), torch.eye(3)]),
        torch.stack([torch.eye(3), torch.zeros(3, 3), torch.diag(torch.tensor([1.0, 0, 2]))]),
    ],
    ids=str,
)
def test_lstsq(device, a):
    """gels wants full rank, except of matrices of zeros; the other drivers take any."""
    b = torch.ones(*a.shape[:-1], 2)
    for driver in ("gels", "gelss"):

        def solve(x, y, driver=driver):
            return torch.linalg.lstsq(x, y, driver=driver).solution.contiguous()

        assert_agrees(solve, device, a, b, exact=False, rtol=1e-5, atol=1e-5)


def test_rank_of_lstsq(device):
    singular, b = torch.diag(torch.tensor([1.0, 0])).to(device), torch.ones(2, 1, device=device)
    with pytest.raises(torch.linalg.LinAlgError, match=r"full rank.*error code: 2"):
        torch.linalg.lstsq(singular, b, driver="gels", rcond=-1)
    assert torch.linalg.lstsq(singular, b).rank.item() == 1


def test_lstsq_of_broadcast_matrices(device):
    """Each matrix with several right sides has one number of an error."""
    a = torch.stack([torch.eye(3), torch.diag(torch.tensor([1.0, 2, 3]))])
    b = torch.randn(4, 2, 3, 2, generator=generator())

    def solve(x, y):
        return torch.linalg.lstsq(x, y, driver="gels").solution.contiguous()

    for matrices in (a, a[1], a[:1], a.expand(4, 2, 3, 3)[:, :1], a.expand(1, 2, 3, 3)):
        assert_agrees(solve, device, matrices, b, exact=False, rtol=1e-5, atol=1e-5)
    a[1, 2, 2] = 0
    assert_agrees(solve, device, a, b)


@pytest.mark.parametrize("dtype, size", [(torch.float32, 1e-39), (torch.float64, 1e-310)])
def test_matrices_of_subnormal_numbers(operator_device, dtype, size):
    """The reciprocals of their largest elements are infinite."""
    x = (torch.eye(3, dtype=dtype) * size).to(operator_device)
    if x.cpu()[0, 0] == 0 or (x + 0).cpu()[0, 0] == 0:
        pytest.skip("the device has no subnormal numbers")
    expected = torch.full((3,), size, dtype=dtype)
    torch.testing.assert_close(torch.linalg.svdvals(x).cpu(), expected, rtol=1e-3, atol=0)
    torch.testing.assert_close(torch.linalg.eigvalsh(x).cpu(), expected, rtol=1e-3, atol=0)
    assert torch.linalg.matrix_rank(x).item() == 3
    solution = torch.linalg.lstsq(x, x).solution.cpu()
    torch.testing.assert_close(solution, torch.eye(3, dtype=dtype), rtol=1e-3, atol=1e-3)
