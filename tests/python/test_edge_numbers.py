"""Signs of zeros, and NaN, where operators choose between numbers: as on the CPU."""

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
