"""Features that only the generated kernels of GPUs have: each in a fresh process."""

import re

import pytest
import torch
from stern import stern_output_of
from support import output_of, run_python, skip_without_buffers_of

from torch_ocl.inductor import tuning

pytestmark = pytest.mark.usefixtures("fresh_compiler")


WIDE = """
    import torch
    from torch._inductor.utils import get_code

    def function(x):
        return x + 1

    for extra in (-1, 0):  # more than an int can count; nothing runs
        x = torch.empty(2**31 + extra, dtype=torch.uint8, device="ocl")
        lines = "".join(get_code(torch.compile(function, dynamic=False), x)).splitlines()
        print(*{line.split()[2] for line in lines if "#define INDEX" in line})
"""


@pytest.mark.parametrize("family, types", [("cpu", "long long"), ("gpu", "int long")])
def test_gpus_get_short_indices_where_they_suffice(device, family, types):
    skip_without_buffers_of(2**31, device)
    assert output_of(WIDE, OCL_KERNEL_FAMILY=family).split() == types.split()


LARGE = """
    import torch

    def function(x, n):
        return torch.arange(8, device=x.device) * 1000000000 + x, x * 3000000000, x + n, x - n // 7

    x = torch.arange(8)
    compiled = torch.compile(function, fullgraph=True, dynamic=True)
    for n in (2**40 + 3, -(2**40)):
        for actual, expected in zip(compiled(x.to("ocl"), n), function(x, n)):
            print(torch.equal(actual.cpu(), expected), end=" ")
"""


def test_values_computed_from_indices_are_long(device):
    assert output_of(LARGE, OCL_KERNEL_FAMILY="gpu").split() == ["True"] * 8


TUNED = """
    import logging, os, torch
    import torch.nn.functional as F
    from torch._inductor.utils import run_and_get_code

    logging.basicConfig(format="%(message)s")
    logging.getLogger("torch._inductor.ocl").setLevel(logging.INFO)

    def function(x, w):
        return F.softmax(x * w, -1).transpose(0, 1) + 1

    def step(x):
        x.add_(1)

    torch.manual_seed(3)
    x, w = torch.randn(9, 500, device="ocl"), torch.randn(500, device="ocl")
    run = torch.compile(function, mode="max-autotune-no-cudagraphs")
    actual, (program,) = run_and_get_code(run, x, w)
    torch.testing.assert_close(actual, function(x, w))
    torch.testing.assert_close(run(x, w), function(x, w))
    torch.compile(step, mode="max-autotune-no-cudagraphs")(w)
    torch.testing.assert_close(function(x, w - 1), actual)
    print(program.count("= MeasuredKernel("))
"""


@pytest.mark.parametrize("family, measured", [("cpu", 0), ("gpu", 1)])
def test_work_groups_of_gpus_are_measured_once(device, tmp_path, family, measured):
    if torch.ocl.get_device_properties(device).max_work_group_size < 256:
        pytest.skip("the device has fewer than the three sizes of groups")
    variables = {
        "TORCHINDUCTOR_CACHE_DIR": str(tmp_path),
        "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "0",
        "OCL_KERNEL_FAMILY": family,
    }
    for first in (True, False):
        result = run_python(TUNED, **variables)
        assert result.returncode == 0, result.stderr
        assert int(result.stdout) == measured
        lines = re.findall(r"(\w+): seconds by .* \{64: .*, 128: .*, 256: .*\}", result.stderr)
        assert len(set(lines)) == len(lines) == (2 * measured if first else 0)


@pytest.mark.parametrize("content", ["", "0", "1000000", "96", "-64", "x", "\xff", "64 64"])
def test_damaged_size_is_measured_again(device, tmp_path, monkeypatch, content):
    """Other sizes than the measured ones cannot be launched, or give wrong results."""
    kernel = object.__new__(tuning.MeasuredKernel)
    kernel._name, kernel._source = "k", "source"
    file = tmp_path / "k"
    monkeypatch.setattr(tuning, "source_file", lambda name, source: file)
    monkeypatch.setattr(kernel, "_measure", lambda index, sizes, args: {sizes[-1]: 1.0})
    index = torch.device(device).index
    best = kernel._size(index, ())
    [stored] = tmp_path.iterdir()
    assert stored.read_text() == str(best)
    stored.write_bytes(content.encode("latin1"))
    assert kernel._size(index, ()) == best and stored.read_text() == str(best)


def test_size_that_cannot_be_stored_is_used(device, tmp_path, monkeypatch):
    kernel = object.__new__(tuning.MeasuredKernel)
    kernel._name, kernel._source = "k", "source"
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(tuning, "source_file", lambda name, source: tmp_path / "file" / "k")
    monkeypatch.setattr(kernel, "_measure", lambda index, sizes, args: {sizes[-1]: 1.0})
    assert kernel._size(torch.device(device).index, ()) in tuning._SIZES


GAPS = """
    import torch
    from torch_ocl.inductor import tuning

    class Kernel:
        def __init__(self, *args):
            self.kernel = generated_kernel(*args)

        def __call__(self, read, written, *numbers):
            print(*written.stride(), written.untyped_storage().nbytes())
            self.kernel(read, written, *numbers)

    generated_kernel, tuning.generated_kernel = tuning.generated_kernel, Kernel

    def step(x):
        x.add_(1)

    wide = torch.zeros(7, 900, device="ocl")
    torch.compile(step, mode="max-autotune-no-cudagraphs")(wide[:, ::3])
    expected = torch.zeros(7, 900)
    expected[:, ::3] = 1
    assert torch.equal(wide.cpu(), expected)
"""


def test_measuring_writes_a_copy_with_the_same_gaps(device):
    *measured, real = output_of(GAPS, OCL_KERNEL_FAMILY="gpu").splitlines()
    assert real == f"900 3 {4 * 7 * 900}"
    assert set(measured) == {f"900 3 {4 * (6 * 900 + 299 * 3 + 1)}"}


SUMS = """
    import torch
    from torch._inductor.utils import run_and_get_code

    def function(x, rows, v):
        put = x.index_put((rows,), torch.relu(v), accumulate=True)
        added = x.index_add(0, rows, v * 2), x.scatter_add(0, rows[:, None].expand(30, 37), v)
        gradient = torch.ops.aten.embedding_dense_backward(v * 3, rows, 9, -1, False)
        return put, *added, x.int().index_add(0, rows, v.int()), gradient

    torch.manual_seed(3)
    x, v = torch.randn(9, 37, device="ocl") * 10, torch.randn(30, 37, device="ocl") * 10
    rows = torch.randint(9, (30,), device="ocl")
    for deterministic in (False, True):
        torch.use_deterministic_algorithms(deterministic)
        torch._dynamo.reset()
        expected = function(x, rows, v)
        actual, programs = run_and_get_code(torch.compile(function), x, rows, v)
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-4)
        program = "".join(programs)
        print(program.count("add_atomically("), program.count("add_integer("), end=" ")
"""


@pytest.mark.parametrize("family, counts", [("cpu", "0 0 0 0"), ("gpu", "4 1 0 0")])
def test_sums_into_a_tensor_are_fused_on_gpus(device, family, counts):
    assert output_of(SUMS, OCL_KERNEL_FAMILY=family) == counts


NEGATIVE = """
    import torch

    def add(x, rows, v):
        return x.index_add(0, rows, v)

    x, v = torch.zeros(5, 3, device="ocl"), torch.ones(2, 3, device="ocl")
    sums = torch.compile(add)(x[:, 0], torch.tensor([3, 3]).to("ocl"), v[0, :2])
    assert sums.tolist() == [0, 0, 0, 2, 0]
    for rows in (torch.tensor([4, -1]), torch.tensor([-5, 0]).int(), torch.tensor([5, 0])):
        for function in (add, torch.compile(add)):
            try:
                function(x, rows.to("ocl"), v).cpu()
            except IndexError:
                print("refused", end=" ")
"""


def test_indices_of_sums_are_checked_on_gpus(device):
    """PyTorch decomposes index_add into index_put, which takes negative indices."""
    assert output_of(NEGATIVE, OCL_KERNEL_FAMILY="gpu") == " ".join(["refused"] * 6)


CACHED = """
    import torch
    from torch._dynamo.utils import counters

    torch.compile(lambda x: x.sin() + 1)(torch.ones(100, device="ocl"))
    print(counters["inductor"]["fxgraph_cache_hit"] > 0)
"""


def test_cached_programs_are_of_the_device(device, tmp_path):
    variables = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    variables["TORCHINDUCTOR_FORCE_DISABLE_CACHES"] = None
    hits = [
        output_of(CACHED, OCL_KERNEL_FAMILY=family, **variables)
        for family in ("cpu", "cpu", "gpu", "gpu")
    ]
    assert hits == ["False", "True"] * 2


REPLACED = """
    import torch
    from torch._inductor.utils import run_and_get_code

    def function(x, running):
        running.mul_(x.mean(1))
        return x * running[:, None]

    x, running = torch.randn(30, 300), torch.rand(30)
    moved = x.to("ocl"), running.to("ocl")
    actual, (program,) = run_and_get_code(torch.compile(function), *moved)
    torch.testing.assert_close(actual.cpu(), function(x, running))
    torch.testing.assert_close(moved[1].cpu(), running)
    lines = [line.strip() for line in program.splitlines()]
    print(lines[lines.index("if (item == 0) {") - 1], program.count(" SHARED_BUFFER("))
"""


def test_a_group_reads_what_its_first_item_replaces(device):
    printed = output_of(REPLACED, OCL_KERNEL_FAMILY="gpu")
    assert printed == "barrier(CLK_GLOBAL_MEM_FENCE); 2"


ROWS = """
    import re, torch
    from torch._inductor.utils import run_and_get_code

    def function(x):
        y = x.softmax(1)
        found = [(x * 3 - y).argmax(1), y.amax(1), (y + x).sum(1), x.mean(1)]
        return torch.var_mean(y * 2 + x, 1), found

    x = torch.randn(30, 300)
    actual, (program,) = run_and_get_code(torch.compile(function), x.to("ocl"))
    actual, expected = (torch.utils._pytree.tree_leaves(r) for r in (actual, function(x)))
    torch.testing.assert_close([t.cpu() for t in actual], expected, rtol=1e-4, atol=1e-4)
    arrays = re.findall(r"__local (\\w+) \\w+\\[LOCAL_SIZE\\]", program)
    kernels = program.count("if (group_id(0) >= units) return;")
    print(kernels, sorted(arrays), program.count("CLK_GLOBAL_MEM_FENCE"))
"""


def test_the_reductions_of_a_group_share_local_memory(device):
    """And it does not wait for stores that nothing reads."""
    printed = output_of(ROWS, OCL_KERNEL_FAMILY="gpu")
    assert printed == "1 ['float', 'long'] 0"


MANY = """
    import torch
    from torch._inductor.utils import run_and_get_code

    def function(*tensors):
        return sum(x * n for n, x in enumerate(tensors)), [x + 1 for x in tensors]

    for dynamic in (False, True):
        tensors = [torch.randn(33) for _ in range(90)]
        moved = [x.to("ocl") for x in tensors]
        actual, (program,) = run_and_get_code(torch.compile(function, dynamic=dynamic), *moved)
        expected = function(*tensors)
        torch.testing.assert_close(actual[0].cpu(), expected[0], rtol=1e-4, atol=1e-4)
        for a, b in zip(actual[1], expected[1]):
            assert torch.equal(a.cpu(), b)
        kernels = program.split("__kernel void")[1:]
        counts = [kernel.split(") {")[0].count("BUFFER(") for kernel in kernels]
        assert 40 < max(counts) <= 62, counts
"""


def test_the_arguments_of_a_kernel_fit():
    """OpenCL guarantees 1024 bytes, and a buffer needs 16."""
    stern_output_of("smallest", MANY)


COLUMNS = """
    import torch
    from torch._inductor.utils import run_and_get_code

    def function(x):
        return (x * 2).argmax(0), (x * 3).amax(0)

    for rows in (100, 50000):
        x = torch.randn(rows, 5)
        actual, (program,) = run_and_get_code(torch.compile(function, dynamic=False), x.to("ocl"))
        torch.testing.assert_close([t.cpu() for t in actual], list(function(x)))
        print("if (group_id(0) >= units) return;" in program, end=" ")
"""


@pytest.mark.parametrize("family, groups", [("cpu", "False False"), ("gpu", "False True")])
def test_long_columns_get_work_groups_of_gpus(device, family, groups):
    assert output_of(COLUMNS, OCL_KERNEL_FAMILY=family) == groups
