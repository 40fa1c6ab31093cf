"""Running one sample of an operator, in the same way on the CPU and on the device, for opdb.py.

Each runner takes (input, args, kwargs) that live where they shall run, and `extra`, and returns a
nested structure of results.
"""

import harness as h
import torch


def differentiable(tree):
    return [t for t in h.tensors_of(tree) if t.requires_grad]


def run_forward(op, sample, inp, args, kwargs, extra):
    with torch.no_grad():
        return op(inp, *args, **kwargs)


def run_backward(op, sample, inp, args, kwargs, extra):
    """`extra` moves the results' gradients, which are made on the CPU, to the device."""
    outputs = sample.output_process_fn_grad(op(inp, *args, **kwargs))
    outputs = [t for t in h.tensors_of(outputs) if t.requires_grad]
    inputs = differentiable((inp, args, kwargs))
    if not outputs or not inputs:
        raise NothingToDifferentiate
    generator = torch.Generator().manual_seed(h.SEED)
    grads = [
        extra(torch.randn(o.shape, dtype=o.dtype, generator=generator))
        if o.layout is torch.strided
        else torch.ones_like(o)
        for o in outputs
    ]
    return list(torch.autograd.grad(outputs, inputs, grads, allow_unused=True))


def run_out(op, sample, inp, args, kwargs, extra):
    """`extra` is the out argument: a tensor, or a tuple of them."""
    with torch.no_grad():
        result = op(inp, *args, **kwargs, out=extra)
    results = result if isinstance(result, (tuple, list)) else (result,)
    outs = extra if isinstance(extra, (tuple, list)) else (extra,)
    return {
        "result": list(results),
        "out": list(outs),
        "same": [a is b for a, b in zip(results, outs)],
    }


def run_inplace(op, sample, inp, args, kwargs, extra):
    with torch.no_grad():
        result = op.get_inplace()(inp, *args, **kwargs)
    return {"result": result, "input": inp, "same": result is inp}


def run_compiled(op, sample, inp, args, kwargs, extra):
    """`extra` is None on the CPU, where the operator is not compiled."""
    if extra is None:
        return run_forward(op, sample, inp, args, kwargs, extra)
    torch._dynamo.reset()
    with torch.no_grad():
        return torch.compile(op.op)(inp, *args, **kwargs)


RUNNERS = {
    "compiled": run_compiled,
    "forward": run_forward,
    "backward": run_backward,
    "noncontig": run_forward,
    "out": run_out,
    "inplace": run_inplace,
}


class NothingToDifferentiate(Exception):
    pass


def out_arguments(expected):
    """Out tensors for a result, filled with other numbers: one that fits, one with other strides,
    and an empty one, to be resized."""
    if isinstance(expected, torch.Tensor):
        tensors, wrap = [expected], lambda ts: ts[0]
    elif (
        isinstance(expected, (tuple, list))
        and expected
        and all(isinstance(t, torch.Tensor) for t in expected)
    ):
        tensors, wrap = list(expected), lambda ts: tuple(ts)
    else:
        return []

    def junk(t):
        return t.fill_(float("nan") if t.dtype.is_floating_point or t.dtype.is_complex else 1)

    def other_strides(t):
        if t.dim() < 2:
            return torch.empty((*t.shape, 2), dtype=t.dtype)[..., 0]
        return torch.empty(t.shape[::-1], dtype=t.dtype).permute(*range(t.dim() - 1, -1, -1))

    return [
        (name, wrap([junk(make(t)) for t in tensors]))
        for name, make in (
            (
                "fitting out",
                lambda t: (
                    torch.empty_strided(t.shape, t.stride(), dtype=t.dtype)
                    if not t.is_sparse
                    else torch.empty(t.shape, dtype=t.dtype)
                ),
            ),
            ("out with other strides", other_strides),
            ("out to be resized", lambda t: torch.empty(0, dtype=t.dtype)),
        )
    ]
