"""No work-item of a GPU works through millions of elements alone.

Systems reset a GPU that works on a launch for seconds.
"""

import json

import pytest
from stern import stern_output_of
from support import output_of, skip_in_a_simulator

SEGMENTS = """
    import itertools, torch
    def segments(device, reduce, initial, offsets, x, as_lengths):
        x = x.to(device).requires_grad_()
        offsets = offsets.to(device)
        given = {"lengths": offsets.diff()} if as_lengths else {"offsets": offsets}
        y = torch.segment_reduce(x, reduce, **given, unsafe=True, initial=initial)
        weights = torch.linspace(-1, 2, y.numel(), device=device).view(y.shape)
        y.backward(weights)
        return y.detach().cpu(), x.grad.cpu()
    torch.manual_seed(0)
    offsets = torch.tensor([0, 3, 703, 703, 2000, 2513, 2514])
    signs = torch.randint(2, (2514, 19)) * 2.0 - 1
    signs[torch.randint(2514, (30,)), torch.randint(19, (30,))] *= 1.5
    signs[5, 0] = signs[900, 0] = signs[901, 0] = signs[1900, 1] = 0  # one zero, and two
    signs[2100, 2] = -0.0
    zeros = torch.full((2514, 19), 2.0)
    zeros[0] = zeros[3] = zeros[704] = zeros[705] = 0  # the products after these overflow
    nans = signs.clone()
    nans[7, 3] = nans[1000, 0] = nans[2200, 4] = nans[2201, 4] = float("nan")
    for data, columns, reduce, initial in itertools.product(
        (torch.randn(2514, 19), torch.randn(2514, 19).round(), signs, nans, zeros),
        (1, 3, 19), ("sum", "mean", "max", "min", "prod"), (None, 2),
    ):
        if reduce == "prod" and all(data is not each for each in (signs, nans, zeros)):
            continue
        x = data[:, :columns].contiguous()
        if columns == 1:
            x = x[:, 0].contiguous()
        pairs = list(zip(*(segments(d, reduce, initial, offsets, x, columns == 3)
                           for d in ("ocl", "cpu"))))
        if data is zeros:  # Intel's compiler multiplies in another order for the gradient
            del pairs[1:]
        for a, b in pairs:
            torch.testing.assert_close(a, b, rtol=1e-4, atol=2e-4, equal_nan=True)
"""
BAGS = """
    import itertools, torch, torch.nn.functional as F
    def bags(device, mode, padding, weights, last, rows, index, offsets):
        rows = rows.to(device).requires_grad_()
        y = F.embedding_bag(
            index.to(device), rows, offsets.to(device) if last else offsets[:-1].to(device),
            mode=mode, padding_idx=padding, include_last_offset=last,
            per_sample_weights=weights.to(device) if mode == "sum" else None)
        y.backward(torch.linspace(-1, 2, y.numel(), device=device).view(y.shape))
        return y.detach().cpu(), rows.grad.cpu()
    torch.manual_seed(0)
    index, weights = torch.randint(40, (2500,)), torch.rand(2500)
    offsets = torch.tensor([0, 4, 704, 704, 2490, 2500])
    index[3], index[4] = 7, 39
    rounded = torch.randn(40, 21).round()  # with equal maxima
    nans = torch.randn(40, 21)
    nans[7, 0] = nans[11, 2] = nans[39, 3] = float("nan")  # 39 is the first of a long bag
    for rows, columns, mode, padding, last, kind in itertools.product(
        (torch.randn(40, 21), rounded, nans), (1, 5, 21), ("sum", "mean", "max"), (None, 3, 39),
        (False, True), (torch.int64, torch.int32),
    ):
        table = rows[:, :columns].contiguous()
        for a, b in zip(*(bags(d, mode, padding, weights, last, table, index.to(kind),
                               offsets.to(kind)) for d in ("ocl", "cpu"))):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=3e-4, equal_nan=True)
    for wrong in (40, -1):
        index[2000] = wrong
        try:
            bags("ocl", "sum", None, weights, False, rounded, index, offsets)
            raise AssertionError("no error")
        except RuntimeError as error:
            assert "Expected idx" in str(error), error
"""
SPARSE = """
    import torch
    torch.manual_seed(0)
    dense = torch.randn(5, 1500) * (torch.rand(5, 1500) < torch.tensor([[1, 0, 0.01, 0.8, 0.3]]).T)
    for columns in (1, 6, 37):
        other = torch.randn(1500, columns)
        for layout in (torch.sparse_coo, torch.sparse_csr):
            actual = dense.to("ocl").to_sparse(layout=layout) @ other.to("ocl")
            torch.testing.assert_close(actual.cpu(), dense @ other, rtol=1e-4, atol=3e-4)
"""
# Work-groups examine 256 sequences at a time, each 1024th. Some groups find several long ones, or
# find them later.
MANY = """
    import torch, torch.nn.functional as F
    torch.manual_seed(0)
    lengths = torch.randint(3, (300_000,))
    lengths[[0, 1024, 2048, 1500, 262_144, 299_999]] = torch.tensor([600, 513, 5000, 512, 900, 700])
    offsets = F.pad(lengths.cumsum(0), (1, 0))
    table, index = torch.randn(50, 3), torch.randint(50, (int(offsets[-1]),))
    data = torch.randn(index.numel(), 3)
    def results(device):
        to = lambda *tensors: [t.to(device) for t in tensors]
        i, t, o, x = to(index, table, offsets, data)
        yield F.embedding_bag(i, t, o, mode="sum", include_last_offset=True)
        yield F.embedding_bag(i, t, o, mode="max", include_last_offset=True)
        x.requires_grad_()
        y = torch.segment_reduce(x, "max", offsets=o, initial=-9)
        yield y.detach()
        yield torch.autograd.grad(y.sum(), x)[0]
        rows = torch.sparse_csr_tensor(o, i, x.detach()[:, 0].contiguous(), (300_000, 50))
        yield rows @ t
    for actual, expected in zip(results("ocl"), results("cpu"), strict=True):
        torch.testing.assert_close(actual.cpu(), expected, rtol=1e-4, atol=3e-4)
"""
VARIANCES = """
    import torch
    torch.manual_seed(0)
    rows = torch.randn(7, 20000, dtype=torch.float64)
    rows[0] *= 1e-25
    rows[1] *= 1e25
    rows[2] = 1e25 + 1e24 * rows[2]
    rows[5] = 1e-30
    x = rows.float()
    x[3, 15000], x[4, 19999] = float("inf"), float("nan")
    for dim, data in ((1, x), (0, x.t().contiguous())):
        for correction in (0, 1):
            expected = torch.var_mean(data.double(), dim, correction=correction)
            for function, wanted in (
                (torch.var, expected[0]), (torch.std, expected[0].sqrt()),
                (lambda *a, **b: torch.var_mean(*a, **b)[1], expected[1]),
            ):
                actual = function(data.to("ocl"), dim, correction=correction)
                torch.testing.assert_close(
                    actual.cpu(), wanted.float(), rtol=2e-4, atol=0, equal_nan=True)
"""
FACTORS = """
    import torch
    torch.manual_seed(0)
    for kind, n, batch in ((torch.float32, 270, 2), (torch.complex64, 260, 1),
                           (torch.float32, 600, 1)):
        a = torch.randn(batch, n, n, dtype=kind)
        for hermitian in (False, True) if kind.is_complex else (True,):
            a = a + (a.mH if hermitian else a.mT)
            a[0, 5:, 5] = a[0, 5, 5:] = 0  # a pivot that is 0 where none is exchanged with it
            a[0, 5, 5] = 1
            a[0].diagonal()[100:140] = 0
            b = torch.randn(batch, n, 3, dtype=kind)
            factors = torch.linalg.ldl_factor(a.to("ocl"), hermitian=hermitian)
            x = torch.linalg.ldl_solve(*factors, b.to("ocl"), hermitian=hermitian).cpu()
            wide = torch.complex128 if kind.is_complex else torch.float64
            exact = torch.linalg.solve(a.to(wide), b.to(wide))
            error = (x.to(wide) - exact).norm() / exact.norm()
            assert error < 0.02, error
            pivots = factors.pivots.cpu()
            assert (pivots < 0).any() and (pivots > 0).any()
            expected = torch.linalg.ldl_factor(a, hermitian=hermitian)
            assert (pivots[:, :20] == expected.pivots[:, :20]).all()
    singular = torch.zeros(300, 300)
    singular[3, 3] = 2
    assert torch.linalg.ldl_factor_ex(singular.to("ocl")).info.item() == 1
"""
IMAGES = """
    import torch, torch.nn.functional as F
    torch.use_deterministic_algorithms(True)
    def gradient(device):
        torch.manual_seed(0)
        image, grid = torch.randn(2, 3, 8, 9), torch.rand(2, 90, 100, 2) * 2.4 - 1.2
        image = image.to(device).requires_grad_()
        F.grid_sample(image, grid.to(device), align_corners=True).pow(2).sum().backward()
        return image.grad.cpu()
    torch.testing.assert_close(gradient("ocl"), gradient("cpu"), rtol=1e-4, atol=1e-3)
"""
CASES = {
    "segments": SEGMENTS,
    "bags": BAGS,
    "sparse": SPARSE,
    "many": MANY,
    "variances": VARIANCES,
    "factors": FACTORS,
    "images": IMAGES,
}


@pytest.mark.parametrize("family", ["cpu", "gpu"])
@pytest.mark.parametrize("name", CASES)
def test_results(device, name, family):
    skip_in_a_simulator()
    output_of(CASES[name], OCL_KERNEL_FAMILY=family)


@pytest.mark.slow
@pytest.mark.parametrize("profile", ["nvidia_ampere", "smallest"])
@pytest.mark.parametrize("name", CASES)
def test_results_on_a_strict_device(name, profile):
    stern_output_of(profile, CASES[name])


LAUNCHES = """
    import torch, torch.nn.functional as F
    from torch.profiler import ProfilerActivity, profile
    x = torch.randn(30000).to("ocl").requires_grad_()
    offsets = torch.tensor([0, 10, 29000, 30000]).to("ocl")
    index = torch.randint(9, (30000,)).to("ocl")
    table, other = torch.randn(9, 5).to("ocl"), torch.randn(3000, 5).to("ocl")
    sparse = torch.randn(2, 3000).to("ocl").to_sparse()
    symmetric = torch.randn(600, 600)
    symmetric = (symmetric + symmetric.T).to("ocl")
    image = torch.randn(1, 2, 8, 8).to("ocl").requires_grad_()
    grid = torch.rand(1, 100, 100, 2).to("ocl")
    torch.use_deterministic_algorithms(True)
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]) as prof:
        torch.segment_reduce(x, "sum", offsets=offsets, unsafe=True).sum().backward()
        F.embedding_bag(index, table, offsets[:3])
        sparse @ other
        x.detach().var()
        factors = torch.linalg.ldl_factor(symmetric)
        torch.linalg.ldl_solve(*factors, symmetric[:, :3].contiguous())
        F.grid_sample(image, grid, align_corners=True).sum().backward()
        torch.ocl.synchronize()
    prof.export_chrome_trace(TRACE)
"""


def test_launches(device, tmp_path):
    skip_in_a_simulator()
    trace = tmp_path / "trace.json"
    output_of(f"    TRACE = {str(trace)!r}\n{LAUNCHES}", OCL_KERNEL_FAMILY="gpu")
    events = [e for e in json.loads(trace.read_text())["traceEvents"] if e.get("cat") == "kernel"]
    kernels = {}
    for event in events:
        kernels.setdefault(event["name"], []).append(event["args"])
    for name in ("segment_reduce_long", "segment_backward_long", "embedding_bag_long"):
        (launch,) = kernels[name]  # 3 segments, or bags
        assert launch["grid"][1] == 3 and launch["block"][0] >= 64, launch
    assert kernels["sparse_mm_long"][0]["grid"][1] == 2
    assert kernels["moments_finish"][0]["block"][0] >= 64
    # 10000 points, 4096 for each launch.
    assert len(kernels["grid_sample_input"]) == 3
    # A launch makes at most 131072 steps of a column.
    assert len(kernels["ldl_forward"]) == len(kernels["ldl_backward"]) == 3
    # A team for each column of the rest, in each of the launches.
    assert "ldl_factor" not in kernels and len(kernels["ldl_pivot"]) == 600
    assert [e["grid"][1] for e in kernels["ldl_update"]] == [*range(599, 0, -1)]


PLAIN = """
    import torch
    from torch.profiler import ProfilerActivity, profile
    x, y = torch.randn(64, 128).to("ocl"), torch.randn(128, 100).to("ocl")
    image, weight = torch.randn(1, 16, 20, 20).to("ocl"), torch.randn(12, 16, 3, 3).to("ocl")
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]) as prof:
        product, planes = x @ y, torch.conv2d(image, weight)
        torch.ocl.synchronize()
    torch.testing.assert_close(product.cpu(), x.cpu() @ y.cpu(), rtol=1e-4, atol=1e-4)
    expected = torch.conv2d(image.cpu(), weight.cpu())
    torch.testing.assert_close(planes.cpu(), expected, rtol=1e-4, atol=1e-4)
    names = [event.name for event in prof.events()]
    print(names.count("gemm_plain"), names.count("conv_forward"))
"""


def test_algorithms_without_tiles_are_slow(device):
    """Launches of less than a million multiply-adds, of which the device may make a million."""
    variables = {"OCL_LAUNCH_WORK": "1", "OCL_DISABLE": "gpu_tiles,tiles,direct"}
    printed = output_of(PLAIN, OCL_KERNEL_FAMILY="gpu", **variables)
    assert min(map(int, printed.split())) > 4, printed
