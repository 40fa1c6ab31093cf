"""Random variates: moments of many, special parameters, seeds, and what is made of them."""

import math

import pytest
import torch
import torch.nn.functional as F
from support import has_fp64, needs_refused_operators

COUNT = 20000


def full(value, device, dtype=torch.float32):
    return torch.full((COUNT,), value, device=device, dtype=dtype)


def check_moments(sample, mean, variance):
    sample = sample.cpu().double()
    deviation = variance**0.5
    assert abs(sample.mean() - mean) < 5 * deviation / COUNT**0.5
    assert abs(sample.var() / variance - 1) < 0.1


@pytest.mark.sample
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
def test_gamma(device, dtype):
    for alpha in (0.5, 4.0):
        sample = torch._standard_gamma(full(alpha, device, dtype))
        assert sample.dtype == dtype
        assert (sample > 0).all()
        check_moments(sample, alpha, alpha)


@pytest.mark.sample
@pytest.mark.parametrize("rate", [0.5, 6.0, 40.0])
def test_poisson(device, rate):
    sample = torch.poisson(full(rate, device))
    check_moments(sample, rate, rate)
    assert (sample == sample.floor()).all()


@pytest.mark.sample
@pytest.mark.parametrize("count, chance", [(10, 0.3), (100, 0.3), (100, 0.7), (1000, 0.01)])
def test_binomial(device, count, chance):
    sample = torch.binomial(full(count, device), full(chance, device))
    check_moments(sample, count * chance, count * chance * (1 - chance))
    assert ((sample >= 0) & (sample <= count)).all()


def test_special_parameters(device):
    zero, one = torch.zeros(1, device=device), torch.ones(1, device=device)
    assert torch.poisson(zero).item() == 0
    assert torch._standard_gamma(zero).item() == 0
    assert torch.binomial(one * 7, one).item() == 7
    assert torch.binomial(one * 7, zero).item() == 0
    assert torch.binomial(one * torch.nan, one).isnan().item()
    assert torch.poisson(torch.empty(0, 3, device=device)).shape == (0, 3)
    assert torch.binomial(torch.ones(3, 1, device=device), one.expand(4)).shape == (3, 4)


def test_distribution_of_poisson(device):
    """Compares the share of each number, not only moments."""
    counts = torch.bincount(torch.poisson(full(3.0, device)).cpu().long(), minlength=8)[:8]
    share = torch.distributions.Poisson(3.0).log_prob(torch.arange(8.0)).exp()
    assert ((counts / COUNT - share).abs() < 5 * (share / COUNT).sqrt()).all()


@pytest.mark.sample
def test_seeds(device):
    rate = full(5.0, device)
    torch.manual_seed(3)
    first, second = torch.poisson(rate), torch.poisson(rate)
    torch.manual_seed(3)
    assert torch.equal(torch.poisson(rate), first)
    assert not torch.equal(first, second)


def test_dirichlet(device):
    alpha = torch.tensor([1.0, 2.0, 5.0], device=device).expand(COUNT, 3)
    sample = torch._sample_dirichlet(alpha)
    torch.testing.assert_close(sample.sum(-1).cpu(), torch.ones(COUNT))
    torch.testing.assert_close(
        sample.mean(0).cpu(), torch.tensor([1.0, 2.0, 5.0]) / 8, rtol=0, atol=0.01
    )
    assert torch.distributions.Dirichlet(alpha).sample().device == alpha.device


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
def test_dirichlet_of_small_alpha(device, dtype):
    """Almost all of the weight is on one component; gammas of this alpha are less than floats."""
    alpha = torch.full((COUNT, 2), 0.01, device=device, dtype=dtype)
    sample = torch._sample_dirichlet(alpha).cpu().double()[:, 0]
    assert sample.min() > 0 and sample.max() < 1
    assert ((sample > 0.49) & (sample < 0.51)).double().mean() < 0.003
    assert (sample < 0.5).double().mean() == pytest.approx(0.5, abs=0.02)
    check_moments(sample, 0.5, 0.25 / 1.02)


def test_beta(device):
    beta = torch.distributions.Beta(full(0.5, device), full(2.0, device)).sample()
    check_moments(beta, 0.2, 0.16 / 3.5)
    # The deviation is 2e-4 of the mean.
    large = torch._sample_dirichlet(torch.full((COUNT, 2), 1e7, device=device))[:, 0]
    check_moments(large, 0.5, 0.25 / 2e7)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_multinomial(device, dtype):
    weights = torch.tensor([0.0, 1, 0, 3, 6, 0], device=device, dtype=dtype)
    drawn = torch.multinomial(weights.expand(2, 6), COUNT, replacement=True)
    share = torch.stack([torch.bincount(row, minlength=6) for row in drawn.cpu()]) / COUNT
    torch.testing.assert_close(share, weights.cpu().float().expand(2, 6) / 10, rtol=0, atol=0.02)
    assert sorted(torch.multinomial(weights, 3).tolist()) == [1, 3, 4]
    for bad in ([-1.0, 2], [0.0, 0], [float("nan"), 1]):
        with pytest.raises(RuntimeError, match=r"probability|multinomial"):
            torch.multinomial(torch.tensor(bad, device=device), 5, replacement=True)


def test_multinomial_of_many_weights(device):
    """None of weight zero is drawn, and the parts of a long row are as probable as they should."""
    weights = torch.full((1 << 20,), 0.1)
    weights[::2] = 0
    drawn = torch.multinomial(weights.to(device), 1 << 19, replacement=True).cpu()
    assert (drawn % 2 == 1).all()
    counts = torch.bincount(drawn // 1024, minlength=1024).double()
    assert ((counts - 512).abs() < 6 * 512**0.5).all()
    if has_fp64(device):  # not more equal numbers than there are by chance
        assert drawn.unique().numel() / (1 << 19) == pytest.approx(1 - math.exp(-1), abs=0.005)
    ends = torch.tensor([0.0, 0, 1e-30, 0, 1e10, 1e-30, 0], device=device)
    assert set(torch.multinomial(ends, COUNT, replacement=True).tolist()) <= {2, 4, 5}


@needs_refused_operators
@pytest.mark.sample
def test_rrelu(device):
    x = torch.randn(COUNT, device=device)
    y = F.rrelu(x, 0.1, 0.3, training=True)
    slope = (y / x)[x < 0]
    assert torch.equal(y[x >= 0], x[x >= 0])
    assert ((slope > 0.0999) & (slope < 0.3001)).all() and slope.std() > 0.05
    torch.testing.assert_close(F.rrelu(x, 0.1, 0.3), F.leaky_relu(x, 0.2))
    leaf = x.clone().requires_grad_()
    F.rrelu(leaf, 0.1, 0.3, training=True).sum().backward()
    assert (leaf.grad[x > 0] == 1).all()


@pytest.mark.parametrize("training", [True, False])
def test_strides_of_rrelu(device, training):
    for x in [
        torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
        torch.randn(2, 3, 4).mT,
        torch.randn(3, 8)[:, ::2],
    ]:
        expected = F.rrelu(x, training=training)
        assert F.rrelu(x.to(device), training=training).stride() == expected.stride()
