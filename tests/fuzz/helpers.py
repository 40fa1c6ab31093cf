"""Functions that programs call. A printed script contains their sources."""

# ruff: noqa: F821  (`device` is the program's variable)

import contextlib
import copy
import inspect
import io

import torch

STREAMS = {}


def data(shape, dtype, seed, low=-4, high=5, special=False):
    """Small integers from low to below high, which every type holds exactly, made on the CPU."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randint(low, high, shape, generator=generator)
    if dtype.is_complex:
        x = torch.complex(x.double(), torch.randint(low, high, shape, generator=generator).double())
    x = x > 0 if dtype == torch.bool else x.to(dtype)
    if special:
        x[torch.rand(shape, generator=generator) < 0.1] = float("nan")
        x[torch.rand(shape, generator=generator) < 0.1] = float("inf")
    return x.to(device, copy=True)


def counted(shape, dtype, factor, modulus, low):
    """Small integers that are computed on the device."""
    numbers = torch.arange(torch.Size(shape).numel(), device=device)
    x = ((numbers * factor) % modulus + low).reshape(shape)
    return x > 0 if dtype == torch.bool else x.to(dtype)


def distinct(shape, dtype, seed):
    """Numbers that differ, without an order."""
    n = torch.Size(shape).numel()
    x = torch.randperm(n, generator=torch.Generator().manual_seed(seed)) - n // 2
    return x.reshape(shape).to(dtype).to(device)


def on_stream(number, device=None):
    """A side stream, which waits for the current stream, and for which that waits afterwards."""
    return side_stream(number) if number and str(device) != "cpu" else contextlib.nullcontext()


@contextlib.contextmanager
def side_stream(number):
    if number not in STREAMS:
        STREAMS[number] = torch.ocl.Stream()
    outer, side = torch.ocl.current_stream(), STREAMS[number]
    if number % 2:
        side.wait_stream(outer)
    else:
        side.wait_event(outer.record_event())
    with torch.ocl.stream(side):
        yield
    outer.wait_stream(side)


def pressure(megabytes, count):
    """Allocates and frees temporaries with other numbers in them."""
    for i in range(count):
        x = torch.full(((megabytes << 18) >> i,), float("nan"), device=device)
        x.add_(1)
    del x


def empty_cache():
    if device != "cpu":
        torch.ocl.empty_cache()


def synchronize():
    if device != "cpu":
        torch.ocl.synchronize()


def through_pinned(x):
    """To the CPU and back without waiting, through pinned memory."""
    if x.device.type == "cpu":
        return x.detach().clone()
    host = torch.empty_like(x, device="cpu", pin_memory=True)
    host.copy_(x.detach(), non_blocking=True)
    result = host.to(device, non_blocking=True)
    host = None
    return result


def replayed(function, inputs):
    """The function as a graph that was captured with other numbers, replayed twice."""
    inputs = [x.detach() for x in inputs]
    if device == "cpu":
        changed = [x.clone() for x in inputs]
        return [x.clone() for x in (*function(*changed), *changed)]
    static = [torch.zeros_like(x) for x in inputs]
    graph = torch.ocl.Graph()
    with torch.ocl.graph(graph):
        results = function(*static)
    for _ in range(2):
        for x, y in zip(static, inputs):
            x.copy_(y)
        graph.replay()
    return [x.clone() for x in (*results, *static)]


def kept_graph(function, inputs):
    """Captures the function, keeps the graph for replayed_again, and replays it."""
    inputs = [x.detach() for x in inputs]
    static = [torch.zeros_like(x) for x in inputs]
    graph = results = None
    if device != "cpu":
        graph = torch.ocl.Graph()
        with torch.ocl.graph(graph):
            results = function(*static)
    GRAPHS.append((function, graph, static, results))
    return replayed_again(-1, inputs)


def replayed_again(k, inputs):
    """The graph's results for these inputs, and the inputs afterwards."""
    function, graph, static, results = GRAPHS[k]
    for x, y in zip(static, inputs):
        x.copy_(y.detach())
    if graph is None:
        results = function(*static)
    else:
        graph.replay()
    return [x.clone() for x in (*results, *static)]


def tangents(function, inputs):
    """The function, and its derivative in the direction of small numbers."""
    inputs = [x.detach().clone() for x in inputs]
    directions = [
        (torch.arange(x.numel(), device=x.device) % 3 - 1).reshape(x.shape).to(x.dtype)
        if x.is_floating_point()
        else None
        for x in inputs
    ]
    with torch.autograd.forward_ad.dual_level():
        duals = [
            x if d is None else torch.autograd.forward_ad.make_dual(x, d)
            for x, d in zip(inputs, directions)
        ]
        pairs = [torch.autograd.forward_ad.unpack_dual(x) for x in function(*duals)]
    found = [torch.zeros_like(p) if t is None else t.clone() for p, t in pairs]
    return *(p.clone() for p, _ in pairs), *found


def copied(x):
    return copy.deepcopy(x)


def saved(x):
    """Written to a file in memory and read."""
    file = io.BytesIO()
    torch.save(x, file)
    file.seek(0)
    result = torch.load(file, weights_only=True)
    # On the CPU it has the file's memory, which cannot be resized.
    storage = result.untyped_storage().clone()
    return result.set_(storage, result.storage_offset(), result.shape, result.stride())


def compiled(function, inputs, **options):
    """The function by torch.compile, and its inputs, which it may change."""
    inputs = [x.detach().clone() for x in inputs]
    if device != "cpu":
        torch._dynamo.reset()
        function = torch.compile(function, **options)
    return *function(*inputs), *inputs


def compiled_twice(function, inputs):
    """The function by torch.compile for all sizes, and its inputs; then with other sizes."""
    inputs = [x.detach().clone() for x in inputs]
    longer = doubled(inputs)
    if device != "cpu":
        torch._dynamo.reset()
        function = torch.compile(function, dynamic=True)
    return *function(*inputs), *inputs, *function(*longer), *longer


def doubled(inputs):
    """Repeats the values along the dimensions whose size is that of the first value."""
    size = next((n for x in inputs for n in x.shape if n > 1), None)
    for k, x in enumerate(inputs):
        for d in range(x.dim()):
            if x.shape[d] == size:
                inputs = [*inputs[:k], torch.cat([inputs[k], inputs[k]], d), *inputs[k + 1 :]]
    return [x.clone() for x in inputs]


def differentiated(function, inputs):
    """The function, and the gradients of the sum of its results."""
    inputs = [x.detach().clone() for x in inputs]
    wanted = [x.requires_grad_() for x in inputs if x.is_floating_point()]
    results = function(*(x.clone() for x in inputs))
    losses = [x for x in results if x.requires_grad]
    weights = [torch.arange(x.numel(), device=x.device).reshape(x.shape) % 3 - 1 for x in losses]
    found = torch.autograd.grad(
        losses, wanted, [w.to(x.dtype) for w, x in zip(weights, losses)], allow_unused=True
    )
    found = [torch.zeros_like(x) if g is None else g for x, g in zip(wanted, found)]
    return *(x.detach() for x in results), *found


def compile(dynamic):
    """A decorator."""
    torch._dynamo.reset()
    return (lambda f: f) if device == "cpu" else torch.compile(dynamic=dynamic)


def gradients(results, wanted, retain, create=False):
    """The gradients of sums of the results with small weights; zeros for those that have none."""
    weights = [torch.arange(x.numel(), device=x.device).reshape(x.shape) % 3 - 1 for x in results]
    found = torch.autograd.grad(
        results,
        wanted,
        [w.to(x.dtype) for w, x in zip(weights, results)],
        retain_graph=retain,
        create_graph=create,
        allow_unused=True,
    )
    return [torch.zeros_like(x) if g is None else g for x, g in zip(wanted, found)]


def backward(result, leaf, retain):
    """The parameter's gradient after backward() of the result."""
    result.backward(torch.ones_like(result), retain_graph=retain)
    return torch.zeros_like(leaf) if leaf.grad is None else leaf.grad.clone()


def optimized(optimizer, values, gradients, count, **options):
    """The values after some steps of an optimizer with these gradients."""
    values = [x.detach().clone().requires_grad_() for x in values]
    steps = optimizer(values, **options)
    for _ in range(count):
        for x, g in zip(values, gradients):
            x.grad = g.clone()
        steps.step()
    return [x.detach() for x in values]


def clipped(gradients, norm, p, **options):
    """The norm, and the gradients after they were clipped to a norm."""
    values = [torch.zeros_like(g, requires_grad=True) for g in gradients]
    for x, g in zip(values, gradients):
        x.grad = g.detach().clone()
    total = torch.nn.utils.clip_grad_norm_(values, norm, p, **options)
    return [total, *(x.grad for x in values)]


NAMES = ["on_stream", "optimized", "clipped", "copied", "saved", "tangents"]
# These use the program's device, the global variable `device` of a script.
BOUND = ["data", "counted", "distinct", "pressure", "empty_cache", "synchronize", "through_pinned"]
BOUND += [
    "kept_graph",
    "replayed_again",
    "replayed",
    "compiled",
    "compiled_twice",
    "doubled",
    "differentiated",
    "compile",
    "gradients",
    "backward",
]


def bound(name, names):
    """The function with `names` for its global variables."""
    function = globals()[name]
    result = type(function)(
        function.__code__, names, name, function.__defaults__, function.__closure__
    )
    result.__kwdefaults__ = function.__kwdefaults__
    return result


def sources(text):
    """The sources of the functions that the text calls."""
    wanted = [name for name in [*NAMES, *BOUND] if f"{name}(" in text]
    if "kept_graph" in wanted and "replayed_again" not in wanted:
        wanted.append("replayed_again")
    if "compiled_twice" in wanted:
        wanted.append("doubled")
    result = ["import copy", "import io", "GRAPHS = []"]
    if "on_stream" in wanted:
        result += ["import contextlib", "STREAMS = {}", inspect.getsource(side_stream)]
    return result + [inspect.getsource(globals()[name]) for name in wanted]
