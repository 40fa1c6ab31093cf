"""Convolutions in bfloat16 by the matrix unit of CPUs: by AMX where there is one, and emulated."""

import textwrap

import pytest
from support import output_of, run_python
from unit_modes import both, for_cpu_family

pytestmark = for_cpu_family

HEAD = """
    import torch
    from torch_ocl import _C

    torch.manual_seed(0)
    torch.full((1 << 22,), torch.nan, device="ocl")  # memory that is used again holds NaN
    LAST = {3: torch.contiguous_format, 4: torch.channels_last, 5: torch.channels_last_3d}

    def near(actual, exact, size, terms):
        '''Rounded once, with sums in float32.'''
        bound = (terms + 8) * 2.0**-24 * size + 2.0**-8 * exact.abs() + 2.0**-100
        worst = ((actual.cpu().double() - exact).abs() / bound).nan_to_num(1e9).max().item()
        assert worst <= 1, worst

    def check(x, w, bias=None, last=True, weight_last=True, **options):
        options = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1, "transposed": False,
                   "output_padding": 0} | options
        dims = x.dim() - 2
        listed = [[v] * dims if isinstance(v, int) else v for v in (
            options["stride"], options["padding"], options["dilation"], options["output_padding"])]
        stride, padding, dilation, out_padding = listed
        where = (stride, padding, dilation, options["transposed"], out_padding, options["groups"])
        forward = lambda x, w, b: torch.ops.aten.convolution(x, w, b, *where)
        exact = forward(x.double(), w.double(), None if bias is None else bias.double())
        grad = torch.randn(exact.shape).bfloat16()
        backward = lambda g, x, w: torch.ops.aten.convolution_backward(
            g, x, w, None, *where, [True, True, False])[:2]
        sizes = forward(*(t.double().abs() for t in (x, w)), None)
        exacts = backward(grad.double(), x.double(), w.double())
        of_sizes = backward(grad.double().abs(), x.double().abs(), w.double().abs())
        to = lambda t, last: t.to("ocl").to(
            memory_format=LAST[t.dim()] if last else torch.contiguous_format)
        dx, dg, dw = to(x, last), to(grad, last), to(w, weight_last)
        actual = forward(dx, dw, None if bias is None else bias.to("ocl"))
        pixels = grad.numel() // grad.shape[1]
        near(actual, exact, sizes if bias is None else sizes + bias.double().abs().view(
            -1, *[1] * dims), w[0].numel())
        for a, e, s in zip(backward(dg, dx, dw), exacts, of_sizes):
            assert a.shape == e.shape and a.dtype == x.dtype
            near(a, e, s, max(pixels, w.numel()))

    def make(*shape):
        return torch.randn(shape).bfloat16()
"""


def run(code, mode, **variables):
    """The log of algorithms."""
    program = textwrap.dedent(HEAD) + textwrap.dedent(code)
    variables = {"OCL_LOG_ALGORITHMS": "1", "OCL_MATRIX_UNITS": mode, **variables}
    ended = run_python(program, **variables)
    assert ended.returncode == 0, ended.stderr
    return ended.stderr


def uses(text):
    return [line for line in text.splitlines() if ": channels_last_unit" in line]


GEOMETRIES = {
    "3x3": ((2, 40, 9, 21), (33, 40, 3, 3), {"padding": 1}),
    "no padding": ((3, 32, 12, 13), (64, 32, 3, 3), {}),
    "stride": ((2, 40, 19, 23), (72, 40, 3, 3), {"padding": 1, "stride": [2, 3]}),
    "stride over the kernel": ((2, 64, 23, 22), (40, 64, 2, 2), {"stride": 3}),
    "1x1, stride": ((2, 64, 33, 32), (72, 64, 1, 1), {"stride": 2}),
    "dilation": ((2, 40, 17, 18), (40, 40, 3, 3), {"padding": 2, "dilation": [2, 3]}),
    "dilation, stride": (
        (2, 40, 25, 26),
        (40, 40, 3, 3),
        {"padding": 2, "dilation": 2, "stride": 2},
    ),
    "dilation, one channel": ((2, 1, 60, 61), (40, 1, 5, 5), {"padding": 4, "dilation": 2}),
    "dilation, one channel, 1-d": ((4, 1, 4000), (40, 1, 5), {"dilation": 3}),
    "one line": ((2, 48, 5, 33), (40, 48, 1, 7), {"padding": [0, 3]}),
    "wide padding": ((2, 40, 7, 6), (40, 40, 3, 3), {"padding": [5, 40]}),
    "lines of one tile": ((2, 64, 7, 14), (40, 64, 3, 3), {"padding": 1}),
    "lines of one tile, stride": ((2, 64, 6, 30), (40, 64, 3, 3), {"padding": 1, "stride": 2}),
    "lines of several tiles": ((2, 64, 5, 45), (40, 64, 3, 3), {}),
    "a line much wider than the image": (
        (1, 64, 16, 8),
        (40, 64, 1, 3),
        {"padding": [0, 96], "stride": [1, 16]},
    ),
    "long sums": ((1, 600, 7, 7), (40, 600, 3, 3), {"padding": 1}),
    "many rows": ((1, 70, 6, 7), (1100, 70, 3, 3), {"padding": 1}),
    "many pixels": ((2, 33, 70, 66), (34, 33, 2, 2), {}),
    "few channels": ((2, 3, 40, 41), (40, 3, 7, 7), {"padding": 3, "stride": 2}),
    "few channels at the end of memory": ((1, 5, 33, 34), (40, 5, 3, 3), {}),
    "one channel": ((2, 1, 40, 41), (40, 1, 5, 5), {"padding": 2}),
    "eight": ((2, 8, 30, 31), (8, 8, 3, 3), {"padding": 1}),
    "transposed": (
        (2, 40, 11, 12),
        (40, 36, 3, 3),
        {"transposed": True, "stride": 2, "padding": 1, "output_padding": 1},
    ),
    "1-d": ((3, 40, 100), (48, 40, 5), {"padding": 2, "stride": 2}),
    "3-d": ((2, 33, 5, 6, 7), (40, 33, 3, 2, 3), {"padding": [1, 0, 1], "stride": [1, 2, 1]}),
}


@both
@pytest.mark.parametrize("name", GEOMETRIES)
def test_geometries(mode, name):
    shape, weight, options = GEOMETRIES[name]
    text = run(
        f"""
    x, w, bias = make(*{shape}), make(*{weight}), make({weight[0]})
    if {options}.get("transposed"): bias = make({weight[1]})
    for last in True, False:
        check(x, w, bias if last else None, last, weight_last=last, **{options})
    """,
        mode,
    )
    directions = {line.split(", BFloat16")[0].split("torch_ocl: ")[-1] for line in uses(text)}
    assert len(directions) == 3 or "few" in name or "one" in name, text


@both
def test_groups_and_special_numbers(mode):
    """Channels of other groups, and what follows a pixel, are not read as numbers."""
    text = run(
        """
    for groups, inside, outside in (2, 40, 33), (3, 33, 64):
        x, w = make(2, groups * inside, 9, 11), make(groups * outside, inside, 3, 3)
        check(x, w, make(groups * outside), padding=1, groups=groups)
    x[:, inside:2 * inside] = torch.nan
    x[1, 0, 4, 5] = torch.inf
    actual = torch.conv2d(x.to("ocl").to(memory_format=torch.channels_last), w.to("ocl"),
                          padding=1, groups=3).cpu()
    expected = torch.conv2d(x.float(), w.float(), padding=1, groups=3)
    assert actual.isnan().equal(expected.isnan()) and actual.isinf().equal(expected.isinf())
    torch.testing.assert_close(actual.float(), expected, rtol=1e-2, atol=1e-2, equal_nan=True)
    """,
        mode,
    )
    assert len(uses(text)) >= 6, text


def test_the_log_says_why_it_is_not_used():
    code = """
    conv = lambda *shape, **options: torch.conv2d(
        torch.ones(shape[0], device="ocl", dtype=torch.bfloat16).to(
            memory_format=torch.channels_last),
        torch.ones(shape[1], device="ocl", dtype=torch.bfloat16), **options)
    conv((1, 64, 64, 64), (4, 64, 3, 3))
    conv((1, 64, 4, 4), (16, 64, 3, 3))
    conv((1, 64, 64, 64), (64, 4, 3, 3), groups=16)
    """
    text = run(code, "emulate")
    assert not uses(text), text
    assert text.count("channels_last_unit (few channels of a group)") == 2, text
    assert "channels_last_unit (small tensors)" in text, text
    assert "channels_last_unit (OCL_MATRIX_UNITS=0)" in run(
        'torch.conv2d(make(2, 64, 20, 20).to("ocl"), make(64, 64, 3, 3).to("ocl"))', "0"
    )


def test_a_network_under_autocast():
    """A ResNet's block trains as in float32, but for the rounding."""
    code = """
        import torch
        from torch import nn
        torch.manual_seed(0)
        net = nn.Sequential(
            nn.Conv2d(3, 32, 7, 2, 3, bias=False), nn.BatchNorm2d(32), nn.ReLU(),
            nn.Conv2d(32, 64, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
            nn.Linear(64, 4)).to("ocl")
        x, y = torch.randn(8, 3, 40, 40, device="ocl"), torch.arange(8, device="ocl") % 4
        grads = []
        for on in False, True:
            net.zero_grad()
            with torch.autocast("ocl", torch.bfloat16, enabled=on):
                loss = nn.functional.cross_entropy(net(x), y)
            loss.backward()
            grads.append([p.grad.cpu() for p in net.parameters()])
        for exact, actual in zip(*grads):
            assert actual.dtype == exact.dtype
            scale = exact.abs().max().clamp(min=1e-3)
            assert ((actual - exact).abs().max() / scale) < 0.1, (exact.shape, actual, exact)
        print("right")
    """
    assert output_of(textwrap.dedent(code), OCL_MATRIX_UNITS="emulate") == "right"
