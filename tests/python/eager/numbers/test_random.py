"""Random numbers: Philox against the paper's vectors, and the distributions' shapes."""

import math

import pytest
import torch
import torch.nn.functional as F
from support import FLOATS, HALVES, has_fp64, output_of

MASK = 0xFFFFFFFF


def philox(counter, key):
    """Philox 4x32-10 as the paper gives it: four words from four words and two of the key."""
    a, b, c, d = counter
    k0, k1 = key
    for _ in range(10):
        p0, p1 = a * 0xD2511F53, c * 0xCD9E8D57
        a, b, c, d = (p1 >> 32) ^ b ^ k0, p1 & MASK, (p0 >> 32) ^ d ^ k1, p0 & MASK
        k0, k1 = (k0 + 0x9E3779B9) & MASK, (k1 + 0xBB67AE85) & MASK
    return a, b, c, d


# kat_vectors of Random123.
KNOWN = [
    ((0, 0, 0, 0), (0, 0), "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ((MASK,) * 4, (MASK,) * 2, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        "d16cfe09 94fdcceb 5001e420 24126ea1",
    ),
]


@pytest.mark.parametrize("counter, key, words", KNOWN)
def test_reference_has_the_papers_vectors(counter, key, words):
    assert " ".join(f"{word:08x}" for word in philox(counter, key)) == words


def words_of(seed, offset, count):
    """The 32-bit words that elements draw (cl/random.cl): 16 counters give 64 elements."""
    key, words = (seed & MASK, seed >> 32), []
    for block in range((count + 63) // 64):
        numbers = [offset + 16 * block + lane for lane in range(16)]
        draws = [philox((n & MASK, n >> 32, 0, 0), key) for n in numbers]
        words += [draw[k] for k in range(4) for draw in draws]
    return words[:count]


@pytest.mark.sample
@pytest.mark.parametrize("seed, offset", [(0, 0), (0x1234_5678_9ABC_DEF0, (1 << 32) - 24)])
def test_words(device, seed, offset):
    generator = torch.Generator(device)
    generator.set_state(torch.tensor([seed, offset]).view(torch.uint8))
    count = 300
    expected = torch.tensor(words_of(seed, offset, count), dtype=torch.int64)
    x = torch.empty(count, dtype=torch.int64, device=device).random_(1 << 31, generator=generator)
    assert torch.equal(x.cpu(), expected >> 1)
    # The next draw continues after the counters that were taken.
    x.random_(1 << 31, generator=generator)
    expected = torch.tensor(words_of(seed, offset + 16 * 5, count), dtype=torch.int64)
    assert torch.equal(x.cpu(), expected >> 1)


def test_zero_counter_and_seed_give_the_papers_words(device):
    generator = torch.Generator(device).manual_seed(0)
    x = torch.empty(64, dtype=torch.int64, device=device)
    x.random_(1 << 31, generator=generator)
    assert x[::16].tolist() == [int(word, 16) >> 1 for word in KNOWN[0][2].split()]


def draw(device, method, *args, dtype=torch.float32, size=100_000):
    torch.manual_seed(1)
    x = getattr(torch.empty(size, dtype=dtype, device=device), method)(*args).cpu().double()
    torch.manual_seed(1)
    again = getattr(torch.empty(size, dtype=dtype, device=device), method)(*args).cpu().double()
    assert torch.equal(x, again)
    return x


@pytest.mark.parametrize("dtype", FLOATS)
def test_distributions(device, dtype):
    x = draw(device, "uniform_", -1.0, 3.0, dtype=dtype)
    assert -1 <= x.min() < -0.9 and 2.9 < x.max() < 3
    assert x.mean() == pytest.approx(1, abs=0.03)
    x = draw(device, "uniform_", dtype=dtype)
    assert x.min() >= 0 and x.max() < 1
    x = draw(device, "normal_", 2.0, 3.0, dtype=dtype)
    assert (x.mean(), x.std()) == (pytest.approx(2, abs=0.05), pytest.approx(3, abs=0.05))
    assert ((x - 2).abs() < 3).double().mean() == pytest.approx(0.6827, abs=0.02)
    x = draw(device, "exponential_", 2.0, dtype=dtype)
    assert x.mean() == pytest.approx(0.5, abs=0.01) and x.min() >= 0
    x = draw(device, "log_normal_", 0.5, 0.25, dtype=dtype)
    assert x.log().mean() == pytest.approx(0.5, abs=0.01)
    x = draw(device, "cauchy_", 1.0, 2.0, dtype=dtype)
    assert x.median() == pytest.approx(1, abs=0.05)
    assert ((x > -1) & (x < 3)).double().mean() == pytest.approx(0.5, abs=0.02)
    x = draw(device, "geometric_", 0.25, dtype=dtype)
    assert x.min() == 1 and x.mean() == pytest.approx(4, abs=0.1)
    x = draw(device, "bernoulli_", 0.3, dtype=dtype)
    assert set(x.unique().tolist()) == {0, 1} and x.mean() == pytest.approx(0.3, abs=0.01)


@pytest.mark.parametrize("low, high", [(1.0, 2.0), (-2.0, -1.0), (-1.0, 0.0), (0.0, 0.3)])
@pytest.mark.parametrize("dtype", HALVES)
def test_uniform_stays_below_the_end(device, dtype, low, high):
    """The end is not reached even where rounding to the type would give it."""
    x = torch.empty(1 << 16, dtype=dtype, device=device).uniform_(low, high).cpu()
    assert x.max() < torch.tensor(high, dtype=dtype) and x.min() >= low
    assert x.double().mean() == pytest.approx((low + high) / 2, abs=0.01 * (high - low))


def test_least_exponentials(device):
    # One uniform number of this block is nearer to 1 than float32 can represent.
    generator = torch.Generator(device=device)
    for dtype in FLOATS if has_fp64(device) else [torch.float32, *HALVES]:
        generator.manual_seed(5).set_offset(16 * 125574)
        x = torch.empty(64, device=device, dtype=dtype).exponential_(generator=generator).min()
        assert x > 0
        if dtype == torch.float64:
            assert x < 2**-25


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8, torch.float64])
def test_integers(device, dtype):
    x = draw(device, "random_", 5, 105, dtype=dtype)
    assert (x.min(), x.max()) == (5, 104) and x.mean() == pytest.approx(54.5, abs=0.5)
    x = draw(device, "random_", dtype=dtype)
    top = 2**53 if dtype.is_floating_point else torch.iinfo(dtype).max
    assert x.min() >= 0 and x.max() <= top and x.mean() == pytest.approx(top / 2, rel=0.02)


@pytest.mark.parametrize("dtype", [torch.uint32, torch.uint64])
def test_low_bits_of_integers(device, dtype):
    """Numbers beyond 2^24, which are computed in no float."""
    x = draw(device, "random_", 0, 2**32, dtype=dtype).long()
    assert x.max() > 2**31 and (x & 255).double().mean() == pytest.approx(127.5, rel=0.05)


def test_wide_integers(device):
    x = draw(device, "random_", -(2**62), 2**61, dtype=torch.int64)
    assert x.min() >= -(2**62) and x.max() < 2**61
    assert x.mean() == pytest.approx(-(2.0**60), rel=0.05)
    x = draw(device, "random_", -(2**63), None, dtype=torch.int64)
    assert x.min() < -(2**62) and x.max() > 2**62


RANGES = [3 << 20, 3 << 26, 3 << 28, 3 << 29, 3 << 30, 3 << 52, 3 << 58, 3 << 60, 3 << 61]


def check_share(hits, share):
    deviation = (share * (1 - share) / hits.numel()) ** 0.5
    assert abs(hits.double().mean().item() - share) < 5.5 * deviation


@pytest.mark.parametrize("high", RANGES, ids=lambda n: f"{n >> 20}Mi")
def test_residues_of_integers(device, high):
    """Random words that are scaled to a range give some residues more often than others, if they
    have few bits more than the range."""
    torch.manual_seed(0)
    count = 200_000
    drawn = [torch.randint(0, high, (count,), device=device)]
    drawn.append(torch.randint(-high // 2, high // 2, (count,), device=device) + high // 2)
    if high <= 3 << 29:
        drawn.append(torch.empty(count, dtype=torch.int32, device=device).random_(0, high))
    if high <= 1 << 52 and has_fp64(device):
        drawn.append(torch.empty(count, dtype=torch.float64, device=device).random_(0, high))
    for x in drawn:
        x = x.cpu().long()
        for residue in range(3):
            check_share(x % 3 == residue, 1 / 3)
        check_share(x % 2 == 1, 1 / 2)
        check_share(x < high // 3, 1 / 3)
        check_share(x < high // 2, 1 / 2)


def test_exponentials_next_to_zero(device):
    """A uniform number next to 1 has too few digits for them."""
    torch.manual_seed(0)
    x = torch.empty(4_000_000, device=device).exponential_().cpu().double()
    small = x[x < 1e-5] * 2**24
    assert small.numel() == pytest.approx(40, abs=35)
    assert ((small - small.round()).abs() > 0.01).double().mean() > 0.9
    assert small.unique().numel() == small.numel()


def test_tails_of_cauchy(device):
    torch.manual_seed(0)
    x = torch.empty(4_000_000, device=device).cauchy_().cpu().double().abs()
    check_share(x > 1e5, 2 * math.atan(1e-5) / math.pi)
    large = x[x > 1e5]
    assert large.unique().numel() == large.numel()
    check_share(x < 1e-3, 2 * math.atan(1e-3) / math.pi)


def test_digits_of_geometric_integers(device):
    """Numbers beyond 2^24, from a probability below 2^-24."""
    if not has_fp64(device):
        pytest.skip("integers come from float32 there")
    torch.manual_seed(0)
    for dtype in (torch.int64, torch.int32):
        x = torch.empty(100_000, dtype=dtype, device=device).geometric_(1e-8).cpu().long()
        for residue in range(8):
            check_share(x % 8 == residue, 1 / 8)
        check_share(x < 10**7, -math.expm1(-0.1))


def test_wide_integers_without_mul_hi():
    """NVIDIA's drivers 470 compute mul_hi() of ulong wrongly."""
    code = """
        import torch
        x = torch.randint(-(2**40), 2**62, (64,), device="ocl").cpu()
        print(x.min().item() >= -(2**40) and x.max().item() < 2**62)
    """
    assert output_of(code, OCL_BUILD_OPTIONS="-Dmul_hi=max", OCL_KERNEL_FAMILY="cpu") == "True"


def test_bernoulli_of_a_tensor(device):
    p = torch.tensor([0.0, 0.25, 1.0]).repeat(30_000)
    x = torch.bernoulli(p.to(device)).cpu().view(-1, 3).mean(0)
    assert x[0] == 0 and x[2] == 1 and x[1].item() == pytest.approx(0.25, abs=0.02)


def test_normal_of_tensors(device):
    mean = torch.arange(4.0, device=device).repeat(20_000)
    x = torch.normal(mean, 0.1).cpu().view(-1, 4).mean(0)
    torch.testing.assert_close(x, torch.arange(4.0), atol=0.01, rtol=0)


@pytest.mark.parametrize("dtype", FLOATS)
def test_dropout(device, dtype):
    x = torch.ones(40, 50, device=device, dtype=dtype, requires_grad=True)
    y = F.dropout(x, 0.25)
    y.backward(torch.full_like(y, 3))
    kept = (y.detach() != 0).cpu()
    assert kept.double().mean() == pytest.approx(0.75, abs=0.05)
    expected = kept.double() / 0.75
    torch.testing.assert_close(y.detach().cpu().double(), expected, rtol=1e-2, atol=0)
    torch.testing.assert_close(x.grad.cpu().double(), 3 * expected, rtol=1e-2, atol=0)
    assert torch.equal(F.dropout(x, 0.5, training=False).cpu(), x.cpu())


@pytest.mark.parametrize("train", [True, False])
def test_strides_of_dropout(device, train):
    for x in [
        torch.ones(2, 3, 3, 6).to(memory_format=torch.channels_last)[..., ::2],
        torch.ones(2, 3, 4)[:, ::2].transpose(0, 2),
        torch.ones(2, 1, 4).expand(2, 3, 4),
    ]:
        for actual, expected in zip(
            torch.native_dropout(x.to(device), 0.5, train), torch.native_dropout(x, 0.5, train)
        ):
            assert actual.stride() == expected.stride()


@pytest.mark.sample
def test_strided_output_and_every_length(device):
    torch.manual_seed(3)
    whole = torch.empty(1000, device=device).uniform_().cpu()
    for length in (1, 15, 16, 17, 63, 64, 65, 129, 999):
        torch.manual_seed(3)
        part = torch.empty(length, device=device).uniform_().cpu()
        assert torch.equal(part, whole[:length])
    torch.manual_seed(3)
    strided = torch.empty(50, 20, device=device).t()
    strided.uniform_()
    assert torch.equal(strided.cpu().reshape(-1), whole)
    assert math.isclose(whole.double().mean().item(), 0.5, abs_tol=0.05)


# A hash of the bits of every draw, to be compared between processes.
NUMBERS = """
    import hashlib, torch
    def digest(x):
        bits = x.cpu().contiguous().view(torch.uint8).numpy().tobytes()
        return hashlib.sha1(bits).hexdigest()[:8]
    def draw(make):
        torch.manual_seed(11)
        return digest(make())
    d = "ocl:0"
    e = lambda *size, **options: torch.empty(*size, device=d, **options)
    print(
        draw(lambda: torch.rand(70_001, device=d)),
        draw(lambda: torch.rand(3, device=d)),
        draw(lambda: e(7, 300, 5).permute(2, 0, 1).uniform_(-2, 3)),
        draw(lambda: e(5000, dtype=torch.bfloat16).uniform_()),
        draw(lambda: torch.randint(0, 1000, (30_000,), device=d)),
        draw(lambda: torch.randint(-(2**40), 2**62, (3000,), device=d)),
        draw(lambda: e(9000).bernoulli_(0.3)),
        draw(lambda: torch.bernoulli(torch.linspace(0, 1, 9000, device=d))),
        draw(lambda: torch.nn.functional.dropout(torch.ones(9000, device=d), 0.4)),
        draw(lambda: torch.randperm(20_000, device=d)),
        draw(lambda: torch.randperm(20, device=d)),
    )
    torch.manual_seed(11)
    print(*torch.randn(64, device=d).tolist())
    print(*e(64).exponential_().tolist(), *e(64).cauchy_().tolist(), *e(64).log_normal_().tolist())
"""
FIRST_NORMALS = [0.452911, -0.474136, 0.981448, 0.255077]
EXPECTED = (
    "c2cacb43 01e56f4b d2773cad 79bc44ef 42e61b7a d16141fa 2ff1c32e c33b58ee ed019872 "
    "291ae11c a1a4a5b4"
)


def test_same_numbers_everywhere():
    """One seed gives one sequence on every device, runtime, kernel family and launch size: the
    hashes are the same wherever this runs, and normal numbers agree within rounding."""
    outputs = [output_of(NUMBERS, OCL_KERNEL_FAMILY=family) for family in ("cpu", "gpu")]
    rows = [output.splitlines() for output in outputs]
    assert rows[0][0] == rows[1][0] == EXPECTED
    for first, second in zip(rows[0][1:], rows[1][1:], strict=True):
        numbers = [torch.tensor([float(word) for word in row.split()]) for row in (first, second)]
        torch.testing.assert_close(*numbers, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(
        torch.tensor([float(word) for word in rows[0][1].split()[:4]]),
        torch.tensor(FIRST_NORMALS),
        rtol=1e-4,
        atol=1e-5,
    )


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpointed_dropout(device, reentrant):
    """torch.utils.checkpoint draws the same numbers when it runs a part again."""
    x = torch.ones(1000, device=device, requires_grad=True)
    layer = torch.nn.Dropout(0.5)
    y = torch.utils.checkpoint.checkpoint(layer, x * 1, use_reentrant=reentrant)
    following = torch.rand(8, device=device)
    state = torch.ocl.get_rng_state(device)
    y.sum().backward()
    assert torch.equal(x.grad.cpu(), y.detach().cpu())
    assert torch.equal(torch.ocl.get_rng_state(device), state)
    assert following.unique().numel() == 8


@pytest.mark.parametrize("p", [1.5, -0.5, float("nan")])
def test_probabilities_out_of_range(device, p):
    numbers = torch.tensor([0.5, p, 0.2], device=device)
    calls = [
        lambda: torch.bernoulli(numbers),
        lambda: torch.empty(3, device=device).bernoulli_(numbers),
        lambda: torch.empty(3, device=device).bernoulli_(p),
        lambda: torch.native_dropout(numbers, p, True),
        lambda: torch.poisson(-numbers.abs() if p == p else numbers),
    ]
    for call in calls:
        with pytest.raises(RuntimeError):
            call()
            torch.ocl.synchronize()


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0])
def test_dropout_of_integers(device, p):
    x = torch.arange(4)
    for where in ("cpu", device):
        with pytest.raises(RuntimeError, match="can't be cast"):
            torch.native_dropout(x.to(where), p, True)
        assert torch.native_dropout(x.to(where), p, False)[0].tolist() == [0, 1, 2, 3]
