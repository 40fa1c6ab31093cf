"""Fourier transforms against CPU: lengths, dimensions, norms, layouts, gradients."""

import math

import numpy as np
import pytest
import torch
from support import generator, name_of

TYPES = pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=name_of)
# Lengths with every radix, with several of one, and primes with and without a radix of their own.
LENGTHS = [1, 2, 3, 4, 5, 6, 7, 8, 12, 15, 16, 29, 30, 31, 36, 37, 49, 60, 64, 74, 97, 100]
LENGTHS += [101, 128, 210, 243, 343, 509, 512, 961, 1000, 1024]


def numbers(shape, dtype=torch.complex64, seed=0):
    return torch.randn(shape, dtype=dtype, generator=generator(seed))


def check(actual, x, expected, factor=4):
    """Within a few roundings of the norm of the row, as the best libraries are."""
    assert actual.device.type == "ocl"
    assert actual.shape == expected.shape
    assert actual.dtype.is_complex == expected.dtype.is_complex
    single = actual.dtype in (torch.complex64, torch.float32)
    epsilon = 1.2e-7 if single else 2.3e-16
    error = (actual.cpu().to(expected.dtype) - expected).abs().max().item()
    rounding = epsilon * expected.abs().max().item() * (1 + math.log2(x.numel() + 1))
    assert error <= factor * rounding + 1e-30, (error, rounding)


def double(x):
    return x.to(torch.complex128 if x.is_complex() else torch.float64)


def compare(device, function, x, factor=4):
    """The reference is computed in double precision."""
    check(function(x.to(device)), x, function(double(x)), factor)


@pytest.mark.sample
@pytest.mark.parametrize("n", [1, 6, 16, 35, 37, 60])
def test_sample(device, n):
    compare(device, torch.fft.fft, numbers((3, n)))
    compare(device, lambda x: torch.fft.ifft(x, dim=1), numbers((2, n, 3)))
    compare(device, torch.fft.rfft, numbers((3, n), torch.float32))
    compare(device, lambda x: torch.fft.irfft(x, n=n), numbers((3, n // 2 + 1)))
    compare(device, torch.fft.fft2, numbers((n, 4), torch.float32))


def compare_with_numpy(device, name, x, **options):
    """The reference is computed in long double: MKL's transforms of some lengths, 74 and 961 among
    them, lose more than a digit on some processors."""
    wide = x.numpy().astype(np.clongdouble if x.is_complex() else np.longdouble)
    exact = getattr(np.fft, name)(wide, **options)
    exact = torch.from_numpy(exact.astype(complex if np.iscomplexobj(exact) else float))
    check(getattr(torch.fft, name)(x.to(device), **options), x, exact)


@pytest.mark.parametrize("n", LENGTHS)
@TYPES
def test_lengths(device, n, dtype):
    real = torch.float32 if dtype == torch.complex64 else torch.float64
    for rows in (1, 5):
        x, y = numbers((rows, n), dtype), numbers((rows, n), real)
        for name in ("fft", "ifft"):
            compare_with_numpy(device, name, x)
            compare_with_numpy(device, name, y)
        compare_with_numpy(device, "rfft", y)
        compare_with_numpy(device, "ihfft", y)
        for name in ("irfft", "hfft"):
            compare_with_numpy(device, name, numbers((rows, n // 2 + 1), dtype), n=n)


@pytest.mark.parametrize("n", [8192, 16384, 3 * 8192, 65536, 10007, 50 * 1021, 5**6])
def test_long(device, n):
    compare(device, torch.fft.fft, numbers((2, n)))
    compare(device, torch.fft.rfft, numbers((n,), torch.float32))
    compare(device, lambda x: torch.fft.irfft(x, n=n), numbers((n // 2 + 1,)))


@pytest.mark.parametrize("n", [1, 2, 9, 10, 37, 74, 101, 202])
def test_ignored_parts(device, n):
    """Real results do not depend on the imaginary part of what mirrors itself."""
    x = numbers((3, n // 2 + 1))
    for function in (torch.fft.irfft, torch.fft.hfft):
        for ignored in (1e7, math.inf):
            y = x.clone()
            y.imag[:, 0] = ignored
            if n % 2 == 0:
                y.imag[:, -1] = ignored
            given = y.to(device)
            assert torch.equal(function(given, n).cpu(), function(x.to(device), n).cpu())
            assert torch.equal(given.cpu(), y)


def test_tables_on_streams(device):
    """A table that gave way to others stays while another stream's transform reads it."""
    n = 3 << 18
    x = numbers((n,)).to(device)
    expected = torch.fft.fft(x)
    torch.ocl.synchronize()
    other = torch.ocl.Stream(device)
    with torch.ocl.stream(other):
        results = [torch.fft.fft(x) for _ in range(4)]
    for length in range(40, 80):  # more than the cache keeps
        torch.fft.fft(torch.ones(length, dtype=x.dtype, device=device))
    fillers = [torch.full((n,), 7.0, dtype=x.dtype, device=device) for _ in range(4)]
    torch.ocl.synchronize()
    assert fillers and all(torch.equal(result, expected) for result in results)


@pytest.mark.parametrize("rows", [1, 2, 7, 8, 9, 30])
@pytest.mark.parametrize("columns", [1, 2, 7, 8, 9, 30])
def test_batches(device, rows, columns):
    for n in (12, 21):
        compare(device, lambda x: torch.fft.fft(x, dim=1), numbers((rows, n, columns)))


@pytest.mark.sample
@pytest.mark.parametrize("norm", ["forward", "backward", "ortho"])
def test_norms(device, norm):
    x, y = numbers((3, 4, 10)), numbers((3, 4, 10), torch.float32)
    for function in (torch.fft.fft, torch.fft.ifft, torch.fft.fftn, torch.fft.ifft2):
        compare(device, lambda t, f=function: f(t, norm=norm), x)
    for function in (torch.fft.rfft, torch.fft.rfftn, torch.fft.ihfft2):
        compare(device, lambda t, f=function: f(t, norm=norm), y)
    for function in (torch.fft.irfft, torch.fft.irfftn, torch.fft.hfft2):
        compare(device, lambda t, f=function: f(t, norm=norm), x)


@pytest.mark.parametrize("dims", [(0,), (1,), (2,), (0, 1), (2, 0), (1, 2), (0, 1, 2), (-1, 1)])
def test_dimensions(device, dims):
    x, y = numbers((6, 7, 10)), numbers((6, 7, 10), torch.float32)
    for t in (x, y):
        compare(device, lambda t: torch.fft.fftn(t, dim=dims), t)
        compare(device, lambda t: torch.fft.ifftn(t, s=[5] * len(dims), dim=dims), t)
    compare(device, lambda t: torch.fft.rfftn(t, dim=dims), y)
    compare(device, lambda t: torch.fft.irfftn(t, s=[9] * len(dims), dim=dims), x)
    compare(device, lambda t: torch.fft.hfftn(t, dim=dims), x)


def test_strides(device):
    """Strides are those that PyTorch's meta functions promise to torch.compile: the CPU's with
    MKL."""
    x, y = numbers((3, 4, 5, 6)), numbers((3, 4, 5, 6), torch.float32)
    functions = [lambda t, d: torch.fft.fftn(t, dim=d), lambda t, d: torch.fft.irfftn(t, dim=d)]
    for dims in ((0,), (2,), (3, 1), (0, 2, 1)):
        for view in (lambda t: t, lambda t: t.permute(2, 0, 3, 1), lambda t: t[:, ::2]):
            for function in functions:
                actual = function(view(x.to(device)), dims)
                assert actual.stride() == function(view(x), dims).stride()
            actual = torch.fft.rfftn(view(y.to(device)), dim=dims)
            assert actual.stride() == torch.fft.rfftn(view(y), dim=dims).stride()


@pytest.mark.sample
def test_layouts(device):
    x, y = numbers((5, 12, 6)), numbers((5, 12, 7), torch.float32)
    compare(device, lambda t: torch.fft.fft(t.transpose(0, 2)), x)
    compare(device, lambda t: torch.fft.fft(t[:, ::2, 1:], dim=1), x)
    compare(device, lambda t: torch.fft.rfft(t[1:, ::2, 1:]), y)
    compare(device, lambda t: torch.fft.rfft(t.reshape(-1)[1:13]), y)
    compare(device, lambda t: torch.fft.fft(t.conj()), x)
    compare(device, lambda t: torch.fft.irfft(t.expand(2, 5, 12, 6).conj(), dim=0), x)
    compare(device, lambda t: torch.fft.fft(t.imag), x)


@pytest.mark.sample
def test_out(device):
    x, y = numbers((3, 10)), numbers((3, 10), torch.float32)
    for function, t in ((torch.fft.fft, x), (torch.fft.rfft, y), (torch.fft.irfft, x)):
        expected = function(t)
        for out in (torch.empty_like(expected), torch.empty(0, dtype=expected.dtype)):
            target = out.to(device)
            assert function(t.to(device), out=target) is target
            check(target, t, expected)
        strided = torch.empty(expected.shape[::-1], dtype=expected.dtype).to(device).t()
        function(t.to(device), out=strided)
        check(strided, t, expected)


def test_inputs_stay(device):
    x = numbers((4, 33000)).to(device)
    before = x.cpu()
    torch.fft.fft(x)
    torch.fft.irfft(x[:, :100])
    assert torch.equal(x.cpu(), before)


def test_empty(device):
    for shape in ((0, 4), (3, 0, 4)):
        assert torch.fft.fft(torch.empty(shape).to(device)).shape == shape
        assert torch.fft.rfft(torch.empty(shape).to(device)).shape == (*shape[:-1], 3)
        assert torch.fft.irfft(torch.empty(shape).to(device)).shape == (*shape[:-1], 6)


def test_errors(device):
    x = torch.zeros(4, 4, device=device)
    with pytest.raises(RuntimeError, match="Invalid number of data points"):
        torch.fft.fft(torch.zeros(3, 0, device=device))
    with pytest.raises(RuntimeError, match="Unsupported dtype"):
        torch.fft.fft(x.half())
    with pytest.raises(RuntimeError, match="must be unique"):
        torch.fft.fftn(x, dim=(0, 0))


@pytest.mark.parametrize(
    "function",
    [
        torch.fft.fft,
        torch.fft.ifft,
        torch.fft.rfft,
        torch.fft.irfft,
        torch.fft.hfft,
        torch.fft.ihfft,
        lambda x: torch.fft.rfft2(x),
        lambda x: torch.fft.irfftn(x, norm="ortho"),
        lambda x: torch.fft.fftn(x, s=(4, 9)),
        torch.fft.fftshift,
    ],
)
def test_gradients(device, function):
    for dtype in (torch.float32, torch.complex64):
        x = numbers((4, 6, 10), dtype)
        tensors = [x.clone().requires_grad_(), x.to(device).requires_grad_()]
        try:
            results = [function(t) for t in tensors]
        except RuntimeError:
            with pytest.raises(RuntimeError):  # rfft of complex numbers
                function(tensors[0])
            continue
        grad = numbers(results[0].shape, results[0].dtype, 1)
        for result in results:
            result.backward(grad.to(result.device))
        check(tensors[1].grad, x, tensors[0].grad)


@pytest.mark.parametrize("n", [10, 14, 37, 9])
def test_many_real_rows(device, n):
    """They are transformed in parts, and overlap."""
    x = numbers((2, 600000), torch.float32)
    for rows in (x.unfold(1, n, 3), x.unfold(1, n, 3)[:1], x.unfold(1, n, 3)[:, 1:]):
        expected = torch.fft.rfft(rows)
        place = rows.shape, rows.stride(), rows.storage_offset()
        check(torch.fft.rfft(x.to(device).as_strided(*place)), rows, expected)


@pytest.mark.parametrize("onesided", [True, False])
@pytest.mark.parametrize("normalized", [True, False])
def test_stft(device, onesided, normalized):
    signal = numbers((2, 300), torch.float32)
    window = torch.hann_window(40)

    def there(x):
        return torch.stft(
            x,
            40,
            hop_length=15,
            window=window.to(x),
            normalized=normalized,
            onesided=onesided,
            return_complex=True,
        )

    def back(x):
        w = window.to(x.device).to(x.real.dtype)
        return torch.istft(
            x, 40, hop_length=15, window=w, normalized=normalized, onesided=onesided, length=300
        )

    compare(device, there, signal)
    compare(device, lambda x: back(there(x)), signal, 16)
    tensors = [signal.clone().requires_grad_(), signal.to(device).requires_grad_()]
    for t in tensors:
        back(there(t) * 2).square().sum().backward()
    check(tensors[1].grad, signal, tensors[0].grad, 16)


def test_convolution(device):
    x, y = numbers((3, 100), torch.float32), numbers((3, 20), torch.float32, 1)

    def convolve(a, b, n=119):
        return torch.fft.irfft(torch.fft.rfft(a, n=n) * torch.fft.rfft(b, n=n), n=n)

    check(convolve(x.to(device), y.to(device)), x, convolve(double(x), double(y)), 16)


def test_helpers(device):
    for function in (torch.fft.fftfreq, torch.fft.rfftfreq):
        torch.testing.assert_close(function(9, 0.5, device=device).cpu(), function(9, 0.5))
    x = numbers((5, 6))
    assert torch.equal(torch.fft.fftshift(x.to(device)).cpu(), torch.fft.fftshift(x))
    assert torch.equal(torch.fft.ifftshift(x.to(device)).cpu(), torch.fft.ifftshift(x))
