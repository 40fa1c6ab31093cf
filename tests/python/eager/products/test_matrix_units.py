"""Matrix units of GPUs: products by each unit's kernels, in plain OpenCL C on the device here."""

import textwrap

import pytest
from support import altered_kernels, output_of, run_python

from torch_ocl import _C

EMULATED = {"OCL_KERNEL_FAMILY": "gpu", "OCL_MATRIX_UNITS": "emulate"}
HEAD = """
    import itertools, torch, torch.nn.functional as F
    from torch_ocl import _C

    FIRST = len(_C.gemm_gpu_tiles())  # the first tile of units among the candidates
    TILES = {(t.m, t.n): i for i, t in enumerate(_C.gemm_unit_tiles())}
    torch.manual_seed(0)

    def make(*shape, dtype=torch.float16, transposed=False):
        shape = (*shape[:-2], shape[-1], shape[-2]) if transposed else shape
        if dtype == torch.int8:
            t = torch.randint(-128, 128, shape, dtype=dtype)
        else:
            t = torch.randn(shape).to(dtype)
        return t.mT if transposed else t

    def move(t):
        return t.to("ocl") if t.is_contiguous() else t.mT.to("ocl").mT

    def check(actual, a, b, c=None, alpha=1, beta=1, after=lambda x: x, kernel="gemm_unit"):
        '''Rounded once, with sums in float32.'''
        assert _C.last_kernel() == kernel, (_C.last_kernel(), a.shape, b.shape)
        a, b = a.double(), b.double()
        exact, size = alpha * (a @ b), abs(alpha) * (a.abs() @ b.abs())
        if c is not None:
            exact, size = exact + beta * c.double(), size + abs(beta) * c.double().abs()
        exact = after(exact)
        if not actual.dtype.is_floating_point:
            assert actual.cpu().double().equal(exact), (a.shape, b.shape)
            return
        bound = (a.shape[-1] + 8) * 2.0**-24 * size
        bound = bound + torch.finfo(actual.dtype).eps * exact.abs() + 2.0**-24
        worst = ((actual.cpu().double() - exact).abs() / bound).max().item()
        assert worst <= 1, (worst, a.shape, b.shape)

    def multiply(a, b):
        return (torch._int_mm if a.dtype == torch.int8 else torch.matmul)(move(a), move(b))
"""
UNITS = _C.matrix_units()


def program(code):
    return textwrap.dedent(HEAD) + textwrap.dedent(code)


def run(code, **variables):
    return output_of(program(code), **EMULATED, **variables)


@pytest.mark.parametrize(
    "name", [pytest.param(x, marks=pytest.mark.sample if x == "sm_80" else []) for x in UNITS]
)
def test_every_unit(name):
    """Each type, in sizes off every multiple and in multiples, in orientations that change."""
    code = """
    _C.emulate_matrix_unit(NAME)
    unit, types = _C.matrix_unit(0).split(": ")
    assert unit == NAME
    names = {"f16": torch.float16, "bf16": torch.bfloat16, "i8": torch.int8}
    layouts = list(itertools.product((False, True), repeat=2))
    for i, dtype in enumerate(names[t] for t in types.split(", ")):
        for (m, n, k), turn in (((33, 35, 75), i + NUMBER), ((48, 32, 64), i + NUMBER + 2)):
            of_a, of_b = layouts[turn % 4]
            a = make(m, k, dtype=dtype, transposed=of_a)
            b = make(k, n, dtype=dtype, transposed=of_b)
            check(multiply(a, b), a, b)
    """
    run(code.replace("NAME", repr(name)).replace("NUMBER", str(UNITS.index(name))))


@pytest.mark.parametrize("dtype", ["float16", "int8"])
def test_orientations(dtype):
    """Rows that are loaded by 16 bytes, by four elements and singly, of one and of many words."""
    code = """
    for of_a, of_b in itertools.product((False, True), repeat=2):
        for m, n, k in (20, 36, 44), (64, 80, 48), (17, 33, 1):
            a = make(m, k, dtype=torch.TYPE, transposed=of_a)
            b = make(k, n, dtype=torch.TYPE, transposed=of_b)
            check(multiply(a, b), a, b)
    """
    run(code.replace("TYPE", dtype))


@pytest.mark.parametrize("name", ["gfx11", "intel_8"])
def test_every_tile(name):
    """More than one tile in each direction. One that the unit lacks registers for is replaced."""
    code = """
    _C.emulate_matrix_unit(NAME)
    for index, tile in enumerate(_C.gemm_unit_tiles()):
        _C.force_tuned("gemm_gpu", FIRST + index)
        a, b = make(tile.m + 3, 70), make(70, tile.n + 5)
        check(a.to("ocl") @ b.to("ocl"), a, b)
        ran.append(_C.last_tuned().choice == FIRST + index)
    print(ran)
    """
    code = code.replace("_C.emulate", "ran = []\n    _C.emulate").replace("NAME", repr(name))
    assert run(code).count("True") >= 6


@pytest.mark.sample
def test_batches_and_epilogues():
    run("""
    _C.force_tuned("gemm_gpu", FIRST + TILES[32, 32])
    a, b, c = make(3, 20, 47), make(3, 47, 29), make(3, 1, 29)
    check(move(a) @ move(b), a, b)
    check(torch.baddbmm(move(c), move(a), move(b), beta=3, alpha=2), a, b, c, 2, 3)
    check(move(a[:1]).expand(3, 20, 47) @ move(b), a[:1], b)
    x, weight, bias = a[0], make(29, 47), make(29)
    check(F.linear(move(x), move(weight), move(bias)), x, weight.mT, bias)
    for c in (make(20, 1), make(20, 29), make(29, 20).mT):
        check(torch.addmm(move(c), move(x), move(b[0])), x, b[0], c)
    actual = torch._addmm_activation(move(bias), move(x), move(b[0]), use_gelu=True)
    check(actual, x, b[0], bias, after=F.gelu)
    residual = make(20, 29)
    actual = torch.ops.ocl.addmm_epilogue(move(x), move(b[0]), move(bias), move(residual), "relu")
    check(actual, x, b[0], bias + residual.double(), after=torch.relu)
    in_place = move(residual)
    in_place.addmm_(move(x), move(b[0]))
    check(in_place, x, b[0], residual)
    columns = torch.empty(29, 20, dtype=torch.float16, device="ocl").t()
    torch.mm(move(x), move(b[0]), out=columns)
    check(columns, x, b[0])
    """)


@pytest.mark.sample
def test_cut_along_k():
    """Parts are added in order, so results repeat."""
    run("""
    _C.force_tuned("gemm_gpu", FIRST + TILES[16, 16])
    a, b, c = make(15, 5001), make(5001, 14), make(14)
    first = torch.addmm(move(c), move(a), move(b), alpha=0.5)
    check(first, a, b, c, 0.5, kernel="gemm_sum")
    assert torch.equal(first, torch.addmm(move(c), move(a), move(b), alpha=0.5))
    a, b = make(2, 6, 3000, dtype=torch.bfloat16), make(2, 3000, 7, dtype=torch.bfloat16)
    check(torch.bmm(move(a), move(b), out_dtype=torch.float32), a, b, kernel="gemm_sum")
    a, b = make(9, 3000, dtype=torch.int8), make(3000, 14, dtype=torch.int8)
    check(multiply(a, b), a, b, kernel="gemm_sum")
    """)


def test_wide_results():
    """float32 results of 16-bit factors are not rounded before; int32 ones of int8 are exact."""
    run("""
    for dtype in (torch.float16, torch.bfloat16):
        a, b, c = make(18, 40, dtype=dtype), make(40, 17, dtype=dtype), make(17, dtype=dtype)
        wide = {"out_dtype": torch.float32}
        check(torch.mm(move(a), move(b), **wide), a, b)
        actual = torch.addmm(move(c), move(a), move(b), alpha=2, beta=3, **wide)
        assert actual.dtype == torch.float32
        check(actual, a, b, c, 2, 3)
    for m, n, k in (1, 9, 20), (9, 1, 20), (3, 4, 0), (0, 4, 3), (3, 0, 4):
        a, b = make(m, k), make(k, n)
        actual = torch.mm(a.to("ocl"), b.to("ocl"), out_dtype=torch.float32)
        torch.testing.assert_close(actual.cpu(), a.float() @ b.float(), rtol=1e-5, atol=1e-5)
        a, b = make(m, k, dtype=torch.int8), make(k, n, dtype=torch.int8)
        actual = torch._int_mm(a.to("ocl"), b.to("ocl"))
        assert actual.cpu().equal(a.int() @ b.int())
    lowest = torch.full((16, 64), -128, dtype=torch.int8)
    assert multiply(lowest, lowest.t().contiguous()).eq(64 * 128 * 128).all()
    """)


@pytest.mark.sample
def test_special_numbers():
    """Infinities and NaN stay in their rows and columns; what surrounds operands is not read."""
    run("""
    a, b = make(20, 33), make(33, 18)
    a[3, 32], a[4, 0], b[32, 5], b[1, 6] = (float(x) for x in ("inf", "nan", "-inf", "nan"))
    a[5, 7], b[7, 8] = 2.0**-24, 2.0**-20  # subnormal numbers
    for of_a, of_b in itertools.product((False, True), repeat=2):
        parts = []
        for t, transposed in (a, of_a), (b, of_b):
            t = t.mT if transposed else t
            whole = torch.full((t.shape[0] + 2, t.shape[1] + 7), float("nan"), dtype=t.dtype)
            whole[1:-1, 3:-4] = t
            part = whole.to("ocl")[1:-1, 3:-4]
            parts.append(part.mT if transposed else part)
        actual = (parts[0] @ parts[1]).cpu().float()
        assert _C.last_kernel() == "gemm_unit"
        torch.testing.assert_close(actual, a.float() @ b.float(), rtol=2e-3, atol=2e-2,
                                   equal_nan=True)
    large = torch.full((16, 16), 60000.0, dtype=torch.float16)
    assert (move(large) @ move(large)).isinf().all()
    """)


def log(code, **variables):
    variables = {**EMULATED, "OCL_LOG_ALGORITHMS": "1", **variables}
    ended = run_python(program(code), **variables)
    assert ended.returncode == 0, ended.stderr
    return ended.stderr


def product(dtype="float16", before=""):
    return f"""
    {before}
    a, b = make(40, 48, dtype=torch.{dtype}), make(48, 56, dtype=torch.{dtype})
    actual = move(a) @ move(b)
    torch.testing.assert_close(actual.cpu().float(), a.float() @ b.float(), rtol=1e-2, atol=0.1)
    """


def test_the_log_says_what_is_used():
    assert ": gpu_unit; refused: " in log(product())
    assert "gpu_unit (OCL_MATRIX_UNITS=0)" in log(product(), OCL_MATRIX_UNITS="0")
    if _C.matrix_unit(0).split(":")[0] not in UNITS:
        text = log(product(), OCL_MATRIX_UNITS=None)
        assert "gpu_unit (no matrix unit of the device is known)" in text
    assert "gpu_unit (OCL_DISABLE)" in log(product(), OCL_DISABLE="gpu_unit")
    assert "gpu_unit (for float16, bfloat16 and int8)" in log(product("float32"))
    text = log(product(before='_C.force_tuned("gemm_gpu", 6)'))
    assert "gpu_unit (a tile in float32 is estimated or measured to be faster)" in text
    text = log(product("bfloat16", '_C.emulate_matrix_unit("sm_75")'))
    assert "gpu_unit (the matrix unit lacks the type)" in text


def test_unknown_values():
    ended = run_python(program(product()), **{**EMULATED, "OCL_MATRIX_UNITS": "yes"})
    assert 'OCL_MATRIX_UNITS must be "0", "1" or "emulate", not "yes"' in ended.stderr
    with pytest.raises(ValueError, match=r"no matrix unit 'sm_81'; there are sm_80, "):
        _C.emulate_matrix_unit("sm_81")


@pytest.mark.parametrize(
    ("file", "wanted", "found", "reason"),
    [
        pytest.param(
            "matrix_unit_nvidia.clh",
            "unit_c_column(lane, i) ((lane) % 4 * 2",
            "unit_c_column(lane, i) ((lane) % 2 * 2",
            "the probe of the matrix unit computed wrong sums",
            id="another layout",
        ),
        pytest.param(
            "matrix_unit_emulated.clh",
            "UNIT_SUM sum = c[i];",
            "UNIT_SUM sum = 0;",
            "the probe of the matrix unit computed wrong sums",
            id="sums that are not added",
        ),
        pytest.param(
            "matrix_unit_emulated.clh",
            "UNIT_SUM sum = c[i];",
            "#error no such instruction",
            "the compiler does not take the matrix unit's instructions",
            id="no instruction",
        ),
    ],
)
def test_units_that_fail_are_not_used(tmp_path, file, wanted, found, reason):
    """The products are right all the same; a warning tells of wrong sums, once."""
    kernels = altered_kernels(tmp_path, file, wanted, found)
    code = product() + "actual = move(a) @ move(b)\n"
    for _ in range(2):  # the second call uses the kept answer
        text = log(code, OCL_KERNEL_DIR=kernels, OCL_CACHE_DIR=str(tmp_path / "cache"))
        assert f"gpu_unit ({reason})" in text, text
        warnings = text.count("the matrix unit sm_80 of ocl:0")
        assert warnings == (1 if "wrong" in reason else 0), text


def test_the_answer_is_kept(tmp_path):
    """A later process probes nothing, also in a capture, where the first one may not."""
    code = """
    a, b = make(20, 30), make(30, 17)
    x, y = a.to("ocl"), b.to("ocl")
    graph = torch.ocl.Graph()
    with torch.ocl.graph(graph):
        z = x @ y
    graph.replay()
    torch.testing.assert_close(z.cpu(), (a.float() @ b.float()).half(), rtol=2e-3, atol=2e-2)
    before = _C.launch_count()
    x @ y
    print(_C.launch_count() - before)
    """
    folder = {"OCL_CACHE_DIR": str(tmp_path)}
    refused = log(code, **folder)
    assert "gpu_unit (the matrix unit was not probed before the capture)" in refused
    assert run(code, **folder) == "1"
    assert "not probed" not in log(code, **folder)


def test_info_names_the_unit():
    text = output_of("from torch_ocl import info; info.main()", **EMULATED)
    assert "matrix unit  sm_80: f16, bf16, i8" in text
    assert "OCL_MATRIX_UNITS=emulate" in text
