"""Launches stay short on a GPU where many work-items meet at one element, or one could walk far.

Systems reset a GPU that works on a launch for seconds.
"""

import json

import pytest
from stern import changed_profile, stern_output_of
from support import has_fp64, output_of, skip_in_a_simulator, skip_on_the_stern_device

LAUNCHES = """
    import collections, json, torch
    from torch.profiler import ProfilerActivity, profile
    def launches(call):
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]) as prof:
            call()
            torch.ocl.synchronize()
        names = collections.Counter(event.name for event in prof.events())
        return {name: count for name, count in names.items() if "::" not in name}
"""


# The float32 numbers are whole, so that their sums do not depend on the order.
CROWD = """
    torch.manual_seed(0)
    n = 110_000  # more writes than are exchanged on a few elements
    index = torch.where(torch.rand(n) < 0.98, 3, torch.randint(7, (n,)))
    signs = torch.randint(2, (n,)) * 2 - 1
    nans = signs.float()
    nans[index == 5] = float("nan")
    rare = torch.randint(-(2**62), 2**62, (n,))
    def results(device):
        to = lambda *tensors: [t.to(device) for t in tensors]
        i, s, f, r = to(index, signs, nans, rare)
        yield torch.bincount(i, minlength=9)
        yield torch.bincount(i, s.float())
        yield torch.histc(i.float(), 7)
        start = torch.arange(7, device=device)
        for kind in (torch.int32, torch.int64, torch.uint8, torch.float32, torch.float16):
            yield start.to(kind).index_add(0, i, s.to(kind))
        yield start.to(torch.float32).put(i, s.float(), accumulate=True)
        yield start.to(torch.int32).put(i, s.int(), accumulate=True)
        yield start.to(torch.complex64).index_add(0, i, s.to(torch.complex64))
        for kind in (torch.int32, torch.int64):
            for reduce in ("amax", "amin"):
                values = r.to(kind)
                yield start.to(kind).scatter_reduce(0, i, values, reduce)
                yield start.to(kind).scatter_reduce(0, i, values, reduce, include_self=False)
        for reduce in ("amax", "amin", "mean", "sum", "prod"):
            for include_self in (True, False):
                yield start.float().scatter_reduce(0, i, f, reduce, include_self=include_self)
        rows = torch.stack([s, 2 * s, 3 - s], 1).float()
        yield torch.ones(7, 3, device=device).index_add(0, i, rows)
    for k, (actual, expected) in enumerate(zip(results("ocl"), results("cpu"), strict=True)):
        torch.testing.assert_close(
            actual.cpu(), expected, rtol=0, atol=0, equal_nan=True, msg=lambda m: f"{k}: {m}")
"""


@pytest.mark.parametrize("family", ["cpu", "gpu"])
def test_many_values_for_an_element(device, family):
    skip_in_a_simulator()
    output_of(LAUNCHES + CROWD, OCL_KERNEL_FAMILY=family)


CROWD_LAUNCHES = """
    n = 150_000
    few, many = torch.zeros(n, dtype=torch.int64).to("ocl"), torch.arange(n).to("ocl")
    ones = torch.ones(n).to("ocl")
    int_sums, sums = torch.zeros(n, dtype=torch.int32).to("ocl"), torch.zeros(n).to("ocl")
    short, rows = torch.zeros(9).to("ocl"), torch.zeros(n, 17).to("ocl")
    products = torch.ones(n).to("ocl")
    print(json.dumps([
        launches(lambda: int_sums.index_add_(0, few, ones.int())),
        launches(lambda: sums.index_add_(0, many, ones)),
        launches(lambda: sums.index_add_(0, few, ones)),
        launches(lambda: products.scatter_reduce_(0, many, ones, "prod")),
        launches(lambda: rows.index_add_(0, many, ones.unsqueeze(1).expand(-1, 17))),
        launches(lambda: short.index_add_(0, few, ones)),
    ]))
    assert int_sums[0] == n and sums[0] == n + 1 and (sums[1:] == 1).all() and short[0] == n
    assert (products == 1).all() and (rows == 1).all()
"""


def test_launches_for_an_element(device):
    skip_in_a_simulator()
    printed = output_of(LAUNCHES + CROWD_LAUNCHES, OCL_KERNEL_FAMILY="gpu")
    integers, floats, few, products, rows, crowd = json.loads(printed)
    assert integers["index_add_i32"] == 1  # the device's own addition
    assert floats["index_add_f32"] == few["index_add_f32"] == 1  # a group joins its values first
    assert products["scatter_reduce_f32"] == 3  # at most 65536 exchanges
    assert rows["index_add_rows_f32"] == 3
    assert "index_add_f32" not in crowd and crowd["index_blocks"] == 1


SAMPLES = """
    import torch.nn.functional as F
    torch.manual_seed(0)
    # Most points are left of the image, on the pixels of its edge.
    grid = torch.rand(2, 200, 150, 2) * 9 - torch.tensor([8.5, 1.2])
    image = torch.randn(2, 3, 8, 9)
    def gradient(device):
        x, points = image.clone().to(device).requires_grad_(), grid.to(device)
        y = F.grid_sample(x, points, padding_mode="border", align_corners=True)
        (y * torch.linspace(-1, 1, y.numel(), device=device).view(y.shape)).sum().backward()
        return x.grad.cpu()
    torch.testing.assert_close(gradient("ocl"), gradient("cpu"), rtol=2e-3, atol=2e-2)
    print(json.dumps(launches(lambda: gradient("ocl"))))
"""


def test_samples_at_an_edge(device):
    skip_in_a_simulator()
    printed = output_of(LAUNCHES + SAMPLES, OCL_KERNEL_FAMILY="gpu")
    # 2 images of 30000 points, each with 4 additions; at most 65536 in a launch.
    assert json.loads(printed)["grid_sample_input_atomic"] == 4


POOLS = """
    import torch.nn.functional as F
    torch.manual_seed(0)
    line, image = torch.randn(2, 3, 21_001), torch.randn(2, 3, 150, 130)
    volume = torch.randn(2, 2, 31, 34, 37)
    for x in (line, image, volume):
        x[0, 0].view(-1)[[17, 9000, 12_345]] = float("nan")  # the last one's index
        x[1, 0] = -float("inf")
        x[1, 1] = x[1, 1].round()  # the first of equal maxima
    double = [x.double() for x in (line, image, volume)] if DOUBLE else []
    last = image.contiguous(memory_format=torch.channels_last)
    halves = [x.half() for x in (line, image, volume)]
    pools = {
        3: [F.adaptive_max_pool1d, F.adaptive_avg_pool1d, F.max_pool1d, F.avg_pool1d],
        4: [F.adaptive_max_pool2d, F.adaptive_avg_pool2d, F.max_pool2d, F.avg_pool2d],
        5: [F.adaptive_max_pool3d, F.adaptive_avg_pool3d, F.max_pool3d, F.avg_pool3d],
    }
    kernels = {3: 9000, 4: (100, 77), 5: (21, 20, 19)}
    def both(function, x, **options):
        results = []
        for device in ("ocl", "cpu"):  # the CPU adds gradients of 16 bits in 16 bits
            kind = x.dtype if device == "ocl" else torch.promote_types(x.dtype, torch.float32)
            leaf = x.clone().to(device, kind)
            leaf.requires_grad_()
            y = function(leaf, **options)
            y, *index = y if isinstance(y, tuple) else (y,)
            y.float().sum().backward()
            results.append([y.detach().cpu(), *(i.cpu() for i in index), leaf.grad.cpu()])
        tolerance = 3e-3 if x.dtype == torch.float16 else 1e-5
        for actual, expected in zip(*results, strict=True):
            torch.testing.assert_close(
                actual.to(expected.dtype), expected, rtol=tolerance, atol=tolerance,
                equal_nan=True, msg=lambda m: f"{function} {options} {m}")
    for x in (line, image, volume, last, *halves, *double):
        adaptive_max, adaptive_avg, fixed_max, fixed_avg = pools[x.dim()]
        kernel = kernels[x.dim()]
        for size in (1, 2):
            both(adaptive_max, x, output_size=size, return_indices=True)
            both(adaptive_avg, x, output_size=size)
        both(fixed_max, x, kernel_size=kernel, stride=13, padding=7, return_indices=True)
        if x.dim() == 3:
            both(fixed_max, x, kernel_size=6000, stride=50, dilation=3, return_indices=True)
        both(fixed_avg, x, kernel_size=kernel, stride=13, padding=7)
        both(fixed_avg, x, kernel_size=kernel, count_include_pad=False, padding=3, ceil_mode=True)
    samples = torch.rand(2, 3, 2)
    x = image.nan_to_num(0)
    actual, expected = (
        F.fractional_max_pool2d(x.to(device), (100, 90), 2, return_indices=True,
                                _random_samples=samples.to(device)) for device in ("ocl", "cpu"))
    assert all((a.cpu() == b).all() for a, b in zip(actual, expected))
    line, image, volume = line.to("ocl"), last.to("ocl"), volume.to("ocl")
    print(json.dumps(launches(lambda: (
        F.adaptive_max_pool3d(volume, 1), F.avg_pool1d(line, 9000),
        F.max_pool2d(image, 3)))))
"""


GROUPS = """
    torch.manual_seed(0)
    def check(function, *tensors):
        actual = function(*(t.to("ocl") for t in tensors)).cpu()
        expected = function(*tensors)
        torch.testing.assert_close(actual, expected, rtol=0, atol=0, equal_nan=True)
    kinds = [torch.float32, torch.float16, torch.bfloat16, torch.uint8, torch.int16, torch.bool]
    for kind in kinds + [torch.complex64] + ([torch.float64] if DOUBLE else []):
        for shape in [(1,), (63,), (129,), (70, 3), (3, 70), (65, 2, 5)]:
            for targets in (1, 2, shape[0]):
                index = torch.randint(min(targets, *shape), shape)
                row, one = index.flatten()[:shape[0]], index.flatten()[:shape[-1]]
                x, values = (torch.randint(2, shape).to(kind) for _ in range(2))
                check(lambda x, v, i: x.scatter_add(0, i, v), x, values, index)
                check(lambda x, v, i: x.scatter_add(-1, i, v), x, values, index)
                if x.dim() > 1:
                    check(lambda x, v, i: x.mT.scatter_add(0, i.mT, v.mT), x, values, index)
                check(lambda x, v, i: x.index_add(0, i, v), x, values, row)
                check(lambda x, v, i: x.index_add(-1, i, v), x, values, one)
                if kind.is_complex or kind == torch.bool:
                    continue
                for reduce in ("amax", "amin", "prod"):
                    check(lambda x, v, i: x.scatter_reduce(0, i, v, reduce), x, values, index)
    # 0 times values whose own product overflows is 0.
    index, large = torch.zeros(9, dtype=torch.int64), torch.full((9,), 1e30)
    check(lambda x, v, i: x.scatter_reduce(0, i, v, "prod"), torch.zeros(2), large, index)
    large[4] = float("nan")
    for reduce in ("sum", "amax", "amin"):
        check(lambda x, v, i: x.scatter_reduce(0, i, v, reduce), torch.zeros(2), large, index)
    check(lambda x, i: x.scatter_add(0, i, x), torch.zeros(0), torch.zeros(0, dtype=torch.int64))
"""


def test_values_of_a_group_for_an_element(device):
    """Several work-items of a group meet at an element; others of the group do not."""
    double = f"    DOUBLE = {has_fp64(device)}\n"
    output_of("    import torch\n" + double + GROUPS, OCL_KERNEL_FAMILY="gpu")


@pytest.mark.parametrize("family", ["cpu", "gpu"])
def test_long_windows(device, family):
    skip_in_a_simulator()
    if family == "cpu":
        skip_on_the_stern_device("GPUs have less local memory than the CPU family needs")
    double = f"    DOUBLE = {has_fp64(device)}\n"
    ran = json.loads(output_of(double + LAUNCHES + POOLS, OCL_KERNEL_FAMILY=family))
    parts = {"max_pool3d_parts", "max_pool3d_join", "avg_pool3d_parts", "avg_pool3d_join"}
    assert parts & ran.keys() == (parts if family == "gpu" else set()), ran
    assert "max_pool" in ran


def test_transposes_in_groups_of_two(tmp_path):
    """If no tile is possible, elements are copied one by one."""
    sizes = {"DEVICE_MAX_WORK_GROUP_SIZE": 2, "DEVICE_MAX_WORK_ITEM_SIZES": "2 2 2"}
    profile = changed_profile(tmp_path, "smallest", **sizes)
    code = """
        import torch
        x = torch.arange(35 * 50).view(35, 50).float()
        assert (x.to("ocl").t().contiguous().cpu() == x.t()).all()
    """
    stern_output_of(profile, code)


ROWS = """
    torch.manual_seed(0)
    batch = torch.zeros(3, 9, 11)
    batch.view(3, -1)[:, [0, 1, 40, 41, 98]] = torch.rand(3, 5)
    for kind in (torch.int32, torch.int64):
        rows = 300_000  # a few rows have entries
        for numbers in ([5, 5, 5, 270_000], [0, rows - 1], [rows - 1] * 9, [17]):
            numbers = torch.tensor(numbers, dtype=kind)
            for narrow in (False, True):
                offsets = [torch._convert_indices_from_coo_to_csr(x, rows, out_int32=narrow).cpu()
                           for x in (numbers.to("ocl"), numbers)]
                assert (offsets[0] == offsets[1]).all()
                columns = torch.zeros_like(numbers, dtype=offsets[1].dtype)
                for transpose in (False, True):
                    back = [torch._convert_indices_from_csr_to_coo(
                        offsets[1].to(d), columns.to(d), out_int32=narrow, transpose=transpose
                    ).cpu() for d in ("ocl", "cpu")]
                    assert (back[0] == back[1]).all()
    compressed = batch.to_sparse_csr()
    back = [torch._convert_indices_from_csr_to_coo(
        compressed.crow_indices().to(d), compressed.col_indices().to(d)).cpu()
        for d in ("ocl", "cpu")]
    assert (back[0] == back[1]).all()
"""
ROW_LAUNCHES = """
    numbers = torch.tensor([5, 70_000]).to("ocl")
    offsets = torch._convert_indices_from_coo_to_csr(numbers, 100_000)
    long = torch.zeros(30_000, dtype=torch.int64).to("ocl")
    ends = torch.tensor([0, 30_000]).to("ocl")
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]) as prof:
        torch._convert_indices_from_coo_to_csr(numbers, 100_000)
        torch._convert_indices_from_csr_to_coo(ends, long)
        torch.ocl.synchronize()
    prof.export_chrome_trace(TRACE)
"""


@pytest.mark.parametrize("family", ["cpu", "gpu"])
def test_rows_without_entries(device, family):
    skip_in_a_simulator()
    output_of(LAUNCHES + ROWS, OCL_KERNEL_FAMILY=family)


def test_items_for_rows(device, tmp_path):
    """A work-item for each row that gets an offset, and for each entry that gets a row."""
    trace = tmp_path / "trace.json"
    output_of(f"    TRACE = {str(trace)!r}\n{LAUNCHES}{ROW_LAUNCHES}", OCL_KERNEL_FAMILY="gpu")
    events = [e for e in json.loads(trace.read_text())["traceEvents"] if e.get("cat") == "kernel"]
    items = {e["name"]: e["args"]["grid"][1] * e["args"]["block"][1] for e in events}
    assert items["row_offsets"] > 100_000 and items["row_numbers"] >= 30_000
