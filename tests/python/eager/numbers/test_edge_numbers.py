"""Signs of zeros, NaN and numbers beyond what operators expect: as on the CPU."""

import math

import pytest
import torch

ZEROS = torch.tensor([0.0, -0.0] * 20)
CHOICES = {
    "clamp(0, 1)": lambda x, y: torch.clamp(x, 0.0, 1.0),
    "clamp(-0, 1)": lambda x, y: torch.clamp(x, -0.0, 1.0),
    "clamp(-1, 0)": lambda x, y: torch.clamp(x, -1.0, 0.0),
    "clamp(min=0)": lambda x, y: torch.clamp(x, min=0.0),
    "clamp(min=-0)": lambda x, y: torch.clamp(x, min=-0.0),
    "clamp(max=0)": lambda x, y: torch.clamp(x, max=0.0),
    "clamp(max=-0)": lambda x, y: torch.clamp(x, max=-0.0),
    "fmax": torch.fmax,
    "fmin": torch.fmin,
}


@pytest.mark.parametrize("name", list(CHOICES))
@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str
)
def test_sign_of_zero(device, name, dtype):
    if name.startswith("f") and dtype is torch.bfloat16:
        pytest.skip("the CPU's own types differ: of bfloat16 it takes the second zero")
    x = ZEROS.to(dtype)
    expected = CHOICES[name](x, x.flip(0))
    actual = CHOICES[name](x.to(device), x.flip(0).to(device)).cpu()
    assert torch.equal(actual.signbit(), expected.signbit())


@pytest.mark.parametrize("name", ["clamp(0, 1)", "clamp(min=0)", "clamp(max=0)", "fmax", "fmin"])
def test_numbers_and_nan(device, name):
    numbers = torch.tensor([1.0, -1.0, torch.nan, torch.inf, -torch.inf, 0.5])
    x, y = (t.reshape(-1) for t in torch.meshgrid(numbers, numbers, indexing="ij"))
    expected = CHOICES[name](x, y)
    actual = CHOICES[name](x.to(device), y.to(device)).cpu()
    torch.testing.assert_close(actual, expected, rtol=0, atol=0, equal_nan=True)


def test_distance_counts_no_nan(device):
    """With p = 0 a distance counts the elements that differ: NaN has no count."""
    x = torch.ones(3, 5)
    y = torch.tensor([[1.0, 2, torch.nan, 1, 1], [1, 2, 1, 1, 1], [torch.inf, 2, 1, 1, 1]])
    expected = torch.cdist(x, y, p=0)
    torch.testing.assert_close(
        torch.cdist(x.to(device), y.to(device), p=0).cpu(), expected, equal_nan=True
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_bytes_of_large_numbers(device, dtype):
    """The low byte of the whole number: images are converted so."""
    x = torch.tensor([300.7, -1, -300.7, 255, 256, 4e9, -4e9, 1e10, math.inf, -math.inf, math.nan])
    for count in (1, 5, 11, 40):  # lanes, and the rest of a row
        some = x.repeat(4)[:count].to(dtype)
        assert torch.equal(some.to(device).to(torch.uint8).cpu(), some.to(torch.uint8))
        assert torch.equal(some.to(device).byte().cpu(), some.byte())


def test_gelu_of_large_negative_numbers(device):
    """1 + tanh of them is 0, and not a rounding error times the number."""
    x = torch.tensor([-7.0, -12, -40, -1e3, -1e30, 1e30, 40, 7])
    for approximate in ("none", "tanh"):
        leaves = [x.to(place).requires_grad_() for place in ("cpu", device)]
        results = [torch.nn.functional.gelu(leaf, approximate=approximate) for leaf in leaves]
        torch.testing.assert_close(results[1].cpu(), results[0])
        gradients = [torch.autograd.grad(y.sum(), leaf)[0] for y, leaf in zip(results, leaves)]
        torch.testing.assert_close(gradients[1].cpu()[:4], gradients[0][:4])


def test_binary_cross_entropy_refuses_other_probabilities(device):
    for wrong in (-0.1, 1.5, math.nan, math.inf):
        for place in ("cpu", device):
            good, bad = (torch.full((5,), 0.5, device=place) for _ in range(2))
            bad[3] = wrong
            for x, target, name in ((bad, good, "input"), (good, bad, "target")):
                with pytest.raises(RuntimeError, match=f"of {name} should be between 0 and 1"):
                    torch.nn.functional.binary_cross_entropy(x, target).item()


def test_trigamma_at_infinity(device):
    x = torch.tensor([math.inf, 3.0])
    torch.testing.assert_close(torch.polygamma(1, x.to(device)).cpu(), torch.polygamma(1, x))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("exponent", [torch.int32, torch.int64, torch.uint8])
def test_ldexp_whose_power_of_two_leaves_the_range(device, dtype, exponent):
    """Its product with the number does not."""
    least = torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps
    x = torch.tensor([1.5, -3, least, 1e4, math.inf, -math.inf, math.nan, 0, -0.0], dtype=dtype)
    steps = [0, 3, 22, 130, 220] if exponent == torch.uint8 else [-5000, -1060, -140, -20, 7, 150]
    n = torch.tensor(steps, dtype=exponent)[:, None]
    expected = torch.ldexp(x.expand(len(n), -1), n)
    actual = torch.ldexp(x.expand(len(n), -1).to(device), n.to(device)).cpu()
    torch.testing.assert_close(actual, expected, rtol=0, atol=0, equal_nan=True)
    assert torch.equal(actual.signbit(), expected.signbit())


def test_batch_norm_of_equal_numbers_without_eps(device):
    """1 / 0 is taken for 0, as on the CPU."""
    x = torch.tensor([[2.0, 1], [2, 3]], requires_grad=True)
    y = x.detach().to(device).requires_grad_()
    results = []
    for leaf in (x, y):
        result = torch.native_batch_norm(leaf, None, None, None, None, True, 0.1, eps=0)[0]
        result.square().sum().backward()
        results.append([result.detach().cpu(), leaf.grad.cpu()])
    torch.testing.assert_close(results[1], results[0])
