"""The random generators, as rows: how to draw, and what the numbers should be."""

import functools
import math
from typing import NamedTuple

import numpy
import torch
from scipy import stats
from statistics_tests import bit_tests, chi_square, pairs, serial_correlations, uniform_tests

FLOATS = [torch.float32, torch.float16, torch.bfloat16, torch.float64]
HALVES = (torch.float16, torch.bfloat16)
CLASSES = 256


class Row(NamedTuple):
    name: str
    draw: object  # of (count, device): a tensor
    check: object  # of the numbers on the CPU: {test: p-value}
    limits: object = None  # of the numbers: whether all of them are possible


def method(name, *args, dtype=torch.float32):
    return lambda count, device: getattr(torch.empty(count, dtype=dtype, device=device), name)(
        *args
    )


def label(name, dtype):
    return f"{name} {str(dtype).removeprefix('torch.')}"


def between(x, quantiles, cdf):
    """Counts of numbers that were rounded to a type, against the distribution before.

    Classes end half way between two numbers of the type, where rounding divides.
    """
    ends = torch.tensor(quantiles).to(x.dtype).unique()
    ends = ends[ends.isfinite()]
    above = torch.nextafter(ends, torch.full_like(ends, math.inf))
    middles = (ends.double() + above.double()) / 2
    counts = torch.bincount(torch.bucketize(x.double(), middles), minlength=len(middles) + 1)
    shares = numpy.diff(cdf(middles.numpy()), prepend=0, append=1)
    return chi_square(counts, x.numel() * shares)


def continuous(distribution):
    """Tests against a distribution of scipy."""

    def check(x):
        if x.dtype in HALVES:
            levels = distribution.ppf(numpy.arange(1, CLASSES) / CLASSES)
            found = {"chi-square": between(x, levels, distribution.cdf)}
            ranked = torch.from_numpy(distribution.cdf(x.double().numpy()))
            return found | serial_correlations(ranked)
        return uniform_tests(torch.from_numpy(distribution.cdf(x.double().numpy())))

    return check


def discrete(distribution):
    """Tests of whole numbers against a distribution of scipy."""

    def check(x):
        low, high = int(distribution.ppf(1e-12)), int(distribution.ppf(1 - 1e-12))
        counts = torch.bincount(
            (x.double() - low).clamp(0, high - low).long(), minlength=high - low + 1
        )
        shares = distribution.pmf(numpy.arange(low, high + 1))
        found = {"chi-square": chi_square(counts, x.numel() * shares)}
        above = (x.double() > distribution.median()).double()
        return found | serial_correlations(above)

    return check


def uniform(x):
    """Divides [0, 1) into classes of equal width, which contain whole numbers of a type's
    values."""
    u = x.double()
    counts = torch.bincount((u * 64).long(), minlength=64)
    found = {"classes": chi_square(counts, [x.numel() / 64] * 64)}
    digits = {torch.float16: 11, torch.bfloat16: 8, torch.float32: 24, torch.float64: 53}[x.dtype]
    found |= bit_tests((u * 2.0**digits).long(), digits)
    if x.dtype not in HALVES:
        found |= uniform_tests(u)
    return found


def integers(bits):
    return lambda x: bit_tests(x.to(torch.int64), bits)


def equal_shares(classes):
    def check(x):
        counts = torch.bincount(x.long(), minlength=classes)
        found = {"chi-square": chi_square(counts, [x.numel() / classes] * classes)}
        return found | serial_correlations(x.double())

    return check


def finite(x):
    return bool(x.isfinite().all())


def positive(x):
    return bool((x.isfinite() & (x > 0)).all())


def of(parameter, function, dtype=torch.float32):
    return lambda count, device: function(
        torch.full((count,), parameter, dtype=dtype, device=device)
    )


def binomial(n, p):
    return lambda count, device: torch.binomial(
        torch.full((count,), float(n), device=device), torch.full((count,), p, device=device)
    )


def first_of_dirichlet(*alpha):
    def draw(count, device):
        weights = torch.tensor(alpha, device=device).expand(count, len(alpha))
        return torch._sample_dirichlet(weights)[:, 0]

    return draw


def permutations(count, device):
    """Numbers of the permutations of five, from 0 to 119."""
    keys = torch.stack([torch.randperm(5, device=device) for _ in range(min(count // 5, 20_000))])
    keys = keys.cpu()
    code = torch.zeros(len(keys), dtype=torch.int64)
    for place in range(4):
        smaller = (keys[:, place + 1 :] < keys[:, place : place + 1]).sum(1)
        code = code * (5 - place) + smaller
    return code


def places_of_long_permutations(count, device):
    """For places in one 64th of a permutation: which 64th the number at each place belongs to."""
    size = 64 * 64
    rows = [torch.randperm(size, device=device)[:64] // 64 for _ in range(max(count // 20_000, 50))]
    return torch.cat(rows)


def drawn_twice(count, device):
    """Pairs that multinomial draws without replacement, as numbers of ordered pairs."""
    weights = torch.tensor([1.0, 2.0, 3.0, 4.0], device=device).expand(count // 2, 4)
    first, second = torch.multinomial(weights, 2).unbind(1)
    return first * 4 + second


def shares_of_pairs():
    weights = [1, 2, 3, 4]
    return [
        0 if i == j else weights[i] / 10 * weights[j] / (10 - weights[i])
        for i in range(4)
        for j in range(4)
    ]


def shares(expected):
    def check(x):
        counts = torch.bincount(x.long(), minlength=len(expected))
        return {"chi-square": chi_square(counts, [x.numel() * share for share in expected])}

    return check


def dropped(p):
    return lambda count, device: torch.native_dropout(torch.ones(count, device=device), p, True)[1]


def float_rows(dtype):
    """Rows of each floating-point type."""
    row = functools.partial(label, dtype=dtype)
    draw = functools.partial(method, dtype=dtype)
    return [
        Row(row("rand"), draw("uniform_"), uniform, lambda x: bool(((x >= 0) & (x < 1)).all())),
        Row(row("normal_(2, 3)"), draw("normal_", 2, 3), continuous(stats.norm(2, 3)), finite),
        Row(row("exponential_(2)"), draw("exponential_", 2), continuous(stats.expon(scale=0.5)),
            positive),
        Row(row("cauchy_(1, 2)"), draw("cauchy_", 1, 2), continuous(stats.cauchy(1, 2)),
            None if dtype in HALVES else finite),
        Row(row("log_normal_(0.5, 0.25)"), draw("log_normal_", 0.5, 0.25),
            continuous(stats.lognorm(0.25, scale=math.exp(0.5))), positive),
        Row(row("geometric_(0.25)"), draw("geometric_", 0.25), discrete(stats.geom(0.25)),
            positive),
        Row(row("bernoulli_(0.3)"), draw("bernoulli_", 0.3), discrete(stats.bernoulli(0.3))),
        Row(row("gamma(4)"), of(4.0, torch._standard_gamma, dtype), continuous(stats.gamma(4)),
            positive),
    ]  # fmt: skip


def integer_rows():
    rows = []
    for dtype, bits in {torch.uint8: 8, torch.int8: 7, torch.int16: 15, torch.int32: 31}.items():
        rows.append(Row(label("random_", dtype), method("random_", dtype=dtype), integers(bits)))
    whole = method("random_", -(2**63), None, dtype=torch.int64)
    rows.append(Row("random_ int64, all of them", whole, integers(63)))
    rows += [
        Row("random_ int64", method("random_", dtype=torch.int64), integers(63)),
        Row("randint(1000)", lambda n, d: torch.randint(1000, (n,), device=d), equal_shares(1000)),
        Row("randint(3 * 2^30)", lambda n, d: torch.randint(3 << 30, (n,), device=d) >> 20,
            equal_shares(3072)),
    ]  # fmt: skip
    return rows


def variate_rows():
    gamma = torch._standard_gamma
    rows = [
        Row(f"gamma({a})", of(a, gamma), continuous(stats.gamma(a)), positive)
        for a in (0.1, 0.5, 1.0, 30.0)
    ]
    for rate in (0.5, 3.0, 9.99, 10.0, 40.0, 1000.0, 1e5):
        rows.append(Row(f"poisson({rate})", of(rate, torch.poisson), discrete(stats.poisson(rate))))
    small = [(10, 0.3), (100, 0.3), (100, 0.7), (1000, 0.01), (10**4, 0.4)]
    for n, p in (*small, (10**6, 0.5), (10**7, 5e-5), (10**9, 5e-7)):
        rows.append(
            Row(f"binomial({n}, {p})", binomial(n, p), discrete(stats.binom(n, numpy.float32(p))))
        )
    rows += [
        Row("beta(0.5, 2)", first_of_dirichlet(0.5, 2.0), continuous(stats.beta(0.5, 2))),
        Row("dirichlet(1, 2, 5)", first_of_dirichlet(1.0, 2.0, 5.0), continuous(stats.beta(1, 7))),
        Row("randperm(5)", permutations, equal_shares(120)),
        Row("randperm(4096)", places_of_long_permutations, equal_shares(64)),
        Row("multinomial with replacement",
            lambda n, d: torch.multinomial(torch.tensor([1.0, 2, 3, 4], device=d), n, True),
            shares([0.1, 0.2, 0.3, 0.4])),
        Row("multinomial without", drawn_twice, shares(shares_of_pairs())),
        Row("dropout's mask", dropped(0.5), lambda x: bit_tests(x.long(), 1)),
        Row("dropout(0.1)'s mask", dropped(0.1), discrete(stats.bernoulli(0.9))),
    ]  # fmt: skip
    return rows


def all_rows():
    rows = [row for dtype in FLOATS for row in float_rows(dtype)]
    return rows + integer_rows() + variate_rows()


def two_seeds(first, second, count, device):
    numbers = []
    for seed in (first, second):
        torch.manual_seed(seed)
        numbers.append(torch.rand(count, device=device).cpu().double())
    return pairs(*numbers)


def independence(count, device):
    """{what: p-value} of pairs of draws that should have nothing in common."""
    found = {
        f"seeds {a} and {b}": two_seeds(a, b, count, device)
        for a, b in ((0, 1), (1, 2), (1, 2**32 + 1), (7, 7 + 2**63), (5, 2**32 * 5))
    }
    torch.manual_seed(1)
    draws = [torch.rand(count, device=device).cpu().double() for _ in range(2)]
    found["successive calls"] = pairs(*draws)
    streams = [torch.ocl.Stream(device), torch.ocl.Stream(device)]
    draws = []
    for stream in streams:
        with torch.ocl.stream(stream):
            draws.append(torch.rand(count, device=device).cpu().double())
    found["two streams"] = pairs(*draws)
    torch.manual_seed(1)
    normal = torch.randn(count, device=device).cpu().double()
    poisson = torch._standard_gamma(torch.ones(count, device=device)).cpu().double()
    found["normal and gamma"] = pairs(torch.special.ndtr(normal), 1 - (-poisson).exp())
    torch.manual_seed(1)
    first = torch._standard_gamma(torch.ones(count, device=device)).cpu().double()
    torch.manual_seed(1)
    found["gamma and rand of one seed"] = pairs(
        1 - (-first).exp(), torch.rand(count, device=device).cpu().double()
    )
    return found


def repeated_words(device, launches=200, size=9999):
    """How many of the 64-bit words of many launches come twice; other draws lie between them."""
    torch.manual_seed(3)
    words = []
    for k in range(launches):
        count = size + k % 67
        words.append(
            torch.empty(count, dtype=torch.int64, device=device).random_(-(2**63), None).cpu()
        )
        torch.rand(k % 130 + 1, device=device)
        torch.poisson(torch.ones(k % 70 + 1, device=device))
        torch.randperm(k % 90 + 1, device=device)
    words = torch.cat(words)
    return words.numel() - words.unique().numel()
