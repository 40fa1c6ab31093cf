"""Random numbers pass statistical tests (tests/accuracy); `make accuracy` draws many more."""

import pytest
import torch

pytest.importorskip("scipy", reason="the tests need scipy's distribution functions")

import distributions
import statistics_tests as tests

COUNT = 100_000
# The significance of a test; there are about a thousand tests.
LEAST = 1e-9


@pytest.mark.parametrize("row", distributions.all_rows(), ids=lambda row: row.name)
def test_numbers(device, row):
    if row.name.endswith("float64") and not torch.ocl.get_device_properties(device).has_fp64:
        pytest.skip("the device has no float64")
    torch.manual_seed(0)
    x = row.draw(COUNT // 4 if "rand" in row.name else COUNT, device).cpu()
    test, p, count = tests.worst(row.check(x))
    assert p * count > LEAST, test
    assert row.limits is None or row.limits(x)


def test_draws_are_independent(device):
    test, p, count = tests.worst(distributions.independence(COUNT, device))
    assert p * count > LEAST, test


def test_no_launch_repeats_numbers_of_another(device):
    assert distributions.repeated_words(device, launches=40, size=999) == 0


def test_sizes_around_limits_of_the_grid(device):
    """A launch of any size gives the first numbers of a longer one."""
    torch.manual_seed(0)
    longest = torch.rand((1 << 20) + 1, device=device).cpu()
    for power in range(10, 21):
        for size in (2**power - 1, 2**power, 2**power + 1):
            torch.manual_seed(0)
            assert torch.equal(torch.rand(size, device=device).cpu(), longest[:size])


def good_numbers(count=COUNT):
    return torch.rand(count, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


BAD = {
    "a little curved": lambda u: u**1.1,
    "repeated": lambda u: torch.stack([u[::2], u[::2]], 1).flatten(),
    "alternating": lambda u: torch.stack([u[::2], 1 - u[::2]], 1).flatten(),
    "shifted by 64": lambda u: torch.cat([u[:64], 0.1 * u[64:] + 0.9 * u[:-64]]),
    "sorted": lambda u: u.sort().values,
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_numbers_fail(kind):
    assert tests.worst(tests.uniform_tests(good_numbers()))[1] > 1e-6
    assert tests.worst(tests.uniform_tests(BAD[kind](good_numbers())))[1] < LEAST


def test_bad_bits_fail():
    words = (good_numbers(400_000) * 2**32).long()
    assert tests.worst(tests.bit_tests(words, 32))[1] > 1e-6
    bad = {
        "bit 5": words & ~(1 << 5),
        "bits 6 and 7": words & ~(1 << 7) | (words & (1 << 6)) << 1,
        "ranks of bit 3": words & ~8 | (torch.arange(400_000) // 64 % 2 << 3) ^ (words[0] & 8),
        "birthdays": words & ~0xFFFF | (words & 0xFF) * 0x101,
    }
    for name, numbers in bad.items():
        assert tests.bit_tests(numbers, 32)[name] < LEAST, name


def test_ranks_of_matrices():
    """The shares that DIEHARD's authors give for 32 x 32."""
    shares = [tests.rank_share(32, rank) for rank in (32, 31, 30)]
    assert shares == pytest.approx([0.2888, 0.5776, 0.1284], abs=1e-4)


def test_wrong_shares_fail():
    x = (good_numbers() * 3).long()
    assert distributions.shares([1 / 3] * 3)(x)["chi-square"] > 1e-6
    assert distributions.shares([0.25, 0.25, 0.5])(x)["chi-square"] < LEAST


@pytest.mark.parametrize(
    "name", ["poisson(100000.0)", "binomial(1000000, 0.5)", "binomial(1000000000, 5e-07)"]
)
def test_large_counts(device, name):
    """The terms of a probability's logarithm are so large that their difference is rounded."""
    torch.manual_seed(0)
    (row,) = [row for row in distributions.all_rows() if row.name == name]
    assert row.check(row.draw(1_000_000, device).cpu())["chi-square"] > LEAST
