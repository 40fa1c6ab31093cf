"""The matrix unit of CPUs: products by AMX where the machine has it, and in plain OpenCL C."""

import textwrap

import pytest
from support import altered_kernels, output_of, run_python
from unit_modes import both, for_cpu_family, has_amx, needs_amx

pytestmark = for_cpu_family
HEAD = """
    import itertools, torch, torch.nn.functional as F
    from torch_ocl import _C

    _C.prefer_gemm_algorithm("cpu_unit")
    torch.set_float32_matmul_precision("high")
    torch.manual_seed(0)

    def make(*shape, dtype=torch.bfloat16, transposed=False, room=0):
        '''Random numbers; with room, a part of a matrix of NaN, or of the greatest number.'''
        shape = (*shape[:-2], shape[-1], shape[-2]) if transposed else shape
        if dtype == torch.int8:
            t = torch.randint(-128, 128, shape, dtype=dtype)
        else:
            t = torch.randn(shape).to(dtype)
        if room:
            whole = [*shape[:-2], shape[-2] + room, shape[-1] + room]
            filled = torch.full(whole, 127 if dtype == torch.int8 else torch.nan, dtype=dtype)
            filled[..., 1 : shape[-2] + 1, 1 : shape[-1] + 1] = t
            t = filled[..., 1 : shape[-2] + 1, 1 : shape[-1] + 1]
        return t.mT if transposed else t

    def move(t):
        '''With its strides, and what surrounds it.'''
        base = t._base if t._base is not None else t
        return base.to("ocl").as_strided(t.shape, t.stride(), t.storage_offset())

    def check(actual, a, b, c=None, alpha=1, beta=1, after=lambda x: x, kernel="gemm_unit_cpu"):
        '''Rounded once, with sums in float32.'''
        assert _C.last_kernel() == kernel, (_C.last_kernel(), a.shape, b.shape)
        splits = a.dtype == torch.float32
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
        if actual.dtype == torch.float16:
            bound = bound + 2.0**-18 * size  # without products of low pieces
        if splits:
            bound = bound + 3 * 2.0**-16 * size  # two pieces of bfloat16 for each number
        worst = ((actual.cpu().double() - exact).abs() / bound).max().item()
        assert worst <= 1, (worst, a.shape, b.shape)

    def multiply(a, b):
        return (torch._int_mm if a.dtype == torch.int8 else torch.matmul)(move(a), move(b))
"""


floats = pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
all_floats = pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])


def program(code, dtype="bfloat16"):
    return textwrap.dedent(HEAD).replace("torch.bfloat16", f"torch.{dtype}") + textwrap.dedent(code)


def run(code, mode, dtype="bfloat16"):
    return output_of(program(code, dtype), OCL_MATRIX_UNITS=mode)


@both
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "int8"])
def test_tails(mode, dtype):
    """Sizes around those of tiles in all orientations; what surrounds the operands is not read."""
    code = """
    sizes = 1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 128
    layouts = list(itertools.product((False, True), repeat=2))
    for i, (m, n) in enumerate(itertools.product(sizes, repeat=2)):
        for turn, (of_a, of_b) in enumerate(layouts):
            k = sizes[(i + 3 * turn + m) % len(sizes)]
            room = (i + turn) % 3
            a = make(m, k, dtype=torch.TYPE, transposed=of_a, room=room)
            b = make(k, n, dtype=torch.TYPE, transposed=of_b, room=room)
            check(multiply(a, b), a, b)
    """
    run(code.replace("TYPE", dtype), mode)


@both
@all_floats
def test_long_sums_and_large_matrices(mode, dtype):
    """Sums that continue from panel to panel; more panels than tasks, and more rows than a part."""
    run(
        """
    for (m, n, k), turned in itertools.product(
        ((40, 70, 2500), (33, 3, 1056), (7, 600, 1500), (2100, 34, 1100)), (False, True)):
        for of_a, of_b in itertools.product((False, True), repeat=2):
            shape = (n, m) if turned else (m, n)
            a, b = make(shape[0], k, transposed=of_a), make(k, shape[1], transposed=of_b)
            check(multiply(a, b), a, b)
    for m, n, k in (40, 70, 5000), (1030, 33, 70), (50, 2000, 33):
        a, b = make(m, k, dtype=torch.int8), make(k, n, dtype=torch.int8)
        check(multiply(a, b), a, b)
        a, b = make(m, 1024, transposed=True), make(1024, n, transposed=True)  # 2 KiB apart
        check(multiply(a, b), a, b)
        a, b = make(m, 1024), make(1024, n)
        check(multiply(a, b), a, b)
    """,
        mode,
        dtype,
    )


@both
@all_floats
def test_batches_and_epilogues(mode, dtype):
    run(
        """
    a, b, c = make(3, 40, 47), make(3, 47, 37), make(3, 1, 37)
    check(move(a) @ move(b), a, b)
    check(torch.baddbmm(move(c), move(a), move(b), beta=3, alpha=2), a, b, c, 2, 3)
    check(move(a[:1]).expand(3, 40, 47) @ move(b), a[:1], b)
    for of_a, of_b in itertools.product((False, True), repeat=2):
        x, y = make(5, 33, 70, transposed=of_a, room=2), make(5, 70, 18, transposed=of_b, room=1)
        check(move(x) @ move(y), x, y)
        check(move(x[::2]) @ move(y[1:4]), x[::2], y[1:4])
    x, bias = a[0].clone(), make(37)
    for rows in 40, 3:  # the weight is the right operand, and the left one
        weight = make(37, 47)
        check(F.linear(move(x[:rows]), move(weight), move(bias)), x[:rows], weight.mT, bias)
    y = b[0].clone()
    for c in (make(40, 1), make(40, 37), make(37, 40).mT):
        check(torch.addmm(move(c), move(x), move(y)), x, y, c)
        check(torch.addmm(move(c), move(x), move(weight).mT), x, weight.mT, c)
    for turned in y, weight.mT:
        actual = torch._addmm_activation(move(bias), move(x), move(turned), use_gelu=True)
        check(actual, x, turned, bias, after=F.gelu)
        residual = make(40, 37)
        actual = torch.ops.ocl.addmm_epilogue(
            move(x), move(turned), move(bias), move(residual), "relu")
        check(actual, x, turned, bias + residual.double(), after=torch.relu)
    in_place = move(residual)
    in_place.addmm_(move(x), move(y))
    check(in_place, x, y, residual)
    columns = torch.empty(37, 40, dtype=a.dtype, device="ocl").t()
    torch.mm(move(x), move(y), out=columns)
    check(columns, x, y)
    whole = torch.full((44, 50), 7.0, dtype=a.dtype, device="ocl")
    part = whole[2:42, 5:42]
    torch.mm(move(x), move(y), out=part)
    check(part, x, y)
    part.fill_(7)
    assert whole.eq(7).all()
    """,
        mode,
        dtype,
    )


@both
@floats
def test_wide_results_and_empty_matrices(mode, dtype):
    """float32 results of bfloat16 factors are not rounded before; int32 ones of int8 are exact."""
    run(
        """
    a, b, c = make(38, 40), make(40, 17), make(17)
    wide = {"out_dtype": torch.float32}
    check(torch.mm(move(a), move(b), **wide), a, b)
    actual = torch.addmm(move(c), move(a), move(b), alpha=2, beta=3, **wide)
    assert actual.dtype == torch.float32
    check(actual, a, b, c, 2, 3)
    for m, n, k in (3, 4, 0), (0, 4, 3), (3, 0, 4):
        a, b = make(m, k), make(k, n)
        actual = torch.mm(a.to("ocl"), b.to("ocl"), **wide)
        assert actual.cpu().equal(a.float() @ b.float())
        assert (a.to("ocl") @ b.to("ocl")).cpu().equal(a @ b)
        a, b = make(m, k, dtype=torch.int8), make(k, n, dtype=torch.int8)
        assert torch._int_mm(a.to("ocl"), b.to("ocl")).cpu().equal(a.int() @ b.int())
    lowest = torch.full((40, 2112), -128, dtype=torch.int8)
    assert multiply(lowest, lowest.t().contiguous()).eq(2112 * 128 * 128).all()
    """,
        mode,
        dtype,
    )


@both
@floats
def test_special_numbers(mode, dtype):
    """Infinities and NaN stay in their rows and columns."""
    run(
        """
    a, b = make(36, 35), make(35, 50)
    a[3, 34], a[4, 0], b[34, 5], b[1, 6] = (float(x) for x in ("inf", "nan", "-inf", "nan"))
    a[33, 2] = float("inf")
    b[2, 49] = 0  # times infinity
    a[:, 7], b[7, :] = 0, 0
    a[5, 7], b[7, 8] = torch.finfo(a.dtype).max, torch.finfo(a.dtype).max
    a[6], a[6, 9] = 0, 2.0**-24  # subnormal in float16
    b[9, 9:12] = torch.tensor([3 * 2.0**-24, 2.0**-15, 0.999])
    for of_a, of_b in itertools.product((False, True), repeat=2):
        x = a.mT.contiguous().mT if of_a else a
        y = b.mT.contiguous().mT if of_b else b
        actual = torch.mm(move(x), move(y), out_dtype=torch.float32).cpu()
        assert _C.last_kernel() == "gemm_unit_cpu"
        expected = a.float() @ b.float()
        torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5, equal_nan=True)
        assert actual[6].nan_to_num().equal(expected[6].nan_to_num())
        assert actual[5, 8].isinf().item() == (a.dtype == torch.bfloat16)
        assert actual[33, 49].isnan()
        rounded = (move(x) @ move(y)).cpu().float()
        expected = expected.to(a.dtype).float()
        torch.testing.assert_close(rounded, expected, rtol=5e-3, atol=1e-5, equal_nan=True)
    """,
        mode,
        dtype,
    )


@both
def test_special_float32_numbers(mode):
    """Nothing becomes infinite that is not. Without being asked, float32 products stay exact."""
    run(
        """
    greatest = torch.finfo(torch.float32).max
    a, b = torch.eye(64, 70), torch.randn(70, 64)
    b[0, 0], b[1, 1], b[2, 2], b[4, 4] = greatest, -greatest, torch.inf, 1e-37
    # NaN of all bits, and of the last one.
    for i, bits in enumerate((0x7F800001, 0x7FFFFFFF, -1)):
        b[30 + i, 30 + i] = torch.tensor(bits, dtype=torch.int32).view(torch.float32)
    a[5, 5] = torch.inf
    actual = torch.mm(a.to("ocl"), b.to("ocl")).cpu()
    assert _C.last_kernel() == "gemm_unit_cpu"
    expected = (a.double() @ b.double()).float()
    torch.testing.assert_close(actual, expected, rtol=2.0**-16, atol=1e-36, equal_nan=True)
    x = torch.randn(400, 400, device="ocl")
    definite = x @ x.mT + 400 * torch.eye(400, device="ocl")
    for ask, uses_unit in (
        (lambda: torch.set_float32_matmul_precision("medium"), True),
        (lambda: torch.set_float32_matmul_precision("highest"), False),
        (lambda: setattr(torch.backends.cuda.matmul, "fp32_precision", "tf32"), True),
        (lambda: setattr(torch.backends.cuda.matmul, "fp32_precision", "ieee"), False),
        (lambda: setattr(torch.backends, "fp32_precision", "tf32"), False),
        (lambda: setattr(torch.backends.mkldnn.matmul, "fp32_precision", "bf16"), False),
    ):
        ask()
        torch.mm(a.to("ocl"), b.to("ocl"))
        assert (_C.last_kernel() == "gemm_unit_cpu") == uses_unit
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    lower = torch.linalg.cholesky(definite).cpu().double()  # exact nevertheless
    exact = torch.linalg.cholesky(definite.cpu().double())
    assert (lower - exact).abs().max() < 1e-5 * exact.abs().max()
    """,
        mode,
    )


def log(code, **variables):
    ended = run_python(program(code), **{"OCL_LOG_ALGORITHMS": "1", **variables})
    assert ended.returncode == 0, ended.stderr
    return ended.stderr


def product(dtype="bfloat16", before=""):
    return f"""
    {before}
    a, b = make(40, 48, dtype=torch.{dtype}), make(48, 56, dtype=torch.{dtype})
    actual = move(a) @ move(b)
    torch.testing.assert_close(actual.cpu().float(), a.float() @ b.float(), rtol=1e-2, atol=0.1)
    """


def test_the_log_says_what_is_used():
    emulated = {"OCL_MATRIX_UNITS": "emulate"}
    assert "cpu_unit (OCL_MATRIX_UNITS=0)" in log(product(), OCL_MATRIX_UNITS="0")
    assert "cpu_unit (OCL_DISABLE)" in log(product(), OCL_DISABLE="cpu_unit", **emulated)
    text = log(
        """
    _C.prefer_gemm_algorithm("")
    torch.set_float32_matmul_precision("highest")
    for m, n, dtype in (40, 56, "bfloat16"), (20, 56, "bfloat16"), (2, 700, "bfloat16"), (
        40, 56, "float32"):
        x = torch.ones(m, 48, dtype=getattr(torch, dtype), device="ocl")
        assert (x @ x.new_ones(48, n)).eq(48).all()
    """,
        **emulated,
    )
    assert "1 of 40x48 by 48x56: cpu_unit" in text
    assert "cpu_unit (small matrices)" in text
    assert "cpu_unit (few rows or columns)" in text
    assert 'cpu_unit (torch.set_float32_matmul_precision() is "highest")' in text
    if not has_amx:
        text = log(product(), OCL_MATRIX_UNITS=None)
        assert "cpu_unit (no matrix unit of the device is known)" in text


REFUSE = """
    import ctypes, struct, torch

    # A filter of system calls, as containers have them, that refuses arch_prctl.
    code = [(0x20, 0, 0, 0), (0x15, 0, 1, 158), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7FFF0000)]
    filters = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in code))
    call = struct.pack("HxxxxxxQ", len(code), ctypes.addressof(filters))
    libc = ctypes.CDLL(None)
    assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, call, 0, 0) == 0
"""


@needs_amx
def test_a_refused_permission(tmp_path):
    """The unit is not used, also where an earlier process has kept that the probe was right."""
    variables = {"OCL_CACHE_DIR": str(tmp_path), "OCL_LOG_ALGORITHMS": "1"}
    assert ": cpu_unit" in log(product(), **variables)
    ended = run_python(textwrap.dedent(REFUSE) + program(product()), **variables)
    assert ended.returncode == 0, ended.stderr
    assert "cpu_unit (the system does not permit the matrix unit)" in ended.stderr


@both
def test_a_captured_product(mode, tmp_path):
    """Nothing is probed in a capture. A later process finds the answer that was kept."""
    code = """
    a, b = make(40, 300), make(300, 56)
    x, y = a.to("ocl"), b.to("ocl")
    graph = torch.ocl.Graph()
    with torch.ocl.graph(graph):
        z = x @ y
    for _ in range(3):
        a = make(40, 300)
        x.copy_(a)
        graph.replay()
        exact = a.double() @ b.double()
        size = a.double().abs() @ b.double().abs()
        assert ((z.cpu().double() - exact).abs() <= 0.005 * size).all()
    x @ y
    """
    variables = {"OCL_MATRIX_UNITS": mode, "OCL_CACHE_DIR": str(tmp_path)}
    text = log(code, **variables)
    assert "cpu_unit (the matrix unit was not probed before the capture)" in text
    assert "not probed" not in log(code, **variables)


def test_many_launches():
    """More than there are counters of items at a time, in streams that take turns."""
    run(
        """
    a, b = torch.randint(-8, 9, (2, 80, 80)).bfloat16()
    expected = (a.float() @ b.float()).bfloat16()
    x, y = a.to("ocl"), b.to("ocl")
    streams = torch.ocl.Stream(), torch.ocl.Stream(), torch.ocl.current_stream()
    torch.ocl.synchronize()
    results = []
    for i in range(900):
        with torch.ocl.stream(streams[i // 7 % 3]):
            results.append(x @ y)
    torch.ocl.synchronize()
    assert all(z.cpu().equal(expected) for z in results)
    """,
        "emulate",
    )


@needs_amx
def test_threads_and_forks():
    """All threads may use the unit, those of the runtime before the permission, too."""
    run(
        """
    import os, threading
    torch.set_num_threads(1)  # a fork has no threads of OpenMP, and would wait for them
    torch.ones(1 << 22, device="ocl").add_(1).sum().item()
    a, b = torch.randint(-8, 9, (2, 300, 300)).bfloat16()
    expected = a.float() @ b.float()
    results = []

    def work(device):
        x, y = a.to(device), b.to(device)
        for _ in range(30):
            z = (x @ y).cpu()
            results.append(z.equal(expected.bfloat16()))

    threads = [threading.Thread(target=work, args=(d,)) for d in ("ocl", "cpu", "ocl", "cpu")]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    assert len(results) == 120 and all(results)
    child = os.fork()
    if child == 0:
        os._exit(0 if (a @ b).equal(expected.bfloat16()) else 1)
    assert os.waitpid(child, 0)[1] == 0
    """,
        "1",
    )


@pytest.mark.parametrize(
    ("file", "wanted", "found", "reason"),
    [
        pytest.param(
            "matrix_unit_amx.clh",
            "UNIT_SUM sum = tiles->sums[i * BLOCK + j];",
            "UNIT_SUM sum = 0;",
            "the probe of the matrix unit computed wrong sums",
            id="sums that are not added",
        ),
        pytest.param(
            "matrix_unit_amx.clh",
            "UNIT_SUM sum = tiles->sums[i * BLOCK + j];",
            "#error no such instruction",
            "the compiler does not take the matrix unit's instructions",
            id="no instruction",
        ),
    ],
)
def test_a_unit_that_fails_is_not_used(tmp_path, file, wanted, found, reason):
    """The products are right nevertheless; one warning reports the wrong sums."""
    kernels = altered_kernels(tmp_path, file, wanted, found)
    code = product() + "actual = move(a) @ move(b)\n"
    variables = {"OCL_KERNEL_DIR": kernels, "OCL_CACHE_DIR": str(tmp_path / "cache")}
    for _ in range(2):  # the second call uses the kept answer
        text = log(code, OCL_MATRIX_UNITS="emulate", **variables)
        assert f"cpu_unit ({reason})" in text, text
        assert text.count("the matrix unit amx of ocl:0") == (1 if "wrong" in reason else 0), text
