"""The checks of `python -m torch_ocl.check` that are not families of kernels.

Each function yields the names of parts that have passed, or raises.
"""

import functools
import time

import torch

SHARED_MEMORY = 2 << 30  # bytes to allocate at most where the host needs the memory, too


def check_copies(device):
    """Copies of many sizes, types and layouts, there and back."""
    for count in (0, 1, 3, 4095, 65537, 5_000_001):
        x = torch.randint(-128, 127, (count,), dtype=torch.int8)
        assert torch.equal(x.to(device).cpu(), x), f"{count} bytes"
        yield f"{count} bytes"
    x = torch.randn(60, 70)
    for name, there in {
        "transposed": lambda x: x.t(),
        "strided": lambda x: x[::2, 1::3],
        "int64": lambda x: x.long(),
        "float16": lambda x: x.half(),
    }.items():
        assert torch.equal(there(x.to(device)).cpu(), there(x)), name
        assert torch.equal(there(x).to(device).cpu(), there(x)), name
        yield name
    pinned = torch.randn(3_000_000).pin_memory()
    y = pinned.to(device, non_blocking=True)
    back = torch.empty_like(pinned).pin_memory()
    back.copy_(y, non_blocking=True)
    torch.ocl.synchronize()
    assert torch.equal(back, pinned), "pinned memory"
    yield "pinned memory"


def check_streams(device):
    """Streams run in order, and wait for each other's events."""
    first, second = torch.ocl.Stream(device), torch.ocl.Stream(device)
    x = torch.zeros(1_000_000, device=device)
    torch.ocl.synchronize()
    for _ in range(20):
        with torch.ocl.stream(first):
            x.add_(1)
        second.wait_stream(first)
        with torch.ocl.stream(second):
            x.mul_(2)
        first.wait_stream(second)
    torch.ocl.synchronize()
    expected = 2.0 * (2**20 - 1)
    assert x.min().item() == x.max().item() == expected, f"{x.min()} to {x.max()}, not {expected}"
    yield "two streams"
    graph = torch.ocl.Graph()
    y = torch.ones(1000, device=device)
    y.add_(1)
    with torch.ocl.graph(graph):
        y.mul_(3)
    graph.replay()
    assert y.sum().item() == 6000, y.sum()
    yield "graph"


def check_memory(device):
    """Writes and reads each byte of most of the free memory."""
    properties = torch.ocl.get_device_properties(device)
    free, _ = torch.ocl.mem_get_info(device)
    wanted = int(free * 0.9)
    if properties.host_unified_memory:
        wanted = min(wanted, SHARED_MEMORY)
    size = min(64 << 20, properties.max_allocation)
    held = []
    for number in range(max(wanted // size, 1)):
        try:
            held.append(torch.full((size,), number % 251, dtype=torch.uint8, device=device))
        except torch.OutOfMemoryError as error:
            granted = len(held) * size >> 20
            message = f"the driver grants {granted} MiB of {free >> 20}: OCL_MEMORY_MB={granted}"
            raise MemoryError(message) from error
    for number, block in enumerate(held):
        least, most = block.min().item(), block.max().item()
        assert least == most == number % 251, f"block {number} holds {least} to {most}"
    yield f"{len(held) * size / 2**30:.2f} GiB"
    held.clear()
    torch.ocl.empty_cache()
    x = torch.ones(size // 4, device=device)
    assert x.sum().item() == size // 4
    yield "used again"


def check_training(device):
    """Twenty steps of a small network, whose losses must be the CPU's."""

    def losses(where):
        torch.manual_seed(0)
        network = torch.nn.Sequential(
            torch.nn.Conv2d(1, 12, 3, padding=1),
            torch.nn.BatchNorm2d(12),
            torch.nn.ReLU(),
            torch.nn.MaxPool2d(2),
            torch.nn.Flatten(),
            torch.nn.Linear(12 * 36, 32),
            torch.nn.GELU(),
            torch.nn.Linear(32, 10),
        )
        images, digits = torch.randn(64, 1, 12, 12), torch.randint(10, (64,))
        network, images, digits = network.to(where), images.to(where), digits.to(where)
        optimizer = torch.optim.AdamW(network.parameters(), lr=3e-3)
        found = []
        for _ in range(20):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(network(images), digits)
            loss.backward()
            optimizer.step()
            found.append(loss.item())
        return torch.tensor(found)

    actual, expected = losses(device), losses("cpu")
    torch.testing.assert_close(actual, expected, rtol=1e-2, atol=1e-2)
    assert actual[-1] < actual[0] / 2, f"the loss went from {actual[0]:.2f} to {actual[-1]:.2f}"
    yield f"loss from {actual[0]:.3f} to {actual[-1]:.3f}, CPU {expected[-1]:.3f}"


LONG_LAUNCH = 1e-3  # seconds
MULTIPLY_ADDS = """
#pragma OPENCL FP_CONTRACT ON
__kernel void chains(__global float* out, int steps) {
  const V x = 0.999f, y = 0.001f;
  V a = get_global_id(0), b = a + 1, c = a + 2, d = a + 3;
  V e = a + 4, f = a + 5, g = a + 6, h = a + 7;
  for (int i = 0; i < steps; ++i) {
    a = a * x + y; b = b * x + y; c = c * x + y; d = d * x + y;
    e = e * x + y; f = f * x + y; g = g * x + y; h = h * x + y;
  }
  const V sum = a + b + c + d + e + f + g + h;
  out[get_global_id(0)] = sum.s0 + sum.s1;
}
"""


def seconds_of(function, repeats=5):
    """The least time of a call, by the host's clock."""
    best = float("inf")
    for _ in range(repeats + 1):  # the first one compiles
        torch.ocl.synchronize()
        start = time.perf_counter()
        function()
        torch.ocl.synchronize()
        best = min(best, time.perf_counter() - start)
    return best


def check_speed(device):
    """Speeds, next to the best that the device reaches: in a copy, and in pure multiply-adds."""
    x, y = torch.randn(4096, 4096, device=device), torch.randn(4096, 4096, device=device)
    small, bytes_of_x = torch.zeros(1, device=device), x.numel() * 4
    host, pinned = torch.empty(4096, 4096), torch.empty(4096, 4096).pin_memory()
    yield f"launch {seconds_of(lambda: [small.add_(1) for _ in range(200)]) / 200 * 1e6:.1f} us"
    for name, buffer in {"the host": host, "pinned memory": pinned}.items():
        to = bytes_of_x / seconds_of(lambda b=buffer: x.copy_(b)) / 1e9
        back = bytes_of_x / seconds_of(lambda b=buffer: b.copy_(x)) / 1e9
        yield f"copy from {name} {to:.1f} GB/s, back {back:.1f} GB/s"
    copy = 2 * bytes_of_x / seconds_of(lambda: y.copy_(x)) / 1e9
    yield f"copy on the device {copy:.1f} GB/s"
    for name, moved, function in [
        ("x + y", 3, lambda: torch.add(x, y)),
        ("sum of rows", 1, lambda: x.sum(1)),
        ("sum of columns", 1, lambda: x.sum(0)),
        ("softmax", 2, lambda: x.softmax(1)),
        ("transpose", 2, lambda: x.t().contiguous()),
    ]:
        rate = moved * bytes_of_x / seconds_of(function) / 1e9
        yield f"{name} {rate:.1f} GB/s, {rate / copy:.0%} of the copy"
    properties = torch.ocl.get_device_properties(device)
    # Launches as many work-items as a large GPU holds. They run so long that the launch does not
    # matter.
    threads, steps, seconds = max(1 << 16, 2048 * properties.max_compute_units), 16, 0.0
    lanes = 16 if properties.kernel_family == "cpu" else 2
    out = torch.empty(threads, device=device)
    kernel = torch.ocl.compile_kernel(f"#define V float{lanes}\n" + MULTIPLY_ADDS)
    while seconds < LONG_LAUNCH:
        steps *= 4
        run = functools.partial(kernel.chains, out, steps, threads=threads)
        seconds = seconds_of(run)
    peak = threads * steps * 8 * lanes * 2 / seconds / 1e9
    yield f"multiply-adds {peak:.0f} GFLOP/s"
    a, b = x[:1024, :1024].contiguous(), y[:1024, :1024].contiguous()
    images, weight = (
        torch.randn(8, 64, 56, 56, device=device),
        torch.randn(64, 64, 3, 3, device=device),
    )
    half_a, half_b = a.half(), b.half()
    queries = torch.randn(1, 8, 1024, 64, device=device)
    for name, work, function in [
        ("matrix product", 2 * 1024**3, lambda: a @ b),
        ("matrix product in float16", 2 * 1024**3, lambda: half_a @ half_b),
        (
            "convolution",
            2 * images.numel() * 64 * 9,
            lambda: torch.nn.functional.conv2d(images, weight, padding=1),
        ),
        (
            "attention",
            4 * queries.numel() * 1024,
            lambda: torch.nn.functional.scaled_dot_product_attention(queries, queries, queries),
        ),
    ]:
        rate = work / seconds_of(function) / 1e9
        yield f"{name} {rate:.0f} GFLOP/s, {rate / peak:.0%} of the multiply-adds"
