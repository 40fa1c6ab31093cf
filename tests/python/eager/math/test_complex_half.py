"""complex32: no kernel computes with it, so it is copied, viewed and, by the CPU, computed with."""

import pytest
import torch
from support import assert_agrees, result_of

HALF = torch.complex32
pytestmark = pytest.mark.fallback_allowed


def numbers(shape=(2, 4)):
    values = torch.randn(shape, dtype=torch.complex64, generator=torch.Generator().manual_seed(0))
    return values.to(HALF)


def into(dtype):
    return lambda x: torch.zeros(x.shape, dtype=dtype, device=x.device).copy_(x)


def set_real(x):
    x.real.fill_(3)
    return x


def set_row(x):
    x[0] = 1 + 2j
    return x


def positions(x):
    return torch.tensor([1, 0], device=x.device)


def with_type(dtype):
    return lambda x: x + torch.ones(4, device=x.device).to(dtype)


MOVED = {
    "clone": torch.clone,
    "slice": lambda x: x[:, ::2].clone(),
    "view": lambda x: x.view(4, 2),
    "t": lambda x: x.t().contiguous(),
    "permute": lambda x: x.view(2, 2, 2).permute(2, 0, 1).contiguous(),
    "expand": lambda x: x[:1].expand(3, 4).contiguous(),
    "as_strided": lambda x: x.as_strided((2, 2), (1, 2)).clone(),
    "view_as_real": torch.view_as_real,
    "view_as_complex": lambda x: torch.view_as_complex(torch.view_as_real(x)),
    "real": lambda x: x.real.clone(),
    "imag": lambda x: x.imag.clone(),
    "int32 bits": lambda x: x.view(torch.int32),
    "complex64 bits": lambda x: x.view(torch.complex64),
    "conj": lambda x: x.conj().resolve_conj(),
    "conj_physical": torch.conj_physical,
    "negative part": lambda x: x.conj().imag.resolve_neg(),
    "copy of conj": lambda x: torch.zeros_like(x).copy_(x.conj()),
    "cat": lambda x: torch.cat([x, x]),
    "cat, mixed": lambda x: torch.cat([x, x.to(torch.complex64)]),
    "stack": lambda x: torch.stack([x, x]),
    "index": lambda x: x[positions(x)],
    "index_select": lambda x: x.index_select(1, positions(x)),
    "index_put": lambda x: x.index_put((positions(x),), x),
    "mask": lambda x: x[positions(x).bool()],
    "masked_fill": lambda x: x.masked_fill(x.real > 0, 0),
    "where": lambda x: torch.where(x.real > 0, x, x.conj()),
    "roll": lambda x: x.roll(1, 0),
    "repeat_interleave": lambda x: x.repeat_interleave(2),
    "pad": lambda x: torch.nn.functional.pad(x, (1, 1)),
    "triu": torch.triu,
    "fill": lambda x: x.fill_(2j),
    "zero": lambda x: x.zero_(),
    "set_real": set_real,
    "set_row": set_row,
    "flip": lambda x: x.flip(0),
    "flip both": lambda x: x.flip([0, 1]),
    "unfold": lambda x: x.unfold(1, 2, 1).contiguous(),
}
CONVERTED = {
    f"{how} {dtype}": f(dtype)
    for dtype in (
        HALF,
        torch.complex64,
        torch.complex128,
        torch.float32,
        torch.float16,
        torch.int64,
        torch.bool,
    )
    for how, f in {"to": lambda d: lambda x: x.to(d), "copy": into}.items()
}
PROMOTED = {
    str(dtype): with_type(dtype)
    for dtype in (
        torch.float16,
        torch.bfloat16,
        torch.float32,
        torch.float64,
        torch.int32,
        torch.bool,
        torch.complex64,
        HALF,
    )
}
COMPUTED = {
    "mul": lambda x: x * x,
    "sub": lambda x: x - 1,
    "times a number": lambda x: x * 2.5,
    "times a complex number": lambda x: x * 2j,
    "half times a complex number": lambda x: x.real * 2j,
    "half plus a complex number": lambda x: x.real + 2j,
    "half tensor and complex scalar": lambda x: x.real * torch.tensor(1 + 2j, device=x.device),
    "eq": lambda x: x == x,
    # Equal in complex32, the type that both are compared in.
    "half == number": lambda x: x.real.abs().clamp(2048, 2048) == complex(2049, 0),
    "abs": torch.abs,
    "any": torch.any,
    "nonzero": torch.nonzero,
    "isnan": torch.isnan,
    "exp": torch.exp,
    "sum": torch.sum,
    "matmul": lambda x: x @ x.t(),
    "div": lambda x: x / x,
    "complex": lambda x: torch.complex(x.real, x.imag),
}
ALL = {**MOVED, **CONVERTED, **PROMOTED, **COMPUTED}


@pytest.mark.filterwarnings("ignore:Casting complex values to real", "ignore:ComplexHalf support")
@pytest.mark.parametrize("name", ALL)
def test_as_on_the_cpu(device, name):
    def function(x):
        result = ALL[name](x)
        return torch.view_as_real(result) if result.dtype == HALF else result

    x = numbers()
    if name == "negative part":
        assert result_of(function, x)[1] is None
    assert_agrees(function, device, x, exact=name not in ("abs", "div"), rtol=1e-3, atol=1e-3)


@pytest.mark.filterwarnings("ignore:ComplexHalf support")
def test_created(device):
    for make in (torch.zeros, torch.ones, lambda *a, **o: torch.full(*a, 1 + 2j, **o)):
        expected = make((3,), dtype=HALF)
        assert torch.equal(
            make((3,), dtype=HALF, device=device).cpu().view(torch.int32),
            expected.view(torch.int32),
        )
    assert numbers().to(device)[0, 0].item() == numbers()[0, 0].item()


def test_halves_compared_with_a_complex_element(device):
    """The common type is complex32, to which the element is rounded."""
    x = torch.tensor([2048.0, 2049.0, 1.0], dtype=torch.float16)
    for number in (2049 + 0j, 2048 + 1e-9j, 1 + 0j, 1 + 1j):
        for dtype in (torch.complex64, torch.complex128):
            y = torch.tensor(number, dtype=dtype)
            for compare in (torch.eq, torch.ne):
                expected = compare(x, y)
                assert torch.equal(compare(x.to(device), y.to(device)).cpu(), expected)
                assert torch.equal(compare(y.to(device), x.to(device)).cpu(), compare(y, x))
