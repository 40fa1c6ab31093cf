"""Contexts, queues and buffers shared with other OpenCL code, here pyopencl's."""

import gc

import numpy as np
import pytest
import torch
from support import on_the_stern_device, output_of, run_python

cl = pytest.importorskip("pyopencl", reason="pyopencl is not installed (make build installs it)")
cl_array = pytest.importorskip("pyopencl.array")

if on_the_stern_device():
    cl.get_platforms()  # pyopencl's loader loads layers at the first call without an object

pytestmark = pytest.mark.filterwarnings("ignore::pyopencl.CompilerWarning")

ADD = """
    __kernel void add(__global float* x, ulong first, float value) {
      x[first + get_global_id(0)] += value;
    }
"""


@pytest.fixture
def queue(device):
    """torch's current queue, as pyopencl's."""
    return cl.CommandQueue.from_int_ptr(torch.ocl.queue())


def test_both_loaders_show_the_same_devices(device):
    """pyopencl has an ICD loader of its own."""
    ours = torch.ocl.device_id(device)
    theirs = [d.int_ptr for p in cl.get_platforms() for d in p.get_devices()]
    assert ours in theirs
    found = cl.Device.from_int_ptr(ours)
    assert found.name == torch.ocl.get_device_name(device)
    context = cl.Context.from_int_ptr(torch.ocl.context(device))
    assert context.devices == [found]


@pytest.mark.parametrize("view", ["whole", "part", "columns"])
def test_buffer_of_a_tensor(device, queue, view):
    x = torch.arange(600.0, device=device).view(20, 30)
    x = {"whole": x, "part": x[3:7], "columns": x[:, 5:9]}[view]
    found = torch.ocl.buffer(x)
    assert found.size == ((x.shape[0] - 1) * 30 + x.shape[1]) * 4
    array = cl_array.Array(
        queue, tuple(x.shape), np.float32, data=found.pyopencl(), offset=found.offset,
        strides=tuple(4 * step for step in x.stride()),
    )  # fmt: skip
    assert array.size == x.numel() and found.int_ptr == array.base_data.int_ptr
    raw = np.empty(found.size // 4, np.float32)
    cl.enqueue_copy(queue, raw, found.pyopencl(), src_offset=found.offset)
    strided = np.lib.stride_tricks.as_strided(raw, x.shape, [4 * s for s in x.stride()])
    assert (strided == x.cpu().numpy()).all()


def test_kernels_of_pyopencl_on_tensors(device, queue):
    """On one queue everything runs in order, without waiting."""
    add = cl.Program(queue.context, ADD).build().add
    x = torch.zeros(1000, device=device)
    found = torch.ocl.buffer(x)
    for round in range(5):
        add(queue, (1000,), None, found.pyopencl(), np.uint64(found.offset // 4), np.float32(2))
        x += round
    assert x.unique().tolist() == [20]


def test_a_buffer_keeps_its_tensor(device, queue):
    x = torch.full((1 << 20,), 3.0, device=device)
    found = torch.ocl.buffer(x)
    memory, offset = found.pyopencl(), found.offset
    del x, found
    for _ in range(4):
        torch.zeros(1 << 20, device=device)  # would take the memory
    host = np.empty(1 << 20, np.float32)
    cl.enqueue_copy(queue, host, memory, src_offset=offset)
    assert (host == 3).all()
    before = torch.ocl.memory_allocated(device)
    del memory
    assert torch.ocl.memory_allocated(device) == before - (4 << 20)


def test_buffer_of_wrong_things(device):
    with pytest.raises(ValueError, match=r"torch.ocl.buffer takes a tensor on ocl, got one on cpu"):
        torch.ocl.buffer(torch.ones(3))
    with pytest.raises(TypeError, match="takes a tensor, not list"):
        torch.ocl.buffer([1])
    empty = torch.ocl.buffer(torch.empty(0, device=device))
    assert (empty.int_ptr, empty.offset, empty.size) == (0, 0, 0)
    with pytest.raises(ValueError, match="without elements has no buffer"):
        empty.pyopencl()


def foreign(queue, count=64, flags=cl.mem_flags.READ_WRITE):
    host = np.arange(count, dtype=np.float32)
    buffer = cl.Buffer(queue.context, flags, host.nbytes)
    if not flags & cl.mem_flags.HOST_NO_ACCESS:
        cl.enqueue_copy(queue, buffer, host)
    return buffer


def test_tensor_of_a_buffer(device, queue):
    buffer = foreign(queue)
    x = torch.ocl.from_buffer(buffer, (8, 8))
    assert x.device == torch.device(device) and x.stride() == (8, 1)
    assert torch.equal(x.cpu(), torch.arange(64.0).view(8, 8))
    x.mul_(2)
    host = np.empty(64, np.float32)
    cl.enqueue_copy(queue, host, buffer)  # the same queue: after the multiplication
    assert (host == 2 * np.arange(64)).all()
    part = torch.ocl.from_buffer(buffer, (3, 2), offset=16, strides=(1, 3))
    assert part.tolist() == [[8, 14], [10, 16], [12, 18]]
    integers = torch.ocl.from_buffer(buffer.int_ptr, 4, torch.int32, device=device)
    assert integers.dtype == torch.int32 and integers.shape == (4,)
    # Round trip: the same buffer, at the same place.
    again = torch.ocl.buffer(part)
    assert (again.int_ptr, again.offset) == (buffer.int_ptr, 16)


@pytest.mark.sample
def test_operators_on_tensors_of_buffers(device, queue):
    """Buffers of others end where the tensor ends: nothing may be read after them."""
    for count in (1, 5, 16, 33, 100):
        flags = cl.mem_flags.READ_WRITE
        tensors = [
            torch.ocl.from_buffer(cl.Buffer(queue.context, flags, 4 * count), count)
            for _ in range(2)
        ]
        values = torch.arange(count, dtype=torch.float32)
        for x in tensors:
            x.copy_(values)
        a, b = tensors
        torch.testing.assert_close((a + b * 2).cpu(), values * 3)
        torch.testing.assert_close(a.exp_().cpu(), values.exp())
        torch.testing.assert_close(b.sum().cpu(), values.sum())
        torch.testing.assert_close(torch.softmax(b, 0).cpu(), torch.softmax(values, 0))
        torch.testing.assert_close((b @ b).cpu(), values @ values)
        matrix, cpu = b.view(1, count), values.view(1, count)
        torch.testing.assert_close((matrix.t() @ matrix).cpu(), cpu.t() @ cpu)
        torch.testing.assert_close(b.cumsum(0).cpu(), values.cumsum(0))
        assert b.flip(0).argmax().item() == 0 and b.sort(descending=True)[0][0] == count - 1


def test_sub_buffers(device, queue):
    whole = foreign(queue, 1024)
    part = whole.get_sub_region(2048, 1024)
    x = torch.ocl.from_buffer(part, 200, offset=64)
    assert x.tolist() == list(range(528, 728))
    torch.ocl.compile_kernel(
        "__kernel void negate(__global float* x) { x[get_global_id(0)] *= -1; }"
    ).negate(x)
    host = np.empty(1024, np.float32)
    cl.enqueue_copy(queue, host, whole)
    assert host[527] == 527 and (host[528:728] == -np.arange(528, 728)).all() and host[728] == 728
    with pytest.raises(ValueError, match="needs 1028 bytes, but the memory has 1024"):
        torch.ocl.from_buffer(part, 257)


def test_a_tensor_keeps_its_buffer(device, queue):
    pool = cl.tools.MemoryPool(cl.tools.ImmediateAllocator(queue))
    buffer = pool.allocate(4096)
    x = torch.ocl.from_buffer(buffer, 1024).fill_(7)
    pointer = buffer.int_ptr
    del buffer
    other = pool.allocate(4096)  # the pool would give the same memory again
    assert other.int_ptr != pointer
    y = x[10:20]
    del x
    assert y.tolist() == [7.0] * 10
    assert pool.active_blocks == 2
    del y
    gc.collect()
    assert pool.active_blocks == 1
    # A plain buffer is kept by OpenCL's own count.
    plain = foreign(queue)
    z = torch.ocl.from_buffer(plain.int_ptr, 64)
    del plain
    assert z[5].item() == 5


def test_no_tensor_of_a_wrong_buffer(device, queue):
    buffer, flags = foreign(queue), cl.mem_flags
    for arguments, options, error, text in [
        ((buffer, 65), {}, ValueError, "needs 260 bytes, but the memory has 256"),
        ((buffer, 64), {"offset": 4}, ValueError, "needs 256 bytes, but the memory has 252"),
        ((buffer, 4), {"offset": 257}, ValueError, "no multiple of the 4 bytes"),
        ((buffer, 4), {"offset": 260}, ValueError, "260 bytes is beyond the 256 bytes"),
        ((buffer, 4), {"offset": -4}, ValueError, "must not be negative"),
        ((buffer, -4), {}, ValueError, "must not be negative"),
        ((buffer, (2, 2)), {"strides": (1,)}, ValueError, "1 strides were given for 2 sizes"),
        ((buffer, (2, 2)), {"strides": (-1, 1)}, ValueError, "stride -1"),
        ((buffer, (2**40, 2**40)), {}, ValueError, "are too large"),
        ((buffer, 4, "float32"), {}, TypeError, "dtype must be a torch.dtype"),
        ((buffer, 4), {"device": "cpu"}, ValueError, "expected an ocl device"),
        ((0, 4), {}, ValueError, "0 is no cl_mem"),
        ((12345, 4), {}, ValueError, "12345 is no cl_mem"),
        (("x", 4), {}, TypeError, "an object of pyopencl, not str"),
        ((foreign(queue, 4, flags.READ_ONLY), 4), {}, ValueError, "CL_MEM_READ_ONLY"),
        ((foreign(queue, 4, flags.READ_WRITE | flags.HOST_NO_ACCESS), 4), {}, ValueError,
         "CL_MEM_HOST_NO_ACCESS"),
    ]:  # fmt: skip
        with pytest.raises(error, match=text):
            torch.ocl.from_buffer(*arguments, **options)
    other = cl.Context(queue.context.devices)
    with pytest.raises(ValueError, match=r"another OpenCL context .*torch.ocl.use_context"):
        torch.ocl.from_buffer(cl.Buffer(other, flags.READ_WRITE, 64), 4)
    if queue.device.image_support and not on_the_stern_device():  # the stern device has no images
        rgba = cl.ImageFormat(cl.channel_order.RGBA, cl.channel_type.UNORM_INT8)
        image = cl.Image(queue.context, flags.READ_WRITE, rgba, shape=(4, 4))
        with pytest.raises(ValueError, match="of a buffer, not of an image"):
            torch.ocl.from_buffer(image, 4)


def test_external_stream(device):
    context = cl.Context.from_int_ptr(torch.ocl.context(device))
    queue = cl.CommandQueue(context)
    stream = torch.ocl.ExternalStream(queue)
    assert stream.device == torch.device(device) and isinstance(stream, torch.ocl.Stream)
    assert torch.ocl.queue(stream) == queue.int_ptr
    assert torch.ocl.ExternalStream(queue.int_ptr) == stream
    assert torch.ocl.ExternalStream(torch.ocl.queue()) == torch.ocl.current_stream()
    add = cl.Program(context, ADD).build().add
    x = torch.zeros(100_000, device=device)
    stream.wait_stream(torch.ocl.current_stream())
    with torch.ocl.stream(stream):
        assert torch.ocl.queue() == queue.int_ptr
        found = torch.ocl.buffer(x)
        for _ in range(10):
            x += 1
            add(queue, (100_000,), None, found.pyopencl(), np.uint64(found.offset // 4),
                np.float32(1))  # fmt: skip
        y = x * 2
    torch.ocl.current_stream().wait_stream(stream)
    assert (x.unique().tolist(), y.unique().tolist()) == ([20], [40])
    x.record_stream(stream)
    del x, found
    del queue  # torch keeps it
    gc.collect()
    with torch.ocl.stream(stream):
        assert (y + 1)[0].item() == 41
    torch.ocl.synchronize(device)


def test_wrong_external_streams(device):
    context = cl.Context.from_int_ptr(torch.ocl.context(device))
    out_of_order = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
    if context.devices[0].queue_properties & out_of_order:
        queue = cl.CommandQueue(context, properties=out_of_order)
        with pytest.raises(ValueError, match="must run its commands in order"):
            torch.ocl.ExternalStream(queue)
    other_context = cl.Context(context.devices)  # Intel's queues do not keep it
    other = cl.CommandQueue(other_context)
    with pytest.raises(ValueError, match="the queue belongs to another OpenCL context than ocl:"):
        torch.ocl.ExternalStream(other)
    with pytest.raises(ValueError, match="7 is no cl_command_queue"):
        torch.ocl.ExternalStream(7)
    with pytest.raises(TypeError, match="not NoneType"):
        torch.ocl.ExternalStream(None)
    with pytest.raises(ValueError, match=r"the queue is of ocl:., not of ocl:77"):
        torch.ocl.ExternalStream(torch.ocl.queue(), device=77)
    with pytest.raises(ValueError, match="expected an ocl device, got cpu"):
        torch.ocl.queue(torch.Stream("cpu"))


def test_a_stream_without_times(device):
    context = cl.Context.from_int_ptr(torch.ocl.context(device))
    stream = torch.ocl.ExternalStream(cl.CommandQueue(context))
    with torch.ocl.stream(stream):
        start, end = (torch.ocl.Event(enable_timing=True) for _ in range(2))
        start.record()
        torch.ones(3, device=device)
        end.record()
        end.synchronize()
        with pytest.raises(RuntimeError, match="made without CL_QUEUE_PROFILING_ENABLE"):
            start.elapsed_time(end)
        with torch.profiler.profile() as profile:
            torch.ones(3, device=device) + 1
            stream.synchronize()
        assert "aten::add" in {event.name for event in profile.events()}


def test_there_are_only_so_many_external_streams():
    code = """
        import pyopencl as cl, torch
        context = cl.Context.from_int_ptr(torch.ocl.context())
        queues = [cl.CommandQueue(context) for _ in range(200)]
        made = 0
        try:
            for queue in queues:
                torch.ocl.ExternalStream(queue)
                made += 1
        except RuntimeError as error:
            print(made, error)
        torch.ocl.ExternalStream(queues[3])
        print(torch.ones(3, device="ocl").sum().item())
    """
    lines = output_of(code).splitlines()
    assert lines[0].startswith("191 ocl:0 has 191 queues of the user already")
    assert lines[-1] == "3.0"


CONTEXT = """
    import numpy as np, pyopencl as cl, torch
    platform = cl.get_platforms()[0]
    context = cl.Context(platform.get_devices())
    queue = cl.CommandQueue(context)
    host = np.arange(10, dtype=np.float32)
    buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=host)
"""


def test_context_of_the_user():
    code = (
        CONTEXT
        + """
    device = torch.ocl.use_context(context)
    assert torch.ocl.use_context(context.int_ptr) == device
    x = torch.ocl.from_buffer(buffer, 10, device=device)
    print(device, torch.ocl.context(device) == context.int_ptr, (x + 1).tolist())
    with torch.ocl.stream(torch.ocl.ExternalStream(queue)):
        print(x.sum().item(), torch.randn(100, 100, device=device).matmul(
            torch.ones(100, device=device)).shape)
    """
    )
    lines = output_of(code).splitlines()
    assert lines[0].endswith(f"True {[1.0 + i for i in range(10)]}")
    assert lines[1] == "45.0 torch.Size([100])"


def test_context_of_the_user_comes_too_late(device):
    context = cl.Context(cl.Context.from_int_ptr(torch.ocl.context(device)).devices)
    with pytest.raises(ValueError, match=r"is in use already, .* before the first tensor"):
        torch.ocl.use_context(context)
    assert torch.ones(3, device=device).sum().item() == 3
    own = torch.ocl.context(device)
    assert torch.ocl.use_context(own) == torch.device(device)
    with pytest.raises(ValueError, match="3 is no cl_context"):
        torch.ocl.use_context(3)


@pytest.mark.skipif(on_the_stern_device(), reason="torch's loader would have loaded no layer yet")
def test_a_queue_does_not_make_a_context():
    """A refused queue leaves the device without one, so that use_context() can still be called."""
    code = (
        CONTEXT
        + """
    try:
        torch.ocl.ExternalStream(queue)
    except ValueError as error:
        print("use_context" in str(error))
    try:
        torch.ocl.from_buffer(buffer, 10)
    except ValueError as error:
        print("use_context" in str(error))
    print(torch.ocl.ExternalStream(queue).device == torch.ocl.use_context(context)
          if torch.ocl.use_context(context) else None)
    """
    )
    assert output_of(code).splitlines() == ["True", "True", "True"]


def test_tensors_of_buffers_at_the_end_of_the_process():
    code = (
        CONTEXT
        + """
    torch.ocl.use_context(context)
    import sys
    sys.modules["keep"] = [torch.ocl.from_buffer(buffer, 10), torch.ocl.ExternalStream(queue)]
    try:
        torch.ocl.from_host(torch.zeros(1024)).add_(1)
    except ValueError as error:  # not every device can
        assert "in place" in str(error)
    print("end")
    """
    )
    result = run_python(code)
    assert (result.returncode, result.stdout.strip()) == (0, "end"), result.stderr
