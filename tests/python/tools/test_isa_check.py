"""tools/isa_check: the interpreter of PTX finds what kernels do wrong."""

import os
import pathlib
import subprocess
import sys
import textwrap
import types

import numpy as np
import pytest
from stern import skip_without_the_stern_device
from support import ROOT

sys.path.append(str(ROOT / "tools/isa_check"))
from costs import Costs
from differences import difference
from isa_check import check, chosen
from launches import Argument, Launch, execute
from machine import TooLong
from memory import KINDS, Fault
from programs import Programs
from ptx import Module
from races import Race

KERNELS = (pathlib.Path(__file__).parent / "isa_check_kernels.cl").read_text()


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    found = Programs(ROOT / ".runtimes/compilers", tmp_path_factory.mktemp("ptx"))
    if reason := found.missing():
        pytest.skip(reason)
    return found


@pytest.fixture
def run(programs):
    """Runs a kernel of isa_check_kernels.cl: arrays are buffers, numbers values. -> the buffers"""

    def run(kernel, items, group, *arguments, defines="", target="sm_80", **options):
        launch = types.SimpleNamespace(sizes=[(items, group, 0), (1, 1, 0), (1, 1, 0)])
        launch.arguments, launch.before = [], []
        for each in arguments:
            if isinstance(each, np.ndarray):
                launch.arguments.append(Argument("buffer", buffer=len(launch.before)))
                launch.before.append(np.ascontiguousarray(each).view(np.uint8).reshape(-1))
            else:
                launch.arguments.append(Argument("value", each.tobytes()))
        code = programs.kernel(KERNELS, defines, target, kernel)
        blocks, _ = execute(launch, code, **options)
        arrays = [each for each in arguments if isinstance(each, np.ndarray)]
        return [b.bytes().view(a.dtype).reshape(a.shape) for a, b in zip(arrays, blocks)]

    return run


NUMBERS = np.random.default_rng(0).standard_normal(256).astype(np.float32)
ORDERS = pytest.mark.parametrize("order", ["together", "random"])


@ORDERS
def test_a_sum_with_barriers(run, order):
    out, _ = run("sums", 256, 64, np.zeros(4, np.float32), NUMBERS, order=order)
    np.testing.assert_allclose(out, NUMBERS.reshape(4, 64).sum(1), rtol=1e-5)


@ORDERS
def test_a_missing_barrier(run, order):
    """The work-items of a wave have no order either, for OpenCL."""
    for group in (64, 32):
        with pytest.raises(Race, match=r"race of a (read|write) .* of local memory: work-item \d+"):
            out = np.zeros(256 // group, np.float32)
            run("sums", 256, group, out, NUMBERS, defines="-DBARRIER=", order=order)


def test_a_barrier_that_some_do_not_reach(run):
    with pytest.raises(Fault, match="20 of the 64 work-items of group 0 reach the barrier"):
        run("partial_barrier", 64, 64, np.zeros(64, np.int32), np.int32(20))
    run("partial_barrier", 64, 64, np.zeros(64, np.int32), np.int32(64))


def test_a_race_in_global_memory(run):
    out = np.zeros(64, np.int32)
    for target in (1, 40):  # in the group, in another group
        with pytest.raises(Race, match=r"byte (4|160) "):
            run("neighbours", 64, 32, out, np.int32(target))
    found = run("neighbours", 64, 32, out, np.int32(-1))
    assert (found[0] == np.arange(64)).all()


def test_reads_of_several_groups_are_no_race(run):
    found = run("copies_of_one", 128, 32, np.zeros(128, np.int32), np.full(1, 7, np.int32))
    assert (found[0] == 7).all()


def test_atomic_sums(run):
    found = run("counts", 128, 32, np.zeros(4, np.int32), np.arange(128, dtype=np.int32) % 4)
    assert (found[0] == 32).all()


@pytest.mark.parametrize("offset", [-1, 64, 1 << 40])
def test_out_of_bounds(run, offset):
    data = np.arange(64, dtype=np.int32)
    with pytest.raises(Fault, match=r"read of 4 bytes out of bounds|no buffer|buffer 1"):
        run("reads_at", 64, 64, np.zeros(64, np.int32), data, np.int64(offset))
    with pytest.raises(Fault, match=r"read of 4 bytes out of bounds at byte 64 of local memory"):
        run("reads_local", 16, 16, np.zeros(16, np.int32), np.int32(1))
    run("reads_local", 16, 16, np.zeros(16, np.int32), np.int32(0))


def test_a_misaligned_read(run):
    with pytest.raises(Fault, match="misaligned read of 16 bytes"):
        run("reads_four", 1, 1, np.zeros(4, np.float32), NUMBERS, np.int32(1))
    run("reads_four", 1, 1, np.zeros(4, np.float32), NUMBERS, np.int32(4))


@pytest.mark.parametrize("kernel", ["undefined_local", "undefined_private", "undefined_branch"])
def test_what_nobody_wrote(run, kernel):
    with pytest.raises(Fault, match="uninitialised"):
        run(kernel, 32, 32, np.zeros(32, np.int32), np.int32(5))
    run(kernel, 32, 32, np.zeros(32, np.int32), np.int32(32))


def fragments(rng, k, kind):
    """Operands of a product in float16 or int8, and it."""
    if kind == "i8":
        a, b = (rng.integers(-128, 128, shape, dtype=np.int8) for shape in ((16, k), (8, k)))
        return a, b, a.astype(np.int32) @ b.astype(np.int32).T
    a, b = (rng.standard_normal(shape).astype(np.float16) for shape in ((16, k), (8, k)))
    return a, b, a.astype(np.float32) @ b.astype(np.float32).T


def test_a_fragment(run):
    """ldmatrix and mma.sync. One wrong place of an operand, and the product is wrong."""
    a, b, expected = fragments(np.random.default_rng(0), 16, "f16")
    out, *_ = run("fragment", 32, 32, np.zeros((16, 8), np.float32), a, b, np.int32(32))
    np.testing.assert_allclose(out, expected, rtol=1e-3, atol=1e-3)
    wrong = "-DROW=lane/4+1"
    out, *_ = run(
        "fragment", 32, 32, np.zeros((16, 8), np.float32), a, b, np.int32(32), defines=wrong
    )
    assert np.abs(out - expected).max() > 0.1


def test_a_wave_that_is_not_whole(run):
    a, b, _ = fragments(np.random.default_rng(0), 16, "f16")
    with pytest.raises(Fault, match="20 of the 32 work-items of a wave reach"):
        run("fragment", 32, 32, np.zeros((16, 8), np.float32), a, b, np.int32(20))


def test_copies_that_arrive_later(run):
    """cp.async without its wait."""
    out, data = run("copies", 64, 32, np.zeros(256, np.float32), NUMBERS)
    assert (out == data).all()
    with pytest.raises(Fault, match="uninitialised"):
        run("copies", 64, 32, np.zeros(256, np.float32), NUMBERS, defines="-DWAIT=1")


def test_types_decide_how_results_are_compared(run):
    def found(kind, source="#define T half"):
        data = np.array([1, 2, 3], kind)
        other = data.copy()
        other.view(f"u{other.itemsize}")[1] += 1
        mark = {"f2": "u16", "i4": "u32", "f4": "f32", "f8": "f64"}[kind]
        block = types.SimpleNamespace(granule=0, size=data.nbytes, name="buffer 0")
        block.kinds = np.full(data.nbytes, KINDS[mark])
        block.bytes = lambda: data.view(np.uint8)
        return difference(block, other.view(np.uint8), source)

    assert found("f4") == found("f8") == found("f2") == ""
    assert "02000000 for 03000000" in found("i4")
    assert "u16" in found("f2", source="#define T short")


def test_a_launch_that_takes_too_long(run):
    out = np.zeros(4, np.float32)
    run("sums", 256, 64, out, NUMBERS, most=1000)
    with pytest.raises(TooLong, match="more than 50 instructions"):
        run("sums", 256, 64, out, NUMBERS, most=50)


def test_each_kernel_comes_before_the_second_launch_of_one(tmp_path):
    names = ["a1_add_0", "a1_add_1", "b2_add_0", "c3_add_sums_0", "d4_mul_0", "d4_mul_1"]
    for name in names:
        (tmp_path / f"{name}.launch").touch()

    def found(match, count):
        return [path.stem for path in chosen(tmp_path, match, count)]

    assert found("", 3) == ["a1_add_0", "c3_add_sums_0", "d4_mul_0"]
    assert found("", 5) == ["a1_add_0", "a1_add_1", "c3_add_sums_0", "d4_mul_0", "d4_mul_1"]
    assert found("", None) == names
    assert found("mul", None) == ["d4_mul_0", "d4_mul_1"]


def test_costs(run):
    counted = {}
    for stride in (1, 2, 32):
        costs = counted[stride] = Costs()
        data = np.zeros(32 * stride, np.int32)
        run("strided", 32, 32, np.zeros(32, np.int32), data, np.int32(stride), costs=costs)
    # A store of 128 bytes, and a load: 4 sectors when they are adjacent, 32 at most.
    assert [costs.counts["sectors"] for costs in counted.values()] == [8, 12, 36]
    # A write and a read of local memory: the banks serve 1, 2 and 32 words of them in turn.
    assert [costs.counts["turns"] for costs in counted.values()] == [2, 4, 64]


PTX = """
.entry copies(.param .u64 .ptr .global .align 4 out)
{
    .reg .b32 %r<4>; .reg .b64 %rd<4>; .reg .pred %p<2>;
    mov.u32 %r1, %tid.x;
    setp.lt.u32 %p1, %r1, COUNT;
    @%p1 mov.u32 %r2, 7;
    ld.param.u64 %rd1, [out];
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd3, %rd1, %rd2;
    st.global.u32 [%rd3], %r2;
    ret;
}
"""


def run_ptx(text):
    kernel = Module(text).kernels["copies"]
    sizes = [(32, 32, 0), (1, 1, 0), (1, 1, 0)]
    launch = types.SimpleNamespace(sizes=sizes, arguments=[Argument("buffer", buffer=0)])
    launch.before = [np.zeros(128, np.uint8)]
    return execute(launch, kernel)[0][0].bytes().view(np.int32)


def test_a_register_that_nobody_wrote():
    assert (run_ptx(PTX.replace("COUNT", "32")) == 7).all()
    with pytest.raises(Fault, match=r"uninitialised value .* by work-item 20 of group 0"):
        run_ptx(PTX.replace("COUNT", "20"))


def test_a_half_of_a_register_that_nobody_wrote():
    """clang packs such a half with another one, and unpacks that one only."""

    def run(part):
        text = PTX.replace("COUNT", "32").replace(
            "st.global",
            "mov.b32 {%h1, %h3}, %r2; mov.b32 %r3, {%h1, %h2}; mov.b32 {%h4, %h5}, %r3; "
            f"cvt.u32.u16 %r2, {part}; st.global",
        )
        return run_ptx(text.replace(".reg .b64", ".reg .b16 %h<6>; .reg .b64"))

    assert (run("%h4") == 7).all()
    with pytest.raises(Fault, match="uninitialised value"):
        run("%h5")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A product by sm_80's unit, recorded in emulation."""
    skip_without_the_stern_device()  # both layers need the same loader
    folder = tmp_path_factory.mktemp("launches")
    code = """
        import torch
        a, b = (torch.randn(21, 21).to(torch.float16).to("ocl") for _ in range(2))
        print((a @ b).sum().isfinite().item())
    """
    command = [sys.executable, ROOT / "tools/with_runtime.py", "pocl", sys.executable, "-c"]
    variables = {"OPENCL_LAYERS": ROOT / "build/libisa_recorder.so", "ISA_RECORD": folder}
    variables |= {"OCL_CACHE_DIR": "off", "OCL_MEMORY_CACHING": "0"}
    variables |= {"OCL_KERNEL_FAMILY": "gpu", "OCL_MATRIX_UNITS": "emulate"}
    environment = {**os.environ, **{name: str(value) for name, value in variables.items()}}
    done = subprocess.run([*command, textwrap.dedent(code)], env=environment, capture_output=True)
    assert done.returncode == 0 and done.stdout == b"True\n", done.stderr
    return Launch(next(folder.glob("*_gemm_unit_0.launch")))


@pytest.mark.parametrize(
    ("wanted", "found", "result", "text"),
    [
        ("", "", "right", ""),
        (
            "unit_b_column(lane, i) ((lane) / 4)",
            "unit_b_column(lane, i) ((lane) / 4 ^ 1)",
            "wrong",
            "f16",
        ),
        (
            "if (HAS_B_QUAD(i)) PUT_B(b_tile, TN, QUAD(i), b_next[i]);\n    }\n"
            "    barrier(CLK_LOCAL_MEM_FENCE);",
            "if (HAS_B_QUAD(i)) PUT_B(b_tile, TN, QUAD(i), b_next[i]);\n    }",
            "race",
            "local memory",
        ),
        ("const int last = rows - 1;", "const int last = rows;", "fault", "out of bounds"),
    ],
    ids=["as it is", "a wrong fragment", "a missing barrier", "a row too many"],
)
def test_a_recorded_product(programs, recorded, wanted, found, result, text):
    source = recorded.source.read_text()
    assert not wanted or source.count(wanted) == 1
    altered = source.replace(wanted, found) if wanted else source
    for order in ("together", "random"):
        outcome = check(recorded, programs, "sm_80", source=altered, order=order)
        assert outcome[0] == result and text in outcome[1], outcome
