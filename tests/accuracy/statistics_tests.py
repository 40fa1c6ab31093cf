"""Tests of random numbers, each a p-value; ideas of Knuth, Marsaglia's DIEHARD and TestU01.

u is a float64 tensor on the CPU that should be uniform on (0, 1); `counts` are of classes.
"""

import math

import numpy
import torch
from scipy import special, stats

LAGS = [1, 2, 3, 4, 15, 16, 17, 48, 63, 64, 65, 256, 1024, 4096]


def two_sided(z):
    """The p-value of a standard normal number."""
    return float(special.erfc(abs(z) / math.sqrt(2)))


def chi_square(counts, expected):
    """The chi-squared test of counts. Joins adjacent classes with few expected counts."""
    joined = [[0.0, 0.0]]
    for count, mean in zip(counts, expected, strict=True):
        joined[-1][0] += float(count)
        joined[-1][1] += float(mean)
        if joined[-1][1] >= 10:
            joined.append([0.0, 0.0])
    few = joined.pop()
    if joined:
        joined[-1] = [a + b for a, b in zip(joined[-1], few)]
    statistic = sum((count - mean) ** 2 / mean for count, mean in joined)
    return float(special.chdtrc(max(len(joined) - 1, 1), statistic))


def kolmogorov(u):
    """Kolmogorov's and Smirnov's test."""
    ordered, count = u.sort().values, u.numel()
    steps = torch.arange(count + 1, dtype=torch.float64) / count
    furthest = max((steps[1:] - ordered).max(), (ordered - steps[:-1]).max())
    return float(special.kolmogorov(furthest.item() * math.sqrt(count)))


def serial_correlations(u):
    """{test: p-value} of numbers some places apart."""
    x = u - u.mean()
    power, found = (x * x).sum(), {}
    for lag in LAGS:
        if x.numel() > 10 * lag:
            r = ((x[:-lag] * x[lag:]).sum() / power).item()
            found[f"correlation at {lag}"] = two_sided(r * math.sqrt(x.numel() - lag))
    return found


def pairs(u, v, cells=64):
    """Whether numbers at the same place in u and v are independent: the classes of the pairs."""
    cell = (u * cells).long().clamp(0, cells - 1) * cells + (v * cells).long().clamp(0, cells - 1)
    counts = torch.bincount(cell, minlength=cells * cells)
    return chi_square(counts, [u.numel() / cells**2] * cells**2)


def uniform_tests(u):
    """{test: p-value} of numbers from a continuous distribution."""
    count = u.numel()
    cells = torch.bincount((u * 1000).long().clamp(0, 999), minlength=1000)
    found = {"chi-square": chi_square(cells, [count / 1000] * 1000), "KS": kolmogorov(u)}
    found |= serial_correlations(u)
    half = count // 2
    found["pairs"] = pairs(u[0 : 2 * half : 2], u[1 : 2 * half : 2])
    found["runs"] = runs(u > 0.5)
    return found


def runs(bits):
    """The number of runs of equal bits."""
    changes = (bits[1:] != bits[:-1]).sum().item()
    places = bits.numel() - 1
    return two_sided((changes - places / 2) / math.sqrt(places / 4))


def ranks(bits, size=32):
    """The ranks of binary matrices of size x size."""
    count = min(bits.numel() // size**2, 4000)
    rows = bits[: count * size**2].view(count, size, size).numpy().astype(numpy.uint64)
    words = (rows << numpy.arange(size, dtype=numpy.uint64)).sum(2)
    rank = numpy.zeros(count, dtype=int)
    for column in range(size):
        mask = (words >> numpy.uint64(column)) & numpy.uint64(1)
        pivot = mask.argmax(1)
        has = mask.any(1)
        chosen = words[numpy.arange(count), pivot] * has
        words ^= mask * chosen[:, None]
        rank += has
    shares = [rank_share(size, size - lost) for lost in (0, 1, 2)]
    counts = [(rank == size - lost).sum() for lost in (0, 1, 2)]
    counts, shares = [*counts, count - sum(counts)], [*shares, 1 - sum(shares)]
    return chi_square(counts, [count * share for share in shares])


def rank_share(size, rank):
    """How probable a rank of a square binary matrix is."""
    logarithm = -((size - rank) ** 2) * math.log(2)
    for i in range(rank):
        q = -(size - i)
        logarithm += 2 * math.log1p(-(2.0**q)) - math.log1p(-(2.0 ** (i - rank)))
    return math.exp(logarithm)


def birthday_spacings(words, bits):
    """How many spacings between sorted numbers come twice, of few numbers at a time."""
    size = int(2 ** ((bits + 4) / 3))  # about four per sample
    samples = min(words.numel() // size, 200)
    if samples < 5:
        return 1.0
    days = words[: samples * size].view(samples, size).sort(1).values
    spacings = days.diff(dim=1).sort(1).values
    repeats = (spacings.diff(dim=1) == 0).sum().item()
    mean = samples * size**3 / (4 * 2.0**bits)
    return float(
        min(1, 2 * min(stats.poisson.cdf(repeats, mean), stats.poisson.sf(repeats - 1, mean)))
    )


def bit_tests(words, bits):
    """{test: p-value} of integers whose lower `bits` bits should be random."""
    found, count = {}, words.numel()
    for plane in range(bits):
        bit = (words >> plane) & 1
        ones = bit.sum().item()
        found[f"bit {plane}"] = two_sided((2 * ones - count) / math.sqrt(count))
        found[f"runs of bit {plane}"] = runs(bit)
        found[f"ranks of bit {plane}"] = ranks(bit)
        if plane:
            same = (bit == ((words >> (plane - 1)) & 1)).sum().item()
            found[f"bits {plane - 1} and {plane}"] = two_sided(
                (2 * same - count) / math.sqrt(count)
            )
    if bits >= 24:
        shift = max(bits - 40, 0)
        found["birthdays"] = birthday_spacings(
            (words >> shift) & ((1 << (bits - shift)) - 1), bits - shift
        )
    return found


def worst(found):
    """(test, p-value, number of tests) of the least p-value."""
    name = min(found, key=found.get)
    return name, found[name], len(found)
