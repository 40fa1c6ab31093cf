"""Runs one case on the CPU and on the device, and says how they differ."""

import re

import harness as h
import torch
from edge_leaves import build
from edge_values import HALVES
from excuses import excused
from harness import P_COMPARE, P_CPU, P_DEVICE, P_MOVE, P_READ
from opdb import ARGS_STAY_ON_CPU

MEMORY = re.compile(
    r"can't allocate memory|not enough memory|OutOfMemoryError|out of memory|bad_alloc|MemoryError|"
    r"larger than what the device can allocate"
)
MOST_ELEMENTS = 2**27  # the most elements of results; edge_huge.py has larger ones


class EdgeComparer(h.Comparer):
    """Compares the signs of zeros, too, and skips the tolerances for equal tensors."""

    def close(self, t, y, rtol, atol):
        if t.layout is not torch.strided or y.is_nested or y.is_quantized:
            return super().close(t, y, rtol, atol)
        t, y = t.resolve_conj().resolve_neg(), y.resolve_conj().resolve_neg()
        if not torch.equal(t, y):
            super().close(t, y, rtol, atol)
        for a, b in zip(parts_of(t), parts_of(y)):
            wrong = (a == 0) & (b == 0) & (a.signbit() != b.signbit())
            if wrong.any():
                raise h.Mismatch(
                    "sign of zero", f"{b[wrong][0].item()} became {a[wrong][0].item()}"
                )


def parts_of(t):
    if t.is_complex():
        return (torch.view_as_real(t.to(torch.complex64) if t.dtype is torch.complex32 else t),)
    return (t,) if t.dtype.is_floating_point else ()


def perform(case, subject, call, parts, out):
    """The results of the call: what it returns, and the tensors that it wrote."""
    args, kwargs = parts
    h.seed_everything()
    with torch.no_grad():
        if case.mode == "out":
            result = call(*args, **kwargs, out=out)
            return {"result": result, "out": h.tensors_of(out)}
        if case.mode == "inplace":
            return {"result": subject.inplace(*args, **kwargs), "input": args[0]}
        if case.mode == "grad":
            return differentiated(call, args, kwargs)
        return {"result": call(*args, **kwargs)}


@torch.enable_grad()
def differentiated(call, args, kwargs):
    result = call(*args, **kwargs)
    tracked = [t for t in h.tensors_of(result) if t.requires_grad]
    torch.autograd.backward([t.sum() for t in tracked])
    return {"result": result, "grads": [t.grad for t in h.tensors_of((args, kwargs))]}


def elements_of_result(case, subject, sample):
    """The number of elements of the result; 0 if no meta function gives it."""
    try:
        args, kwargs = build(case.parts, "meta")
        result = subject.call(sample, "meta")(*args, **kwargs)
    except Exception:
        return 0
    return sum(t.numel() for t in h.tensors_of(result))


def widened(parts):
    def leaf(x):
        return x.float() if isinstance(x, torch.Tensor) and x.dtype in HALVES else x

    return h.pytree.tree_map(leaf, parts)


class Difference(Exception):
    def __init__(self, kind, message):
        super().__init__(message)
        self.kind = kind


class Left(Exception):
    """The case is left out, with the reason."""


def run_case(case, subject, sample, dtype, context, index):
    """Raises Difference where the two differ, Left where nothing can be compared."""
    device = context.device
    context.mark(P_CPU, index)
    if case.may_grow and (count := elements_of_result(case, subject, sample)) > MOST_ELEMENTS:
        raise Left(f"the result has {count} elements")
    context.mark(P_MOVE)
    try:
        mine, mine_out = build((case.parts, case.out), device)
        if subject.base in ARGS_STAY_ON_CPU:
            mine = ((mine[0][0], *build(case.parts[0][1:], "cpu")), mine[1])
        call = subject.call(sample, device)
    except Exception as e:
        raise Left("inputs cannot be moved: " + h.describe(e)) from None
    context.mark(P_CPU)
    theirs, out = build((case.parts, case.out), "cpu")
    before = [t._version for t in h.tensors_of(theirs)]
    rng, expected, refusal = h.RngWatch(), None, None
    rng_used = False
    try:
        h.seed_everything()
        rng = h.RngWatch()
        expected = perform(case, subject, subject.call(sample, "cpu"), theirs, out)
        rng_used = rng.used()
    except Exception as e:
        refusal = e
    if refusal and MEMORY.search(h.describe(refusal)):
        raise Left("the CPU has not the memory")
    context.mark(P_DEVICE)
    actual, error = None, None
    try:
        actual = perform(case, subject, call, mine, mine_out)
        if device.type != "cpu":
            torch.accelerator.synchronize(device)  # raises errors of kernels
    except Exception as e:
        error = e
    if error and MEMORY.search(h.describe(error)):
        raise Left("the device has not the memory")
    compare_errors(error, refusal)
    if refusal:
        return
    context.mark(P_READ)
    values = not (rng_used or subject.unspecified)
    declared = subject.tolerance(dtype)
    coarse = case.computed or dtype  # decides the tolerance, even if `out` has a wider type
    compare = EdgeComparer(device, coarse, declared, 8.0 if case.loose else 1.0)
    try:
        back = compare.read_back(actual)
        inputs = compare.read_back(h.tensors_of(mine))
    except Exception as e:
        raise Difference("error", "reading results back: " + h.describe(e)) from None
    context.mark(P_COMPARE)
    written = [t._version != v for t, v in zip(h.tensors_of(theirs), before)]
    try:
        compare.compare(back, expected, values, strides=values and not subject.free_strides)
        if case.mode == "forward":
            pairs = [p for p, w in zip(zip(inputs, h.tensors_of(theirs)), written) if w]
            compare.compare([a for a, _ in pairs], [b for _, b in pairs], values, strides=False)
    except h.Mismatch as m:
        if m.what != "value" or not excusable(
            case, subject, sample, theirs, actual, back, expected, m, compare
        ):
            raise Difference(m.what, str(m)) from None


def compare_errors(error, refusal):
    if refusal is None and error is None:
        return
    if refusal is None:
        raise Difference("error", h.describe(error))
    if error is None:
        raise Difference("no error", f"nothing raised instead of {h.describe(refusal)}")
    if type(error) is not type(refusal):
        raise Difference("class of error", f"{h.describe(error)} instead of {h.describe(refusal)}")


def excusable(case, subject, sample, theirs, actual, back, expected, mismatch, compare):
    """Whether the difference is one that the operator's definition leaves open, or the CPU's own
    rounding of 16 bits."""
    if case.mode == "inplace":
        return False

    def in_float32():
        wide = widened(build(case.parts, "cpu"))
        return perform(case, subject, subject.call(sample, "cpu"), wide, None)["result"]

    results = (tree["result"] for tree in (actual, back, expected))
    named = subject.info or subject
    return excused(named, "forward", sample, theirs, *results, mismatch, compare, in_float32)
