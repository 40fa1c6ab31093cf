"""Linear algebra of batches that broadcast, repeat or are empty, and of pivots out of range."""

import pytest
import torch

BATCHES = [
    ((), (2, 3)),
    ((1,), (2, 3)),
    ((1, 3), (2, 1)),
    ((2, 1), (1, 3)),
    ((3,), (2, 3)),
    ((2, 3), (1,)),
    ((0,), (1,)),
    ((1,), (0,)),
]


def regular(batch, n=4, dtype=torch.float32):
    return torch.randn(*batch, n, n, dtype=dtype) + 4 * torch.eye(n, dtype=dtype)


def same(function, device, *tensors):
    expected = function(*tensors)
    actual = function(*(x.to(device) for x in tensors))
    assert actual.shape == expected.shape
    assert actual.stride() == expected.stride()
    torch.testing.assert_close(actual.cpu(), expected, rtol=2e-3, atol=2e-4)


@pytest.mark.parametrize(("left", "right"), BATCHES, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64], ids=str)
@pytest.mark.parametrize("n", [4, 40])
def test_solve(operator_device, left, right, dtype, n):
    a, b = regular(left, n, dtype), torch.randn(*right, n, 6, dtype=dtype)
    rows = b.mT.contiguous()
    same(torch.linalg.solve, operator_device, a, b)
    same(lambda a, b: torch.linalg.solve(a, b, left=False), operator_device, a, rows)
    lu, pivots = torch.linalg.lu_factor(a)
    for on_left in (True, False):
        for adjoint in (True, False):
            same(
                lambda *x, s=on_left, t=adjoint: torch.linalg.lu_solve(*x, left=s, adjoint=t),
                operator_device,
                lu,
                pivots,
                b if on_left else rows,
            )


# ldl_solve of the CPU reads memory out of bounds where the batch of A is broadcast.
@pytest.mark.parametrize(("left", "right"), BATCHES, ids=str)
def test_ldl_solve(operator_device, left, right):
    x = torch.randn(*left, 5, 5)
    a, b = x + x.mT, torch.randn(*right, 5, 2)
    factors, pivots = torch.linalg.ldl_factor(a.to(operator_device))
    b_there = b.to(operator_device)
    solution = torch.linalg.ldl_solve(factors, pivots, b_there)
    torch.testing.assert_close(a @ solution.cpu(), b.expand(solution.shape), rtol=0, atol=1e-3)
    assert torch.equal(torch.linalg.ldl_solve(factors, pivots.long(), b_there), solution)


@pytest.mark.parametrize("pivot", [0, 5, -5, 2**31 - 1])
def test_pivots_out_of_range(operator_device, pivot):
    a = regular((2,))
    b = torch.ones(2, 4, 3, device=operator_device)
    lu, pivots = torch.linalg.lu_factor(a)
    pivots[1, 2] = pivot
    factors, exchanges = torch.linalg.ldl_factor(a @ a.mT)
    exchanges[1, 2] = pivot
    calls = [
        lambda lu, p, *_: torch.linalg.lu_solve(lu, p, b),
        lambda lu, p, *_: torch.linalg.lu_solve(lu, p, b, adjoint=True),
        lambda lu, p, *_: torch.lu_unpack(lu, p),
        lambda _, __, f, e: torch.linalg.ldl_solve(f, e, b),
    ]
    for call in calls:
        with pytest.raises(RuntimeError, match="pivot"):
            call(*(x.to(operator_device) for x in (lu, pivots, factors, exchanges)))
            torch.ocl.synchronize()


@pytest.mark.parametrize("pivot", [2**32 + 1, -(2**32) - 1, -(2**63)])
def test_pivots_of_more_than_32_bits(operator_device, pivot):
    factors, pivots = torch.linalg.ldl_factor(torch.eye(3))
    pivots = pivots.long()
    pivots[0] = pivot
    factors, pivots, b = (x.to(operator_device) for x in (factors, pivots, torch.ones(3, 1)))
    with pytest.raises(RuntimeError, match=f"pivot {pivot} is out of bounds"):
        torch.linalg.ldl_solve(factors, pivots, b).cpu()
    with pytest.raises(NotImplementedError, match="UInt64"):
        torch.linalg.ldl_solve(factors, pivots.to(torch.uint64), b)


@pytest.mark.parametrize("driver", ["gelsy", "gelsd", "gelss"])
def test_lstsq_into_another_type(device, driver):
    a, b = torch.randn(5, 3), torch.randn(5, 2)
    results = []
    for where in ("cpu", device):
        out = [torch.empty(0, device=where) for _ in range(4)]
        torch.linalg.lstsq(a.to(where), b.to(where), driver=driver, out=out)
        results.append([t.cpu() for t in out])
    for expected, actual in zip(*results, strict=True):
        torch.testing.assert_close(actual, expected)


@pytest.mark.parametrize("driver", ["gelsy", "gelsd", "gelss"])
@pytest.mark.parametrize("shape", [(2, 3, 0, 0), (2, 3, 3, 0), (0, 5, 3), (0, 3, 5)], ids=str)
def test_lstsq_of_empty(device, driver, shape):
    a, b = torch.ones(shape), torch.ones(*shape[:-1], 2)
    expected = torch.linalg.lstsq(a, b, driver=driver)
    actual = torch.linalg.lstsq(a.to(device), b.to(device), driver=driver)
    for x, y in zip(actual, expected, strict=True):
        assert x.shape == y.shape
        assert x.dtype == y.dtype


def unpacked(factors, pivots):
    return torch.lu_unpack(factors, torch.tensor(pivots, dtype=torch.int32, device=factors.device))


def test_pivots_longer_than_the_matrix(device):
    for rows, columns in [(3, 3), (5, 3), (3, 5)]:
        factors = torch.randn(2, rows, columns)
        pivots = [[3, 2, 3, 3, 3], [1, 3, 3, 3, 3]]
        for a, b in zip(unpacked(factors.to(device), pivots), unpacked(factors, pivots)):
            torch.testing.assert_close(a.cpu(), b, rtol=0, atol=0)


@pytest.mark.parametrize(
    "pivots", [[1, 2], 1, [], [[1, 2, 3]] * 2, [0, 2, 3], [1, 4, 3], [-1, 2, 3]], ids=str
)
def test_pivots_that_do_not_fit(device, pivots):
    with pytest.raises(RuntimeError, match="pivot"):
        unpacked(torch.eye(3, device=device), pivots)
        torch.ocl.synchronize()
