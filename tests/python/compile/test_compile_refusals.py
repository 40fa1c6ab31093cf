"""Arguments that eager kernels refuse: compiled programs refuse them, too."""

import pytest
import torch
import torch.nn.functional as F

pytestmark = pytest.mark.usefixtures("fresh_compiler")

ONES = torch.ones(4)
HALF, WHOLE, BYTES = ONES.half(), ONES.long(), ONES.byte()
MATRIX = torch.ones(4, 4)
NUMBERS = {
    "smooth_l1_loss": (lambda x: F.smooth_l1_loss(x, x, beta=-1.0), ONES),
    "huber_loss": (lambda x: F.huber_loss(x, x, delta=0.0), ONES),
    "celu": (lambda x: F.celu(x, 0.0) * 2, ONES),
    "clamp": (lambda x: x.clamp(-3.4e39, 3.4e39) + 1, ONES),
    "clamp_min": (lambda x: x.clamp_min(-3.4e39), ONES),
    "masked_fill": (lambda x: x.masked_fill(x > 0, 1e9) + 1, HALF),
    "masked_fill_": (lambda x: x.masked_fill_(x > 0, 300), BYTES),
    "pad": (lambda x: F.pad(x, (1, 100), value=1e9), HALF),
    "remainder": (lambda x: torch.remainder(x, 0) + 1, WHOLE),
    "addmm of any shape": (lambda x: torch.addmm(x, x[0, :, :1], x[0, :1]), MATRIX.expand(3, 4, 4)),
    "mm of bools": (lambda x: x[:, :1] @ x[:1], MATRIX.bool()),
    "interpolate": (
        lambda x: F.interpolate(x, (5, 6), mode="bilinear"),
        torch.ones(1, 2, 3, 4, dtype=torch.int32),
    ),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_and_types(device, name, dynamic):
    function, x = NUMBERS[name]
    x = x.to(device)
    with pytest.raises((RuntimeError, TypeError, NotImplementedError)):
        function(x)
        torch.ocl.synchronize()
    with pytest.raises((RuntimeError, TypeError, NotImplementedError)):
        torch.compile(function, dynamic=dynamic)(x)
        torch.ocl.synchronize()


PRODUCTS = {
    "mm": lambda x: x @ x,
    "mm of a column and a row": lambda x: x[:, :1] @ x[:1],
    "bmm": lambda x: torch.bmm(x[None], x[None]),
    "bmm of rows and columns": lambda x: torch.bmm(x[None, :1], x[None, :, :1]),
    "mv": lambda x: torch.mv(x, x[0]),
    "dot": lambda x: torch.dot(x[0], x[0]),
    "vdot": lambda x: torch.vdot(x[0], x[0]),
    "linear": lambda x: F.linear(x, x, x[0]),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_of_bools(device, name):
    """The eager kernel says that it knows no bools."""
    x = MATRIX.bool().to(device)
    for function in (PRODUCTS[name], torch.compile(PRODUCTS[name])):
        with pytest.raises(NotImplementedError, match="not implemented for tensors of type Bool"):
            function(x)


OUTPUTS = {
    "aminmax": lambda x, out: torch.aminmax(x, dim=0, out=(out, out.clone())),
    "sort": lambda x, out: torch.sort(x, out=(out, x.long())),
    "neg": lambda x, out: torch.neg(x, out=out),
    "amax": lambda x, out: torch.amax(x, 0, out=out),
    "index_select": lambda x, out: torch.index_select(x, 0, torch.ones_like(x[0]).long(), out=out),
    "triu": lambda x, out: torch.triu(x, out=out),
    "cross": lambda x, out: torch.linalg.cross(x[:, :3], x[:, :3], out=out),
    "solve": lambda x, out: torch.linalg.solve(x + 4 * torch.eye(4, device=x.device), x, out=out),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", OUTPUTS)
def test_types_of_outputs(device, name, dynamic):
    """Tracing does not convert a result that the eager kernel refuses to."""
    function, x = OUTPUTS[name], MATRIX.to(device)
    for call in (function, torch.compile(function, dynamic=dynamic)):
        call(x, torch.empty(0, device=device))
        with pytest.raises(RuntimeError, match=r"(Expected|Found|same) .*type"):
            call(x, torch.empty(0, dtype=torch.int32, device=device))


@pytest.mark.parametrize("target", [1.5, float("nan")])
def test_targets_outside_of_the_range(device, target):
    def function(x, y):
        return F.binary_cross_entropy(x.sigmoid(), y)

    compiled = torch.compile(function, fullgraph=True)
    x, y = torch.ones(3, 7, device=device), torch.full((3, 7), target, device=device)
    with pytest.raises(RuntimeError, match="target should be between 0 and 1"):
        compiled(x, y).item()
    y.fill_(0.5)
    torch.testing.assert_close(compiled(x, y), function(x, y))


DIVISIONS = {
    "%": lambda x, y: x % y + 1,
    "//": lambda x, y: x // y + 1,
    "fmod": lambda x, y: torch.fmod(x, y) * 2,
    "trunc": lambda x, y: torch.div(x, y, rounding_mode="trunc") * 2,
    "rows": lambda x, y: (x // y).sum(1),
    "columns": lambda x, y: (x % y).sum(0),
    "by one": lambda x, y: x % y[0, 0],
    "of a part": lambda x, y: torch.cat([x // y, y + 1]),
    "padded": lambda x, y: F.pad(x // y, (3, 5)) + 1,
    "in place": lambda x, y: x.floor_divide_(y) + y.clone(),
}


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.int16], ids=str)
@pytest.mark.parametrize("name", DIVISIONS)
def test_integer_division_by_zero(device, name, dtype):
    compiled = torch.compile(DIVISIONS[name], fullgraph=True)
    x = torch.arange(5 * 21).view(5, 21).to(dtype).to(device)
    y = (x + 1).clone()
    copy = x.clone()
    assert torch.equal(compiled(x, y), DIVISIONS[name](copy, y))
    torch.ocl.synchronize()
    y[0, 0] = 0
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        compiled(x, y)
        torch.ocl.synchronize()


def test_division_and_an_index_outside_in_one_kernel(device):
    compiled = torch.compile(lambda x, y, table: table[x % y] + 1, fullgraph=True)
    x, table = torch.arange(40, device=device), torch.arange(40.0, device=device)
    y = torch.full_like(x, 40)
    assert torch.equal(compiled(x, y, table), table + 1)
    with pytest.raises(IndexError, match="out of bounds"):
        compiled(x, y, table[:39]).sum().item()
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        compiled(x, torch.zeros_like(y), table).sum().item()


def test_what_is_not_refused_is_generated(device):
    from torch._inductor.utils import run_and_get_code

    def function(x):
        y = F.celu(x, 0.5) + x.clamp(-1, 1) + F.smooth_l1_loss(x, x * 2, beta=0.5)
        return y.masked_fill(x > 0, 7.0) * 2 + F.huber_loss(x, y) + x // 0.1

    x = torch.linspace(-3, 3, 40, device=device)
    result, (program,) = run_and_get_code(torch.compile(function, fullgraph=True), x)
    torch.testing.assert_close(result, function(x))
    calls = [line for line in program.splitlines() if not line.startswith("#")]
    assert not any("torch.ops.aten." in line for line in calls)
