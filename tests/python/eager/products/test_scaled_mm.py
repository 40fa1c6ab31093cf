"""Products of float8 matrices with scales: torch._scaled_mm and torch.nn.functional.scaled_mm."""

import pytest
import torch
from support import name_of
from torch.nn.functional import ScalingType, SwizzleType, scaled_mm

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
M, K, N = 35, 70, 50


def factors(types=(E4M3, E4M3)):
    return torch.randn(M, K).to(types[0]), torch.randn(N, K).to(types[1]).t()


def exact(a, b, scale_a, scale_b, bias=None):
    product = a.double() @ b.double() * scale_a.double() * scale_b.double()
    return product if bias is None else product + bias.double()


def scales_of(by_rows):
    if not by_rows:
        return torch.tensor(0.5), torch.tensor([3.0])
    return torch.rand(M, 1) + 0.1, torch.rand(1, N) + 0.1


@pytest.mark.sample
@pytest.mark.parametrize("by_rows", [False, True])
@pytest.mark.parametrize("types", [(E4M3, E4M3), (E5M2, E4M3)], ids=str)
@pytest.mark.parametrize("out", [torch.float32, torch.bfloat16, torch.float16], ids=name_of)
def test_values(device, types, by_rows, out):
    a, b = factors(types)
    scale_a, scale_b = scales_of(by_rows)
    bias = torch.randn(N)
    ours = [t.to(device) for t in (a, b, scale_a, scale_b, bias)]
    actual = torch._scaled_mm(*ours[:4], bias=ours[4], out_dtype=out)
    expected = exact(a, b, scale_a, scale_b, bias)
    assert actual.dtype == out
    torch.testing.assert_close(actual.cpu(), expected.to(out), atol=1e-5, rtol=1.6e-2)

    recipe = ScalingType.RowWise if by_rows else ScalingType.TensorWise
    actual = scaled_mm(*ours[:2], ours[2], recipe, ours[3], recipe, bias=ours[4], output_dtype=out)
    torch.testing.assert_close(actual.cpu(), expected.to(out), atol=1e-5, rtol=1.6e-2)


def test_a_float8_result_is_divided_by_its_scale(device):
    a, b = factors()
    scale, of_result = torch.tensor(1.0), torch.tensor(4.0)
    expected = (exact(a, b, scale, scale) / 4).float().to(E4M3)
    a, b, scale, of_result = (t.to(device) for t in (a, b, scale, of_result))
    actual = torch._scaled_mm(a, b, scale, scale, scale_result=of_result)
    assert actual.dtype == E4M3
    torch.testing.assert_close(actual.cpu().float(), expected.float(), atol=2e-2, rtol=0.13)
    out = torch.empty(0, dtype=E4M3, device=device)
    torch._scaled_mm(a, b, scale, scale, scale_result=of_result, out=out)
    assert out.cpu().float().equal(actual.cpu().float())


def test_products_run_on_the_device(device):
    torch.ocl.reset_fallback_stats()
    a, b = (t.to(device) for t in factors())
    scale = torch.ones(1, device=device)
    compiled = torch.compile(torch._scaled_mm, fullgraph=True)
    eager = torch._scaled_mm(a, b, scale, scale, out_dtype=torch.bfloat16)
    result = compiled(a, b, scale, scale, out_dtype=torch.bfloat16)
    assert result.cpu().equal(eager.cpu())
    assert not torch.ocl.fallback_stats()


def test_nothing_to_multiply(device):
    scale = torch.ones((), device=device)
    for m, k, n in ((0, 32, 16), (16, 0, 32), (16, 32, 0)):
        a = torch.ones(m, k).to(E4M3).to(device)
        b = torch.ones(n, k).to(E4M3).to(device).t()
        result = torch._scaled_mm(a, b, scale, scale, out_dtype=torch.float32)
        assert result.shape == (m, n)
        assert not result.cpu().any()


def test_infinities_and_nan(device):
    a, b = factors((E5M2, E4M3))
    a[0, 0], a[1, 1] = float("inf"), float("nan")
    one = torch.tensor(1.0)
    expected = exact(a, b, one, one).float()
    one = one.to(device)
    actual = torch._scaled_mm(a.to(device), b.to(device), one, one, out_dtype=torch.float32)
    torch.testing.assert_close(actual.cpu(), expected, equal_nan=True, atol=1e-5, rtol=1e-5)


ONE = torch.tensor(1.0)
REFUSED = {
    "three dimensions": (RuntimeError, lambda a, b: (a[None], b, ONE, ONE)),
    "sizes that do not fit": (RuntimeError, lambda a, b: (a, b.t(), ONE, ONE)),
    "float32 factors": (ValueError, lambda a, b: (a.float(), b, ONE, ONE)),
    "scales of one dimension": (ValueError, lambda a, b: (a, b, torch.ones(M), torch.ones(1, N))),
    "scales of the other matrix": (
        ValueError,
        lambda a, b: (a, b, torch.ones(N, 1), torch.ones(1, M)),
    ),
    "a bias of another size": (RuntimeError, lambda a, b: (a, b, ONE, ONE, torch.ones(3))),
}


@pytest.mark.parametrize("case", REFUSED)
def test_errors_are_those_of_the_cpu(device, case):
    error, make = REFUSED[case]
    arguments = make(*factors())
    with pytest.raises(error):
        torch._scaled_mm(*arguments, out_dtype=torch.bfloat16)
    with pytest.raises(error):
        torch._scaled_mm(*(t.to(device) for t in arguments), out_dtype=torch.bfloat16)


def test_a_result_may_be_a_factor(device):
    a = torch.randn(16, 16).to(E4M3)
    b, one = torch.randn(32, 16).to(E4M3).t(), torch.tensor(1.0)
    expected = torch._scaled_mm(a, b, one, one).float()
    ours, one = a.to(device), one.to(device)
    with pytest.warns(UserWarning, match="resized"):
        torch._scaled_mm(ours, b.to(device), one, one, out=ours)
    torch.testing.assert_close(ours.cpu().float(), expected, atol=2e-2, rtol=0.13)


def test_scales_of_one_element_have_any_shape(device):
    a, b = factors()
    scale = torch.full((1, 1, 1), 2.0)
    expected = exact(a, b, *[torch.tensor(2.0)] * 2).float()
    a, b, scale = (t.to(device) for t in (a, b, scale))
    actual = torch._scaled_mm(a, b, scale, scale, out_dtype=torch.float32)
    torch.testing.assert_close(actual.cpu(), expected, atol=1e-5, rtol=1e-5)


def test_recipes_fit_the_scales(device):
    a, b = (t.to(device) for t in factors())
    whole, rows = ScalingType.TensorWise, ScalingType.RowWise
    one, of_a, of_b = (torch.ones(*s, device=device) for s in ((1, 1), (M, 1), (1, N)))
    for scale_a, recipe_a, scale_b, recipe_b in (
        (of_a, whole, of_b, whole),
        (one, rows, one, rows),
        (one, whole, of_b, rows),
    ):
        with pytest.raises(ValueError, match="Invalid scaling configuration"):
            scaled_mm(a, b, scale_a, recipe_a, scale_b, recipe_b)


def test_other_recipes_are_refused(device):
    a, b = (t.to(device) for t in factors())
    scale = torch.ones((), device=device)
    whole, block = ScalingType.TensorWise, ScalingType.BlockWise1x128
    with pytest.raises(ValueError, match="TensorWise"):
        scaled_mm(a, b, scale, block, scale, block)
    with pytest.raises(ValueError, match="swizzled"):
        swizzle = SwizzleType.SWIZZLE_32_4_4
        scaled_mm(a, b, scale, whole, scale, whole, swizzle_a=swizzle, swizzle_b=swizzle)
