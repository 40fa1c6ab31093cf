"""torch.ocl.compile_kernel: kernels of users, what they take, and what they refuse."""

import re
import struct

import pytest
import torch

from torch_ocl import _C

SOURCE = """
    typedef struct { int a; float b; } Pair;
    __kernel void scale(__global float* x, float by) { x[get_global_id(0)] *= by; }
    __kernel void add(__global const float* a, __global const float* b, __global float* out) {
      const size_t i = get_global_id(0);
      out[i] = a[i] + b[i];
    }
    __kernel void rows(__global const int* x, int row, int step, __global int* out) {
      out[get_global_id(0)] = x[get_global_id(0) * row * step];
    }
    __kernel void fill(__global float4* x, float4 value) { x[get_global_id(0)] = value; }
    __kernel void third(__global float* x, float3 value) { x[get_global_id(0)] = value.z; }
    __kernel void pair(__global float* x, Pair value) { x[get_global_id(0)] = value.a + value.b; }
    __kernel void null(__global const float* x, __global int* out) { *out = x == 0; }
    __kernel __attribute__((reqd_work_group_size(4, 1, 1)))
    void group_sum(__global const float* x, __constant float* factor, __local float* sums,
                   __global float* out) {
      sums[get_local_id(0)] = x[get_global_id(0)];
      barrier(CLK_LOCAL_MEM_FENCE);
      if (get_local_id(0) == 0)
        out[get_group_id(0)] = *factor * (sums[0] + sums[1] + sums[2] + sums[3]);
    }
    __kernel void sizes(__global int* out) {
      const size_t i = (get_global_id(2) * get_global_size(1) + get_global_id(1)) *
                       get_global_size(0) + get_global_id(0);
      out[i] = get_local_size(0) * 100 + get_local_size(1) * 10 + get_local_size(2);
    }
    __kernel void anything(__global void* x) { ((__global uchar*)x)[get_global_id(0)] = 1; }
"""


@pytest.fixture
def library(device):
    return torch.ocl.compile_kernel(SOURCE)


@pytest.mark.sample
def test_call(device, library):
    x = torch.arange(10.0, device=device)
    library.scale(x, 2)
    assert x.tolist() == [2.0 * i for i in range(10)]
    out = torch.empty_like(x)
    library.add(x, x, out)
    assert out.tolist() == [4.0 * i for i in range(10)]


def test_names_and_signatures(library):
    assert {"scale", "add", "group_sum"} <= set(dir(library))
    assert repr(library.scale) == "__kernel void scale(__global float* x, float by)"
    assert "__kernel void add(__global const float* a" in repr(library)
    with pytest.raises(AttributeError, match=r"no kernel 'other', but: .*scale"):
        library.other  # noqa: B018


# The other dtypes that a kernel takes for a parameter of this type: name, dtypes.
POINTERS = {
    "char": [torch.int8, torch.bool],
    "uchar": [torch.uint8, torch.bool],
    "short": [torch.int16],
    "ushort": [torch.uint16, torch.bfloat16],
    "int": [torch.int32],
    "uint": [torch.uint32],
    "unsigned int": [torch.uint32],
    "long": [torch.int64],
    "ulong": [torch.uint64],
    "float": [torch.float32, torch.complex64],
    "float2": [torch.float32, torch.complex64],
    "half": [torch.float16],
    "double": [torch.float64, torch.complex128],
}
ALL = sorted({t for types in POINTERS.values() for t in types}, key=str)


def test_every_type_has_a_pointer():
    assert set(ALL) == set(_C.element_types().values())


@pytest.mark.parametrize("name", POINTERS)
def test_types_of_pointers(device, name):
    properties = torch.ocl.get_device_properties(device)
    if name == "double" and not properties.has_fp64:
        pytest.skip("the device has no double")
    source = f"__kernel void touch(__global {name}* x) {{}}"
    touch = torch.ocl.compile_kernel(source).touch
    for dtype in ALL:
        if dtype.itemsize * (2 if dtype.is_complex else 1) > 8 and not properties.has_fp64:
            continue
        x = torch.zeros(4, dtype=dtype).to(device)
        if dtype in POINTERS[name]:
            touch(x)
            continue
        wanted = " or ".join(str(t).removeprefix("torch.") for t in POINTERS[name])
        with pytest.raises(TypeError) as error:
            touch(x)
        text = str(error.value)
        assert re.search(r"touch\(\): argument 0 \(__global \w+( int)?\* ?x\)", text), text
        assert f"must be a tensor of {wanted}, not a tensor of {str(dtype)[6:]}" in text
        assert f"shape [4], on {device}" in text


INTEGERS = {
    "char": (-(2**7), 2**7 - 1),
    "uchar": (0, 2**8 - 1),
    "short": (-(2**15), 2**15 - 1),
    "ushort": (0, 2**16 - 1),
    "int": (-(2**31), 2**31 - 1),
    "uint": (0, 2**32 - 1),
    "long": (-(2**63), 2**63 - 1),
    "ulong": (0, 2**64 - 1),
}


@pytest.mark.parametrize("name", INTEGERS)
def test_numbers_of_each_integer_type(device, name):
    source = f"__kernel void put(__global {name}* x, {name} value) {{ *x = value; }}"
    put = torch.ocl.compile_kernel(source).put
    x = torch.zeros(1, dtype=POINTERS[name][0]).to(device)
    low, high = INTEGERS[name]
    for value in (low, high, 1, True):
        put(x, value)
        assert x.item() == int(value)
    for value in (low - 1, high + 1):
        with pytest.raises(ValueError, match="does not fit"):
            put(x, value)
    with pytest.raises(TypeError, match=r"argument 1 \(\w+ value\) must be an integer, not 1.5"):
        put(x, 1.5)
    assert x.item() == 1


def test_numbers_of_floating_types(device):
    x = torch.zeros(8, device=device)
    library = torch.ocl.compile_kernel(SOURCE)
    library.scale(x.add_(1), 2**62)
    assert x[0].item() == 2.0**62
    library.fill(x, (1, 2.5, True, -4), threads=2)
    assert x.tolist() == [1, 2.5, 1, -4] * 2
    library.third(x, (1, 2, 3))
    assert x.tolist() == [3.0] * 8
    with pytest.raises(ValueError, match=r"argument 1 \(float4 value\) takes 4 number\(s\), got 3"):
        library.fill(x, (1, 2, 3))
    with pytest.raises(ValueError, match=r"takes 4 number\(s\), got 1"):
        library.fill(x, 1)
    if torch.ocl.get_device_properties(device).has_fp64:
        source = "__kernel void put(__global double* x, double value) { *x = value; }"
        y = torch.zeros(1, dtype=torch.float64, device=device)
        torch.ocl.compile_kernel(source).put(y, 1 / 3)
        assert y.item() == 1 / 3


def test_structs_are_bytes(device, library):
    x = torch.zeros(2, device=device)
    library.pair(x, struct.pack("if", 3, 0.25))
    assert x.tolist() == [3.25] * 2
    with pytest.raises(TypeError, match="is no number: give its bytes"):
        library.pair(x, 3)
    for wrong in (b"12345", bytes(9), b""):
        with pytest.raises(ValueError, match=rf"\(Pair value\) takes 8 bytes, got {len(wrong)}"):
            library.pair(x, wrong)


def test_local_and_constant_memory(device, library):
    x = torch.arange(8.0, device=device)
    out, factor = torch.empty(2, device=device), torch.full((1,), 10.0, device=device)
    library.group_sum(x, factor, torch.ocl.LocalMemory(16), out)
    assert out.tolist() == [60, 220]
    with pytest.raises(TypeError, match=r"\(__local float\* sums\) must be .*LocalMemory"):
        library.group_sum(x, factor, 16, out)
    with pytest.raises(TypeError, match=r"cannot be a tensor .*: give torch.ocl.LocalMemory"):
        library.group_sum(x, factor, x, out)
    with pytest.raises(ValueError, match=r"group_size=\[8\], but the kernel is written for \(4, 1"):
        library.group_sum(x, factor, torch.ocl.LocalMemory(16), out, group_size=8)
    with pytest.raises(ValueError, match="at least one byte"):
        torch.ocl.LocalMemory(0)


def test_null_pointer(device, library):
    out = torch.zeros(1, dtype=torch.int32, device=device)
    library.null(None, out)
    assert out.item() == 1
    library.null(torch.ones(1, device=device), out)
    assert out.item() == 0


def test_wrong_arguments(device, library):
    x, y = torch.ones(6, device=device), torch.ones(6, device=device)
    for arguments, error, text in [
        ((x,), TypeError, r"scale\(\) takes 2 argument\(s\) \(x, by\), got 1"),
        ((x, 1, 2), TypeError, "got 3"),
        ((x, y), TypeError, r"\(float by\) cannot be a tensor .*give a number; Tensor.item"),
        (
            (1, 2),
            TypeError,
            r"\(__global float\* x\) must be a tensor on ocl, or None, not the num",
        ),
        ((x, "2"), TypeError, "a tensor, a number, .* not <class 'str'>"),
        ((x, None), TypeError, r"\(float by\) must be a number, or a tuple of them, not None"),
        ((torch.ones(6), 2), ValueError, "must be on ocl, but is a tensor of float32, .* on cpu"),
        ((x.to_sparse(), 2), TypeError, "must be a dense tensor"),
        ((x.view(2, 3).t(), 2), ValueError, r"is not contiguous \(shape \[3, 2\], strides \[1, 3"),
        ((x[::2], 2), ValueError, "pass x.contiguous"),
        ((x.half(), 2), TypeError, "not a tensor of float16"),
    ]:
        with pytest.raises(error, match=text):
            library.scale(*arguments)
    with pytest.raises(ValueError, match="of 24 bytes does not divide into elements of 16 bytes"):
        library.fill(x, (1, 2, 3, 4), threads=1)
    z = torch.zeros(2, dtype=torch.complex64, device=device).conj()
    with pytest.raises(ValueError, match="resolve_conj"):
        library.scale(z, 2)
    assert x.tolist() == [1.0] * 6


def test_tensors_of_two_devices(two_devices):
    library = torch.ocl.compile_kernel(SOURCE)
    a, b = (torch.ones(4, device=device) for device in two_devices)
    with pytest.raises(ValueError, match=r"argument 1 .* is on ocl:1, but argument 0 on ocl:0"):
        library.add(a, b, a)
    library.scale(b, 3)  # built for the second device at its first use there
    assert b.tolist() == [3.0] * 4 and torch.ocl.current_device() == 0


@pytest.mark.sample
@pytest.mark.parametrize("offset", [0, 1, 7, 128, 513])
def test_views(device, library, offset):
    """OpenCL takes buffers from some addresses only; views may begin anywhere."""
    base = torch.arange(2048.0, device=device)
    part = base[offset : offset + 1000]
    library.scale(part, -1)
    expected = torch.arange(2048.0)
    expected[offset : offset + 1000] *= -1
    assert torch.equal(base.cpu(), expected)
    library.add(part, part, part)  # the same memory three times
    expected[offset : offset + 1000] *= 2
    assert torch.equal(base.cpu(), expected)


def test_views_that_overlap_are_refused_where_one_is_copied(device, library):
    base = torch.arange(100.0, device=device)
    with pytest.raises(ValueError, match=r"argument 1 .* overlaps argument 2, .*: pass x.clone"):
        library.add(base[40:50], base[1:11], base[2:12])
    assert base.tolist() == list(range(100))
    out = torch.empty(10, device=device)
    library.add(base[1:11], base[2:12], out)  # both are read only
    assert out.tolist() == [2.0 * i + 3 for i in range(10)]


def test_strided(device, library):
    x = torch.arange(24, dtype=torch.int32, device=device).view(6, 4)
    out = torch.empty(3, dtype=torch.int32, device=device)
    rows = x[::2]
    library.rows(rows, rows.stride(0), 1, out, threads=3, strided=True)
    assert out.tolist() == [0, 8, 16]
    column = x[:, 1]
    with pytest.raises(ValueError, match=r"takes no buffer from .* and is not contiguous"):
        library.rows(column, 4, 1, out, threads=3, strided=True)


def test_empty_tensors(device, library):
    launches = _C.launch_count()
    library.scale(torch.empty(0, device=device), 2)
    assert _C.launch_count() == launches
    out = torch.zeros(1, dtype=torch.int32, device=device)
    library.null(torch.empty(0, device=device), out, threads=1)
    assert out.item() == 1


def test_threads_and_groups(device, library):
    out = torch.zeros(4, 6, 8, dtype=torch.int32, device=device)
    library.sizes(out, threads=(8, 6, 4), group_size=(4, 2, 1))
    assert out.unique().tolist() == [421]
    library.sizes(out, threads=(8, 6, 4))
    assert out.unique().tolist() == [811]
    out.zero_()
    library.sizes(out, threads=torch.tensor(5))
    assert out.count_nonzero() == 5
    for options, text in [
        (
            {"threads": 10, "group_size": 4},
            r"threads \(10, 1, 1\) must be multiples of .*\(4, 1, 1",
        ),
        ({"threads": (1, 2, 3, 4)}, "threads has 1 to 3 dimensions, not 4"),
        ({"threads": -1}, "has a negative size"),
        ({"group_size": 0}, "has a size of 0"),
        ({"threads": 2**20, "group_size": 2**20}, "is larger than the .* work-items"),
        ({"threads": (2**32, 2**32)}, r"is more than 2\^64 work-items in all"),
        ({"threads": (2**32, 2**31, 2**3)}, r"is more than 2\^64 work-items in all"),
        ({"group_size": (2**32, 2**32)}, r"is more than 2\^64 work-items in all"),
    ]:
        with pytest.raises(ValueError, match=text):
            library.sizes(out, **options)
    with pytest.raises(TypeError):
        library.sizes(out, threads=1.5)
    no_tensor = torch.ocl.compile_kernel("__kernel void none(int n) {}").none
    no_tensor(1, threads=3)
    with pytest.raises(TypeError, match="no tensor whose elements could be counted: give threads"):
        no_tensor(1)


SPIN = """__kernel void spin(__global float* x, int steps) {
  float value = x[get_global_id(0)];
  for (int i = 0; i < steps; ++i) value = sin(value);
  x[get_global_id(0)] = value;
}"""


def keep_busy(x):
    """One launch on the current stream, which takes a GPU about a millisecond: long after the host
    has gone on, while small operators end before the host asks."""
    torch.ocl.compile_kernel(SPIN).spin(x, 20_000, threads=64, group_size=1)


def test_streams_and_lifetime(device, library):
    """Ordered on the current stream; memory is not reused while another stream works on it."""
    side = torch.ocl.Stream(device)
    x, ones = (torch.full((1 << 20,), value, device=device) for value in (0.0, 1.0))
    torch.ocl.synchronize(device)
    with torch.ocl.stream(side):
        for _ in range(20):
            library.add(x, ones, x)
    side.synchronize()
    assert x.unique().tolist() == [20]
    del x, ones

    def is_reused_while_in_use():
        """None if the other stream ended too soon to decide."""
        x = torch.zeros(1 << 20, device=device)
        address = x.data_ptr()
        torch.ocl.synchronize(device)
        with torch.ocl.stream(side):
            keep_busy(x)
        del x
        reused = torch.empty(1 << 20, device=device).data_ptr() == address
        return None if side.query() else reused

    assert {is_reused_while_in_use() for _ in range(10)} - {None} == {False}


def test_writes_are_seen_by_autograd(device, library):
    x = torch.ones(4, device=device, requires_grad=True)
    y = x * 1
    z = (y * y).sum()  # saves y
    library.scale(y.detach(), 2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()
    a, b = torch.ones(4, device=device), torch.ones(4, device=device)
    versions = a._version, b._version
    library.add(a, a, b)
    assert (a._version, b._version) == (versions[0], versions[1] + 1)


def test_in_an_autograd_function(device, library):
    class Triple(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x.clone()
            library.scale(y, 3)
            return y

        @staticmethod
        def backward(ctx, gradient):
            gradient = gradient.contiguous().clone()
            library.scale(gradient, 3)
            return gradient

    x = torch.ones(4, device=device, requires_grad=True)
    y = Triple.apply(x)
    y.sum().backward()
    assert (y.tolist(), x.grad.tolist()) == ([3.0] * 4, [3.0] * 4)


def test_tensors_without_memory_are_refused(device, library):
    with torch._subclasses.FakeTensorMode() as mode:
        fake = mode.from_tensor(torch.ones(4, device=device))
    with pytest.raises(TypeError, match=r"no memory of its own, .* torch.library.custom_op"):
        library.scale(fake, 3)


def test_kernels_show_in_profiles(device, library):
    x = torch.ones(64, device=device)
    library.scale(x, 1)
    with torch.profiler.profile() as profile:
        library.scale(x, 1)
        torch.ocl.synchronize(device)
    assert "scale" in {event.name for event in profile.events()}
