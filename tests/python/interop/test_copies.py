"""Copies between host and devices, of all types and layouts."""

import pytest
import torch
from support import (
    COMPLEX,
    DTYPES,
    assert_same,
    has_fp64,
    name_of,
    output_of,
    random_tensor,
)
from traces import profiled

# Views of a tensor of shape (4, 6, 5, 3).
LAYOUTS = {
    "dense": lambda x: x,
    "transposed": lambda x: x.transpose(1, 3),
    "channels_last": lambda x: x.contiguous(memory_format=torch.channels_last),
    "offset": lambda x: x[1:, 2:],
    "stepped": lambda x: x[:, ::2, 1::2],
    "expanded": lambda x: x[:, :1].expand(4, 7, 5, 3),
    "one_column": lambda x: x[..., 1],
    "0-dim": lambda x: x[2, 3, 1, 2],
    "empty": lambda x: x[:, 3:3],
}


def fits(dtype, device):
    return dtype != torch.float64 or has_fp64(device)


@pytest.mark.sample
@pytest.mark.parametrize("source", [*DTYPES, *COMPLEX], ids=name_of)
def test_all_pairs_of_types(operator_device, source):
    """On the device, to it and from it. The sources are non-negative: float to unsigned of
    negative numbers is undefined in C++."""
    device = operator_device
    for shape in [(3, 7), (), (0, 2), (100,)]:
        x = random_tensor(shape, source, low=0)
        on_device = x.to(device)
        assert_same(on_device, x)
        for target in [*DTYPES, *COMPLEX]:
            if source.is_complex and not target.is_complex:
                continue
            assert_same(on_device.to(target), x.to(target))
            assert_same(x.to(device, target), x.to(target))
            assert torch.equal(on_device.to("cpu", target), x.to(target))


@pytest.mark.sample
def test_values_at_the_edges(device):
    infinity, nan = float("inf"), float("nan")
    floats = torch.tensor([0.0, -0.0, 0.5, -0.5, 1e-45, 65504.0, 3e38, infinity, -infinity, nan])
    for target in (torch.float16, torch.bfloat16, torch.bool):
        assert_same(floats.to(device).to(target), floats.to(target))
    integers = torch.tensor([0, 1, -1, 2**24 + 1, 2**31, 2**53 + 1, 2**63 - 1, -(2**63)])
    for target in (torch.int32, torch.uint8, torch.bool, torch.float32, torch.float16):
        assert_same(integers.to(device).to(target), integers.to(target))


@pytest.mark.sample
@pytest.mark.parametrize(
    "target",
    [torch.int8, torch.uint8, torch.int16, torch.uint16, torch.uint32, torch.uint64],
    ids=name_of,
)
def test_floats_beyond_an_integer(device, target):
    """They keep their low bits, and what is beyond an int, or 2^64, becomes 0, as on CPU."""
    values = [-1.0, -2.5, 300.75, -300.0, 40000.0, 70000.0, -70000.0, 2.0**24 + 2]
    if target in (torch.uint32, torch.uint64):
        values += [3e9, 2.0**32 - 256]
    if target == torch.uint64:
        values += [-5e9, 1e19, 2e19, float("inf")]
    else:
        values += [2.0**33]
    for source in (torch.float32, torch.float64, torch.bfloat16):
        for count in (1, 7):
            x = torch.tensor(values).repeat(count).to(source)
            assert torch.equal(x.to(device).to(target).cpu(), x.to(target)), source


@pytest.mark.sample
@pytest.mark.parametrize("source", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool], ids=name_of)
def test_layouts(operator_device, source, dtype):
    """Strides are those that CPU gives, in every direction."""
    device = operator_device
    base = random_tensor((4, 6, 5, 3), dtype)
    x = LAYOUTS[source](base)
    on_device = LAYOUTS[source](base.to(device))
    assert torch.equal(on_device.cpu(), x)
    assert on_device.cpu().stride() == x.clone().stride()
    assert_same(x.to(device), x.clone())
    assert_same(on_device.clone(), x.clone())
    assert_same(on_device.contiguous(), x.contiguous())
    assert_same(on_device.to(torch.float16), x.to(torch.float16))
    if x.dim() == 4:
        for memory_format in (torch.contiguous_format, torch.channels_last):
            expected = x.clone(memory_format=memory_format)
            assert_same(on_device.clone(memory_format=memory_format), expected)


@pytest.mark.parametrize(
    "target", ["dense", "transposed", "offset", "stepped", "one_column", "0-dim", "empty"]
)
def test_into_views(operator_device, target):
    """Elements outside of the view keep their values; from the host and from the device."""
    device = operator_device
    base = random_tensor((4, 6, 5, 3), torch.float32, seed=1)
    shape = LAYOUTS[target](base).shape
    dense = random_tensor(shape, torch.float32, seed=2)
    backwards = random_tensor(shape[::-1], torch.int32, seed=3)
    backwards = backwards.permute(list(range(len(shape)))[::-1])
    for x in (dense, backwards, torch.full([1] * len(shape), 2.5), torch.tensor(3)):
        for y in (x, x.to(device)):
            expected, actual = base.clone(), base.to(device)
            LAYOUTS[target](expected).copy_(x)
            LAYOUTS[target](actual).copy_(y)
            assert_same(actual, expected)


# Views whose rows lie along the columns of memory, with whole and with partial tiles.
TRANSPOSED = {
    "matrix": ((70, 130), lambda x: x.t()),
    "one tile": ((16, 64), lambda x: x.t()),
    "planes": ((3, 66, 33), lambda x: x.transpose(1, 2)),
    "inner planes": ((66, 5, 17), lambda x: x.permute(2, 1, 0)),
    "steps": ((40, 2, 80), lambda x: x[3:, 1, 7:].t()),
    "narrow": ((9, 2000), lambda x: x.t()),
    "four dimensions": ((4, 20, 3, 30), lambda x: x.permute(3, 2, 1, 0)),
    "channels_last": ((2, 24, 9, 11), lambda x: x.to(memory_format=torch.channels_last)),
}


@pytest.mark.sample
@pytest.mark.parametrize("dtype", [torch.int8, torch.float16, torch.float32, torch.complex64])
@pytest.mark.parametrize("case", TRANSPOSED)
def test_transposed(device, case, dtype):
    shape, view = TRANSPOSED[case]
    x = random_tensor(shape, dtype)
    expected, actual = view(x), view(x.to(device))
    assert torch.equal(actual.contiguous().cpu(), expected.contiguous())
    target = torch.zeros(*(n + 3 for n in expected.shape), dtype=dtype)
    part = tuple(slice(1, n + 1) for n in expected.shape)
    on_device = target.to(device)
    target[part] = expected
    on_device[part] = actual
    assert torch.equal(on_device.cpu(), target)


def test_transposed_goes_by_tiles(tmp_path):
    code = "import torch; torch.ones(64, 64, device='ocl').t().contiguous().cpu()"
    output_of(code, OCL_DUMP_DIR=str(tmp_path))
    assert list(tmp_path.glob("transpose_*"))


def test_into_host_views(device):
    x = random_tensor((6, 5), torch.float32)
    host = torch.zeros(20, 5)
    host[2:14:2].copy_(x.to(device))
    assert torch.equal(host[2:14:2], x)
    assert host.count_nonzero() == x.count_nonzero()


def test_expanded_target_is_refused(device):
    for source in (torch.ones(3), torch.ones(3).to(device)):
        with pytest.raises(RuntimeError, match="single memory location"):
            torch.empty(1, device=device).expand(3).copy_(source)


@pytest.mark.parametrize("shift", [0, 1])
def test_overlapping_copy_is_like_cpu(device, shift):
    x = torch.arange(10.0)
    y = x.to(device)
    outcomes = []
    for tensor in (x, y):
        try:
            tensor[: 10 - shift].copy_(tensor[shift:])
            outcomes.append(tensor.cpu().tolist())
        except RuntimeError as error:
            outcomes.append(str(error))
    assert outcomes[0] == outcomes[1]


@pytest.mark.sample
def test_float64_and_complex_keep_every_bit(device):
    """This holds even on a device that cannot compute in float64."""
    bits = torch.randint(-(2**62), 2**62, (64,), generator=torch.Generator().manual_seed(3))
    doubles = bits.view(torch.float64)
    for x in (doubles, torch.complex(doubles[:32], doubles[32:])):
        on_device = x.to(device)
        for y in (on_device, on_device.clone(), on_device[::1].contiguous()):
            assert torch.equal(
                torch.view_as_real(y.cpu()) if x.is_complex() else y.cpu(),
                torch.view_as_real(x) if x.is_complex() else x,
            )
        strided = torch.empty(3, len(x), dtype=x.dtype, device=device).t()
        strided[:, 1] = on_device
        assert strided[:, 1].cpu().equal(x)
        assert on_device[5].item() == x[5].item()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=name_of)
def test_16_bit_floats_keep_every_bit(device, dtype):
    """NaNs keep their bits, too, quiet or not."""
    bits = torch.arange(-(2**15), 2**15).to(torch.int16).view(256, 256)
    x = bits.view(dtype).to(device)
    target = torch.empty(256, 512, dtype=dtype, device=device)[:, ::2]
    target.copy_(x)
    for actual, expected in {
        x[:, ::2]: bits[:, ::2],
        target: bits,
        x.view(16, 16, 256).transpose(0, 1): bits.view(16, 16, 256).transpose(0, 1),
        torch.cat([x, x[:, :3]], 1): torch.cat([bits, bits[:, :3]], 1),
    }.items():
        assert torch.equal(actual.contiguous().view(torch.int16).cpu(), expected)


@pytest.mark.sample
@pytest.mark.parametrize("dtype", COMPLEX, ids=name_of)
def test_lazy_conjugation_and_negation(device, dtype):
    x = random_tensor((3, 4), dtype)
    y = x.to(device)
    assert torch.equal(y.conj().cpu(), x.conj())
    assert torch.equal(x.conj().to(device).cpu(), x.conj())
    assert torch.equal(y.conj().clone().cpu(), x.conj())
    assert torch.equal(y.conj().resolve_conj().cpu(), x.conj().resolve_conj())
    assert torch.equal(y.mH.contiguous().cpu(), x.mH)
    assert torch.equal(y.real.cpu(), x.real)
    assert torch.equal(y.imag.cpu(), x.imag)
    if fits(x.real.dtype, device):
        assert torch.equal(y.conj().imag.cpu(), x.conj().imag)
        assert torch.equal(y.conj().imag.resolve_neg().cpu(), x.conj().imag)
    z = y.clone()
    z.conj().copy_(x)
    assert torch.equal(z.cpu(), x.conj())
    z.copy_(y.conj())
    assert torch.equal(z.cpu(), x.conj())
    assert y.conj()[1, 2].item() == x.conj()[1, 2].item()


@pytest.mark.parametrize("shape", [(1000,), (30, 40), (0,), ()])
def test_non_blocking_with_pinned_memory(device, shape):
    x = random_tensor(shape, torch.float32)
    pinned = x.pin_memory()
    on_device = pinned.to(device, non_blocking=True)
    back = torch.empty(shape, pin_memory=True)
    back.copy_(on_device, non_blocking=True)
    torch.ocl.synchronize()
    assert torch.equal(back, x)
    # Another layout or type cannot be a plain transfer.
    assert torch.equal(pinned.to(device, torch.float16, non_blocking=True).cpu(), x.half())
    half = torch.empty(shape, dtype=torch.float16, pin_memory=True)
    half.copy_(on_device, non_blocking=True)
    torch.ocl.synchronize()
    assert torch.equal(half, x.half())


def test_non_blocking_copies_follow_their_stream(device):
    stream = torch.ocl.Stream()
    back = torch.empty(1000, pin_memory=True)
    x = torch.zeros(1000).to(device)
    torch.ocl.synchronize()
    with stream:
        for _ in range(100):
            x.add_(1)
        back.copy_(x, non_blocking=True)
        x.sub_(x)  # after the copy
    stream.synchronize()
    assert back.eq(100).all()


@pytest.mark.parametrize("dtype", [*DTYPES, *COMPLEX], ids=name_of)
@pytest.mark.parametrize("layout", ["dense", "transposed", "stepped", "expanded", "0-dim", "empty"])
def test_between_devices(two_devices, dtype, layout):
    first, second = two_devices
    base = random_tensor((4, 6, 5, 3), dtype)
    x = LAYOUTS[layout](base)
    y = LAYOUTS[layout](base.to(first)).to(second)
    assert y.device == torch.device(second)
    assert_same(y, x.clone())
    z = torch.empty((*x.shape, 2), dtype=dtype, device=first)
    z[..., 1] = y
    assert torch.equal(z[..., 1].cpu(), x)
    if not dtype.is_complex:
        assert_same(y.to(first, torch.float32), x.to(torch.float32).clone())


def test_item_and_lists(operator_device):
    for dtype in DTYPES:
        x = random_tensor((2, 3), dtype)
        assert x.to(operator_device)[1, 2].item() == x[1, 2].item()
        assert x.to(operator_device).tolist() == x.tolist()


@pytest.mark.sample
def test_views_are_aligned_to_their_element_only(device):
    """In a process of its own: a kernel that assumes more may take the process down."""
    code = f"""
        import torch
        for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.uint8):
            for shift in (1, 2, 3, 5):
                x = torch.arange(203).remainder(100).to(dtype)
                y = x.to("{device}")
                y[shift : shift + 150] = y[50 : 200] + 1  # a store to an odd place
                z = y[shift : shift + 150].clone() * 2  # a load from an odd place
                x[shift : shift + 150] = x[50 : 200] + 1
                assert y.cpu().equal(x) and z.cpu().equal(x[shift : shift + 150] * 2), dtype
                y[shift : shift + 100] = y[202]  # one number, many times
                y[shift + 100 : shift + 150].fill_(3)
                x[shift : shift + 100] = x[202]
                x[shift + 100 : shift + 150].fill_(3)
                assert y.cpu().equal(x), dtype
                half = x.half()[shift : shift + 150]
                assert y[shift : shift + 150].half().cpu().equal(half), dtype
    """
    output_of(code)


def test_memory_at_an_odd_address(device, tmp_path):
    """Rows of words need the addresses of words, which memory of others may not have."""
    bytes_ = torch.arange(2**17 + 4, device=device).to(torch.uint8)
    for offset, kernel in ((0, "i32"), (1, "u8")):
        x = torch.empty(0, dtype=torch.uint8, device=device)
        x.set_(bytes_.untyped_storage()[offset : offset + 2**17])
        copies = profiled(lambda x=x: x.view(4, -1)[:, : 2**14].clone(), tmp_path).names()
        assert len(copies) == 1 and kernel in copies[0], copies
        assert torch.equal(x.clone(), bytes_[offset : offset + 2**17])


@pytest.mark.parametrize(
    ("number", "dtype"),
    [(2.0**32 - 256, torch.uint32), (2.0**63 + 2.0**40, torch.uint64), (2.0**31, torch.int32)],
)
def test_negated_numbers_are_converted_as_they_read(device, number, dtype):
    view = torch.complex(torch.zeros(2), torch.full((2,), -number)).to(device).conj().imag
    assert view.is_neg()
    expected = view.resolve_neg().to(dtype).cpu()
    assert torch.equal(torch.zeros(2, dtype=dtype, device=device).copy_(view).cpu(), expected)


def test_negated_numbers_into_bool(device):
    x = torch.tensor([1 + 2j, 3 + 0j])
    result = torch.empty(2, dtype=torch.bool, device=device)
    assert result.copy_(x.to(device).conj().imag).tolist() == [True, False]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch has no other device here")
def test_copies_to_other_devices(device):
    x = torch.randn(30, 7)
    for mine in (x.to(device), x.to(device).t(), x.to(device).half()):
        for non_blocking in (False, True):
            there = mine.to("cuda", non_blocking=non_blocking)
            assert torch.equal(there.cpu(), mine.cpu())
            assert torch.equal(there.to(device, non_blocking=non_blocking).cpu(), mine.cpu())


@pytest.mark.parametrize("count", [1, 5, 33, 70_000, 65_536 * 4])
def test_copies_of_bools_are_0_or_1(device, count):
    """A view of other bytes as bool gives 0 or 1, too."""
    x = torch.arange(count).to(torch.uint8)
    expected = (x != 0).to(torch.uint8)
    bools = x.to(device).view(torch.bool)
    copies = [bools.clone(), torch.empty_like(bools).copy_(bools)]
    if count % 64 == 0:
        matrix = bools.view(-1, 64)
        copies += [matrix.t().contiguous().t(), matrix[:, :36].clone(), matrix.t().clone()]
    for copy in copies:
        bits = copy.view(torch.uint8) if copy.is_contiguous() else copy.t().view(torch.uint8).t()
        wanted = expected.view(-1, 64)[:, : bits.shape[-1]] if bits.dim() == 2 else expected
        wanted = wanted if bits.shape == wanted.shape else expected.view(-1, 64).t()
        assert torch.equal(bits.cpu(), wanted)
