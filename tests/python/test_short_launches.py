"""Launches stay short on a GPU where many work-items meet at one element, or one could walk far.

Systems reset a GPU that works on a launch for seconds.
"""

import json

import pytest
from stern import changed_profile, stern_output_of
from support import output_of, skip_in_a_simulator

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
    n = 110_000  # more than is exchanged with a few elements
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
    short = torch.zeros(9).to("ocl")
    print(json.dumps([
        launches(lambda: int_sums.index_add_(0, few, ones.int())),
        launches(lambda: sums.index_add_(0, many, ones)),
        launches(lambda: short.index_add_(0, few, ones)),
    ]))
    assert int_sums[0] == n and (sums == 1).all() and short[0] == n
"""


def test_launches_for_an_element(device):
    skip_in_a_simulator()
    printed = output_of(LAUNCHES + CROWD_LAUNCHES, OCL_KERNEL_FAMILY="gpu")
    integers, floats, crowd = json.loads(printed)
    assert integers["index_add_i32"] == 1  # the device's own addition
    assert floats["index_add_f32"] == 3  # at most 65536 exchanges
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


def test_transposes_in_groups_of_two(tmp_path):
    """Where no tile is possible, elements are copied one by one."""
    sizes = {"DEVICE_MAX_WORK_GROUP_SIZE": 2, "DEVICE_MAX_WORK_ITEM_SIZES": "2 2 2"}
    profile = changed_profile(tmp_path, "smallest", **sizes)
    code = """
        import torch
        x = torch.arange(35 * 50).view(35, 50).float()
        assert (x.to("ocl").t().contiguous().cpu() == x.t()).all()
    """
    stern_output_of(profile, code)
