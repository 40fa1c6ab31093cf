"""Matrix products against the CPU, in every layout that BLAS knows."""

import pytest
import torch
import torch.nn.functional as F
from stern import stern_output_of
from support import assert_agrees, assert_same, random_tensor

SIZES = [(1, 1, 1), (5, 7, 3), (33, 65, 17), (64, 10, 600), (1, 100, 200), (100, 1, 200), (9, 9, 0)]


@pytest.mark.parametrize("transposed", [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64])
def test_mm_and_addmm(device, dtype, transposed):
    for m, n, k in SIZES:
        a = random_tensor((k, m) if transposed[0] else (m, k), dtype, seed=1)
        b = random_tensor((n, k) if transposed[1] else (k, n), dtype, seed=2)
        a, b = (t.t() if flag else t for t, flag in zip((a, b), transposed))
        x, y = a.to(device), b.to(device)
        tolerance = {"rtol": 1e-4, "atol": 1e-2}
        torch.testing.assert_close((x @ y).cpu(), a @ b, **tolerance)
        for shape in [(n,), (m, 1), (m, n)]:
            c = random_tensor(shape, dtype, seed=3)
            expected = torch.addmm(c, a, b, beta=2, alpha=3)
            actual = torch.addmm(c.to(device), x, y, beta=2, alpha=3)
            torch.testing.assert_close(actual.cpu(), expected, **tolerance)


@pytest.mark.sample
def test_batches_and_column_major_results(device):
    a, b = torch.randn(6, 20, 30), torch.randn(6, 30, 40)
    x, y = a.to(device), b.to(device)
    torch.testing.assert_close((x @ y).cpu(), a @ b, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close((x[:1].expand_as(x) @ y).cpu(), a[:1] @ b, rtol=1e-4, atol=1e-4)
    out = torch.empty(40, 20, device=device).t()
    torch.mm(x[0], y[0], out=out)
    torch.testing.assert_close(out.cpu(), a[0] @ b[0], rtol=1e-4, atol=1e-4)


@pytest.mark.sample
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int32])
def test_types(device, dtype):
    """Half types are multiplied in float32 and rounded once."""
    a, b = random_tensor((33, 20), dtype, seed=1), random_tensor((20, 17), dtype, seed=2)
    wide = torch.int64 if dtype == torch.int32 else torch.float64
    tolerance = {torch.float16: 1e-3, torch.bfloat16: 1e-2, torch.int32: 0}[dtype]
    actual = a.to(device) @ b.to(device)
    expected = a.to(wide) @ b.to(wide)
    torch.testing.assert_close(actual.cpu().to(wide), expected, rtol=tolerance, atol=tolerance)


def test_half_types_are_rounded_once_with_little_local_memory():
    """Sums that continue over several panels wait there, not in the rounded result."""
    stern_output_of(
        "smallest",
        """
        import torch
        for m, k in ((24, 200), (24, 400), (24, 512), (300, 700), (5, 400)):
            for dtype in (torch.float16, torch.bfloat16):
                a, b = torch.randn(m, k).to(dtype), torch.randn(k, 64).to(dtype)
                nearest = (a.double() @ b.double()).to(dtype)
                for left in (a.to("ocl"), a.to("ocl").t().contiguous().t()):
                    wrong = ((left @ b.to("ocl")).cpu() != nearest).double().mean().item()
                    assert wrong < 0.02, (m, k, dtype, wrong)
        """,
        OCL_KERNEL_FAMILY="cpu",
    )


def test_sum_of_products(device):
    c, a, b = torch.randn(20, 40), torch.randn(6, 20, 30), torch.randn(6, 30, 40)
    actual = torch.addbmm(c.to(device), a.to(device), b.to(device), beta=2, alpha=3)
    expected = torch.addbmm(c, a, b, beta=2, alpha=3)
    torch.testing.assert_close(actual.cpu(), expected, rtol=1e-4, atol=1e-3)
    in_place = c.to(device)
    in_place.addbmm_(a.to(device), b.to(device), beta=2, alpha=3)
    assert torch.equal(in_place, actual)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int32])
def test_dot(device, dtype):
    a, b = (random_tensor((3000,), dtype, seed=seed, low=-1, high=1) for seed in (1, 2))
    for operator in (torch.dot, torch.vdot):
        actual = operator(a.to(device)[::2], b.to(device)[1500:])
        assert actual.dtype == dtype
        expected = operator(a.double()[::2], b.double()[1500:])
        torch.testing.assert_close(actual.cpu().double(), expected, rtol=1e-3, atol=1e-3)
    with pytest.raises(RuntimeError, match="inconsistent tensor size"):
        torch.dot(a.to(device), b.to(device)[1:])
    with pytest.raises(RuntimeError, match="1D tensors expected"):
        torch.dot(a.to(device)[None], b.to(device))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_wide_results(device, dtype):
    a, b, c = (torch.randn(2, 5, 5).to(dtype) for _ in range(3))
    wide = torch.float32
    pairs = [
        (torch.mm, (a[0], b[0])),
        (torch.bmm, (a, b)),
        (torch.addmm, (c[0], a[0], b[0])),
        (torch.baddbmm, (c, a, b)),
    ]
    for function, operands in pairs:
        expected = function(*(x.float() for x in operands))
        actual = function(*(x.to(device) for x in operands), out_dtype=wide)
        torch.testing.assert_close(actual.cpu(), expected)
    with pytest.raises(RuntimeError, match="out_dtype"):
        torch.mm(a[0].to(device), b[0].to(device), out_dtype=torch.int32)


@pytest.mark.parametrize("k", [1, 15, 33, 100, 1024, 5000, 17000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_matrix_and_vector(device, dtype, k):
    """Odd strides and offsets of rows, and a batch of matrices."""
    matrices, x = random_tensor((3, 19, k + 1), dtype), random_tensor((k,), dtype, seed=1)
    moved, x_moved = matrices.to(device), x.to(device)
    whole = matrices[0, :, :k].contiguous()
    for expected, actual in (
        (whole.double() @ x.double(), whole.to(device) @ x_moved),
        (matrices[0, :, :k].double() @ x.double(), moved[0, :, :k] @ x_moved),
        (matrices[1, :, 1:].double() @ x.double(), moved[1, :, 1:] @ x_moved),
        (x.double() @ whole.t().double(), F.linear(x_moved, whole.to(device))),
        (matrices[..., :k].double() @ x.double(), moved[..., :k] @ x_moved),
        (
            whole.t().contiguous().double() @ whole[:, 0].double(),
            whole.to(device).t() @ whole[:, 0].to(device),
        ),
    ):
        error = (actual.double().cpu() - expected).abs().max()
        limit = torch.finfo(dtype).eps * max(expected.abs().max().item(), 1)
        assert actual.dtype == dtype and error <= (8 if dtype == torch.float32 else 1) * limit


@pytest.mark.parametrize("use_gelu", [False, True])
def test_activation_of_a_product(device, use_gelu):
    """One launch, whatever the size: sums over a long k are activated when they are complete."""
    from torch_ocl import _C

    for m, n, k in [(5, 7, 3), (33, 65, 17), (20, 40, 1100), (1, 30, 20), (30, 1, 20), (3, 4, 0)]:
        a, b, c = torch.randn(m, k), torch.randn(k, n), torch.randn(n)
        moved = [t.to(device) for t in (c, a, b)]
        before = _C.launch_count()
        actual = torch._addmm_activation(*moved, use_gelu=use_gelu, alpha=0.5, beta=2)
        if torch.ocl.get_device_properties(device).kernel_family == "cpu":
            assert _C.launch_count() - before == 1
        expected = torch._addmm_activation(c, a, b, use_gelu=use_gelu, alpha=0.5, beta=2)
        torch.testing.assert_close(actual.cpu(), expected, rtol=1e-4, atol=1e-4)
    nan = torch.full((1, 2), float("nan"), device=device)
    zeros = torch.zeros(2, device=device), torch.zeros(2, 2, device=device)
    assert torch._addmm_activation(zeros[0], nan, zeros[1], use_gelu=use_gelu).isnan().all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64, torch.int32])
def test_activation_by_type(device, dtype):
    a, b, c = (
        random_tensor(s, dtype, seed=i, low=-2, high=2)
        for i, s in enumerate([(9, 600), (600, 21), (21,)])
    )
    actual = torch._addmm_activation(*(t.to(device) for t in (c, a, b)))
    wide = torch.int64 if dtype == torch.int32 else torch.float64
    expected = (c.to(wide) + a.to(wide) @ b.to(wide)).relu()
    torch.testing.assert_close(actual.cpu().to(wide), expected, rtol=2e-3, atol=2e-3)
    if dtype == torch.int32:
        with pytest.raises(NotImplementedError, match="gelu"):
            torch._addmm_activation(*(t.to(device) for t in (c, a, b)), use_gelu=True)


MIXED = {
    "mm": lambda d: torch.mm(*mixed(d, (2, 3), (3, 4))),
    "mm of no rows": lambda d: torch.mm(*mixed(d, (0, 3), (3, 4))),
    "mm over nothing": lambda d: torch.mm(*mixed(d, (2, 0), (0, 4))),
    "bmm": lambda d: torch.bmm(*mixed(d, (2, 2, 3), (2, 3, 4))),
}


def mixed(device, left, right):
    return torch.ones(left, dtype=torch.int16, device=device), torch.ones(right, device=device)


@pytest.mark.parametrize("name", MIXED)
def test_errors_of_mixed_types(device, name):
    messages = []
    for where in ("cpu", device):
        with pytest.raises(RuntimeError) as error:
            MIXED[name](where)
        messages.append(str(error.value))
    assert messages[1].startswith(messages[0])  # followed by the device's name


def test_bmm_of_mixed_types_over_nothing(device):
    result = torch.bmm(*mixed(device, (2, 2, 0), (2, 0, 4)))
    assert_same(result, torch.bmm(*mixed("cpu", (2, 2, 0), (2, 0, 4))))


@pytest.mark.parametrize("beta", [1, 2, 2j])
def test_infinities_of_complex_products(device, beta):
    """As in BLAS, alpha and beta do not multiply where they are 1."""
    a, b, c = (random_tensor((4, 4), torch.complex64, seed=seed) for seed in range(3))
    c[0, 0] = complex(float("inf"), 0)
    assert_agrees(lambda c, a, b: torch.addmm(c, a, b, beta=beta), device, c, a, b, exact=False)
    x = torch.eye(2, dtype=torch.complex64)
    y = torch.full((2, 2), complex(float("inf"), 0))
    assert torch.isinf((x.to(device)[:, :1] @ y.to(device)[:1]).cpu()[0].real).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64], ids=str)
def test_products_of_no_terms(device, dtype):
    """As in BLAS, alpha = 0 does not read the factors, and alpha does not multiply no terms."""
    c, nan = torch.ones(40, 40, dtype=dtype), torch.full((40, 40), float("nan")).to(dtype)
    assert_agrees(lambda c, a: torch.addmm(c, a, a, alpha=0), device, c, nan)
    assert_agrees(lambda c, a: torch.baddbmm(c[None], a[None], a[None], alpha=0), device, c, nan)
    alpha = float("inf")
    for beta in (0, 1, 3):
        assert_agrees(
            lambda c, a, b=beta: torch.addmm(c, a[:, :0], a[:0], alpha=alpha, beta=b),
            device,
            c,
            nan,
        )


@pytest.mark.parametrize("dtype", [torch.uint16, torch.uint32, torch.uint64], ids=str)
def test_types_without_products(device, dtype):
    x = torch.ones(3, 3, dtype=dtype)
    with pytest.raises(RuntimeError, match="not implemented for"):
        x @ x
    with pytest.raises(
        RuntimeError, match=f"not implemented .*{str(dtype)[6:].replace('ui', 'UI')}"
    ):
        x.to(device) @ x.to(device)


@pytest.mark.parametrize("dtype", [torch.int64, torch.float16])
def test_memory_of_long_dot_products(device, dtype):
    """Their products are not all in memory at a time."""
    x = torch.zeros(2**23 + 5, dtype=dtype, device=device)
    x[:3] = x[-2:] = 1
    before = torch.ocl.memory_allocated(device)
    torch.ocl.reset_peak_memory_stats(device)
    assert torch.dot(x, x).item() == torch.vdot(x, x).item() == 5
    assert torch.ocl.max_memory_allocated(device) - before < 2**25
