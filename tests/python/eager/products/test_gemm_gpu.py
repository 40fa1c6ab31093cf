"""The GPU family's own matrix products: every tile, its edges, cuts along k, and vectors."""

import textwrap

import pytest
from support import output_of

HEAD = """
    import itertools
    import torch
    from torch_ocl import _C

    def check(operator, *arguments, kernel, tolerance=1e-4, **options):
        expected = operator(*arguments, **options)
        moved = [t.to("ocl").as_strided(t.shape, t.stride()) if t.is_contiguous() else
                 t.mT.to("ocl").mT for t in arguments]
        actual = operator(*moved, **options)
        assert _C.last_kernel() == kernel, (_C.last_kernel(), [t.shape for t in arguments])
        torch.testing.assert_close(actual.cpu(), expected, rtol=tolerance, atol=10 * tolerance)

    def layouts(m, n, k, dtype=torch.float32):
        def make(rows, columns, transposed):
            t = torch.randn(columns, rows) if transposed else torch.randn(rows, columns)
            return (t.mT if transposed else t).to(dtype)
        for by_column, by_row in itertools.product((False, True), repeat=2):
            yield make(m, k, by_column), make(k, n, by_row)

    torch.manual_seed(0)
"""


def run(code):
    code = textwrap.dedent(HEAD) + textwrap.dedent(code)
    return output_of(code, OCL_KERNEL_FAMILY="gpu")


@pytest.mark.parametrize("tile", [pytest.param(0, marks=pytest.mark.sample), 1, 2, 3, 4, 5, 6, 7])
def test_every_tile(tile):
    """Sizes that are multiples of four and that are not, above and below the tile's sizes."""
    code = """
    tile = _C.gemm_gpu_tiles()[TILE]
    _C.force_tuned("gemm_gpu", TILE)
    for a, b in layouts(tile.m + 4, tile.n + 8, 3 * tile.k + 4):
        check(torch.mm, a, b, kernel="gemm")
    sizes = tile.m - 1, tile.n + 1, tile.k + 3
    c, a, b = torch.randn(sizes[0], 1), torch.randn(sizes[0], sizes[2]), torch.randn(sizes[2:0:-1])
    check(torch.addmm, c, a, b, kernel="gemm", alpha=0.5, beta=2)
    """
    run(code.replace("TILE", str(tile)))


def test_loads_of_single_elements():
    run("""
    _C.force_tuned("gemm_gpu", 6)
    for a, b in layouts(33, 65, 35):
        check(torch.mm, a, b, kernel="gemm")
    for a, b in layouts(36, 68, 40):  # aligned, but for the rows' distance or the first element
        for wide in (a, b):
            moved = [torch.empty(t.shape[0], t.shape[1] + 1, device="ocl")[:, 1:].copy_(t)
                     if t is wide else t.to("ocl") for t in (a, b)]
            torch.testing.assert_close((moved[0] @ moved[1]).cpu(), a @ b, rtol=1e-4, atol=1e-3)
    check(torch.addmm, torch.randn(9), torch.randn(7, 0), torch.randn(0, 9), kernel="gemm")
    """)


def test_there_are_as_many_tiles_as_tests():
    assert run("print(len(_C.gemm_gpu_tiles()))") == "8"


def test_the_choice_of_tiles():
    """Products of any form get one, also where one that does not exist was asked for."""
    run("""
    _C.force_tuned("gemm_gpu", 9)
    for m, n, k in [(2, 2, 2), (16, 700, 40), (700, 16, 40), (300, 300, 30)]:
        check(torch.mm, torch.randn(m, k), torch.randn(k, n), kernel="gemm")
    """)


@pytest.mark.sample
def test_cut_along_k():
    """Few tiles with a long k: parts that are added in order, so results repeat."""
    run("""
    a, b = torch.randn(30, 5000), torch.randn(5000, 20)
    check(torch.mm, a, b, kernel="gemm_sum")
    for c in (torch.randn(20), torch.randn(30, 1)):
        check(torch.addmm, c, a, b, kernel="gemm_sum", beta=2, alpha=3, tolerance=5e-4)
    check(torch.bmm, torch.randn(2, 6, 3001), torch.randn(2, 3001, 7), kernel="gemm_sum")
    check(torch._addmm_activation, torch.randn(20), a, b, kernel="gemm_sum", use_gelu=True)
    x, y = a.to("ocl"), b.to("ocl")
    assert torch.equal(x @ y, x @ y)
    check(torch.mm, a.half(), b.half(), kernel="gemm_sum", tolerance=1e-2)
    """)


def test_types():
    run("""
    for dtype, tolerance in [(torch.float16, 1e-3), (torch.bfloat16, 1e-2)]:
        for a, b in layouts(36, 68, 44, dtype):
            check(torch.mm, a, b, kernel="gemm", tolerance=tolerance)
    for dtype in (torch.int8, torch.int32, torch.int64):
        a, b = (torch.randint(-9, 9, size).to(dtype) for size in [(36, 44), (44, 70)])
        check(torch.mm, a, b, kernel="gemm", tolerance=0)
    if torch.ocl.get_device_properties(0).has_fp64:
        for a, b in layouts(36, 70, 44, torch.float64):
            check(torch.mm, a, b, kernel="gemm", tolerance=1e-12)
    """)


@pytest.mark.sample
def test_vectors():
    """Products with a row or a column, the matrix in both layouts, the vector with gaps or not."""
    run("""
    for m, k in [(1, 1), (3, 17), (300, 40), (70, 300), (3, 5000)]:
        for a, x in layouts(m, 1, k):
            check(torch.mm, a, x, kernel="gemv")
            check(torch.mm, x.mT, a.mT, kernel="gemv")
            vector = torch.randn(m, 1)
            check(torch.addmm, vector, a, x, kernel="gemv", beta=2, alpha=3)
            check(torch._addmm_activation, vector, a, x, kernel="gemv", use_gelu=False)
    check(torch.bmm, torch.randn(3, 20, 30), torch.randn(3, 30, 1), kernel="gemv")
    check(torch.mm, torch.randn(9, 30).half(), torch.randn(30, 1).half(), kernel="gemv",
          tolerance=1e-3)
    with_gaps = torch.randn(30, 4).to("ocl")
    matrix = torch.randn(9, 30).to("ocl")
    torch.testing.assert_close(matrix @ with_gaps[:, 1], matrix @ with_gaps[:, 1].contiguous())
    """)


def test_vectors_in_quads():
    """Rows of a multiple of four elements are read by fours where they are aligned, else singly."""
    run("""
    types = [torch.float32, torch.float16, torch.bfloat16, torch.int8, torch.int64]
    if torch.ocl.get_device_properties(0).has_fp64:
        types.append(torch.float64)
    for dtype in types:
        for k in (4, 64, 260, 1028, 5000):
            whole = torch.randint(-2, 3, (9 * k + 8,)).to(dtype)
            row = torch.randint(-2, 3, (k + 8,)).to(dtype)
            for first, of_x in ((0, 0), (1, 0), (0, 1), (2, 0), (0, 2), (4, 4)):
                matrix, x = (
                    lambda t: t[first : first + 9 * k].view(9, k), lambda t: t[of_x : of_x + k])
                if dtype.is_floating_point:
                    expected = (matrix(whole).double() @ x(row).double()).to(dtype)
                else:
                    expected = matrix(whole) @ x(row)
                actual = matrix(whole.to("ocl")) @ x(row.to("ocl"))
                assert _C.last_kernel() == "gemv"
                assert torch.equal(actual.cpu(), expected), (dtype, k, first, of_x)
    # Rows that are further apart than they are long.
    wide = torch.randint(-2, 3, (9, 70)).float()
    x = torch.randint(-2, 3, (64,)).float()
    for columns in (slice(0, 64), slice(2, 66)):
        assert torch.equal((wide.to("ocl")[:, columns] @ x.to("ocl")).cpu(), wide[:, columns] @ x)
    # Vectors of a batch that begin anywhere.
    matrices, rows = (torch.randint(-2, 3, size).float() for size in ((5, 9, 64), (5, 1, 65)))
    actual = rows.to("ocl")[..., :64] @ matrices.to("ocl").mT
    assert torch.equal(actual.cpu(), rows[..., :64] @ matrices.mT)
    """)


PRODUCTS = """
    ran = []

    def compare(operator, *arguments, out=None, **numbers):
        expected = operator(*arguments, **numbers)
        mine = [move(t) for t in arguments]
        if out is not None:
            numbers["out"] = out.to("ocl").t()
        actual = operator(*mine, **numbers)
        ran.append(_C.last_kernel())
        torch.testing.assert_close(actual.cpu(), expected, rtol=1e-4, atol=1e-4)

    def move(t):
        # The same strides and offset on the device.
        base = torch.as_strided(t, (t.untyped_storage().nbytes() // t.element_size(),), (1,), 0)
        return torch.as_strided(base.to("ocl"), t.shape, t.stride(), t.storage_offset())

    def make(*shape):
        return torch.randn(shape, dtype=dtype)

    fp64 = torch.ocl.get_device_properties(0).has_fp64
    for dtype in [torch.float32] + [torch.float64] * fp64:
        for m, n, k in [(5, 7, 3), (130, 127, 70), (128, 130, 129)]:
            compare(torch.mm, make(m, k), make(k, n))
            compare(torch.mm, make(k, m).t(), make(n, k).t())
            compare(torch.mm, make(m + 2, k + 3)[2:, 3:], make(k + 1, n + 5)[1:, :n])
            compare(torch.mm, make(m, k), make(k, n), out=make(n, m))
            for shape in [(n,), (m, 1), (m, n)]:
                compare(torch.addmm, make(*shape), make(m, k), make(k, n), beta=0.5, alpha=2)
            compare(torch.bmm, make(3, m, k), make(3, k, n))
            compare(torch.bmm, make(3, k, m).mT, make(4, k, n)[1:])
            compare(torch.bmm, make(m, k).expand(3, m, k), make(3, k, n))
            compare(torch.baddbmm, make(3, 1, n), make(3, m, k), make(3, k, n), beta=2)

    m = 128
    x, y = torch.randn(m, m), torch.randn(m, m)
    z = x.to("ocl")
    z.addmm_(y.to("ocl"), y.to("ocl"), beta=3)
    torch.testing.assert_close(z.cpu(), 3 * x + y @ y, rtol=1e-4, atol=1e-4)
    out = torch.full((m, m), float("nan"), device="ocl")
    torch.mm(z, z, out=out)
    assert not (out != out).any().item()
    overlapping = torch.arange(10.0).to("ocl").as_strided((4, 5), (1, 1))
    expected = overlapping.cpu() @ torch.eye(5)
    assert torch.equal((overlapping @ torch.eye(5).to("ocl")).cpu(), expected)
    print(*set(ran))
"""


def test_layouts_offsets_and_addends():
    """Also where the addend is the result, and memory that overlaps itself."""
    assert run(PRODUCTS) == "gemm"
