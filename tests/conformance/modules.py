"""Measures a device against PyTorch's module database (ModuleInfo): every torch.nn module that it
describes.

    python tests/conformance/modules.py --import torch_ocl --dtypes float32 --kind forward,backward

A module is built on the CPU with a fixed seed; a deep copy of it is moved with .to(device). Both
get the same inputs. Modules that behave differently in training and in evaluation are measured in
both modes. Kinds:

  forward    the outputs, and the buffers afterwards (running statistics)
  backward   the gradients of the parameters and of the inputs

See harness.py for the categories, and --help for the options.
"""

import copy

import harness as h
import torch
from harness import P_COMPARE, P_CPU, P_DEVICE, P_MOVE, P_READ, P_SAMPLES
from torch.testing._internal.common_modules import module_db

KINDS = ("forward", "backward")

# Modules return copies laid out as their library likes (RNNs, attention): strides are checked for
# the operators only.
TOLERANCE_SCALE = 4.0


def training_modes(info):
    return (True, False) if info.train_and_eval_differ else (False,)


def full_name(info, training):
    if not info.train_and_eval_differ:
        return info.name
    return f"{info.name}[{'train' if training else 'eval'}]"


def make_tasks(args):
    tasks = []
    for kind in args.kinds:
        for dtype in args.dtype_list:
            for index, info in enumerate(module_db):
                for training in training_modes(info):
                    if h.selected(
                        args, info.name, full_name(info, training)
                    ) and dtype in info.supported_dtypes("cpu"):
                        tasks.append(
                            {
                                "index": index,
                                "name": full_name(info, training),
                                "base": info.name,
                                "dtype": h.dtype_name(dtype),
                                "kind": kind,
                                "training": training,
                            }
                        )
    return tasks


def make_samples(info, dtype, kind, training):
    h.seed_everything()
    return info.module_inputs_func(
        info, device="cpu", dtype=dtype, requires_grad=kind == "backward", training=training
    )


def sizes(args, tasks):
    rows = []
    for kind in args.kinds:
        for dtype in args.dtype_list:
            mine = [t for t in tasks if t["kind"] == kind and t["dtype"] == h.dtype_name(dtype)]
            samples = sum(
                len(
                    h.spread(
                        make_samples(module_db[t["index"]], dtype, kind, t["training"]),
                        args.max_samples,
                    )
                )
                for t in mine
            )
            rows.append(
                [kind, h.dtype_name(dtype), len(mine), len({t["base"] for t in mine}), samples]
            )
    return rows


def build(info, dtype, sample, training):
    """The module on the CPU; a lazy one gets its parameters from a first pass."""
    h.seed_everything()
    c = sample.constructor_input
    module = info.module_cls(
        *h.map_sample(c.args, lambda t: t.detach().clone()),
        **h.map_sample(c.kwargs, lambda t: t.detach().clone()),
    )
    module = module.to("cpu")
    module = module.to(dtype)
    if info.is_lazy:
        f = sample.forward_input
        with torch.no_grad():
            module(*f.args, **f.kwargs)
    return module.train(training)


def run(module, args, kwargs, kind, move_gradient):
    if kind == "forward":
        with torch.no_grad():
            out = module(*args, **kwargs)
        return {"out": out, "buffers": dict(module.named_buffers())}
    out = module(*args, **kwargs)
    outputs = [t for t in h.tensors_of(out) if t.requires_grad]
    inputs = [t for t in h.tensors_of((args, kwargs)) if t.requires_grad]
    named = [(n, p) for n, p in module.named_parameters() if p.requires_grad]
    if not outputs or not (inputs or named):
        return None
    generator = torch.Generator().manual_seed(h.SEED)
    grads = [
        move_gradient(torch.randn(o.shape, dtype=o.dtype, generator=generator)) for o in outputs
    ]
    found = torch.autograd.grad(outputs, inputs + [p for _, p in named], grads, allow_unused=True)
    return {
        "inputs": list(found[: len(inputs)]),
        "parameters": {n: g for (n, _), g in zip(named, found[len(inputs) :])},
    }


def run_sample(info, kind, dtype, training, sample, index, tally, context):
    device = context.device
    forward = sample.forward_input
    if forward is None:
        return tally.note("skip", "no forward input")
    context.mark(P_CPU, index)
    try:
        module = build(info, dtype, sample, training)
        try:
            twin = copy.deepcopy(module)
        except Exception:
            twin = build(info, dtype, sample, training)
    except Exception as e:
        return tally.note("skip", "CPU: " + h.describe(e))

    context.mark(P_MOVE)
    moving_failed = None
    try:
        mine = h.map_sample(
            (forward.args, forward.kwargs), lambda t: h.copy_tensor(t, device), device
        )
        twin = twin.to(device)
    except Exception as e:
        moving_failed = e

    context.mark(P_CPU)
    theirs = h.map_sample((forward.args, forward.kwargs), lambda t: h.copy_tensor(t, "cpu"))
    h.seed_everything()
    rng = h.RngWatch()
    try:
        expected = run(module, *theirs, kind, lambda t: t)
    except Exception as e:
        return tally.note("skip", "CPU: " + h.describe(e))
    if expected is None:
        return tally.note("skip", "nothing to differentiate")
    values = not rng.used()
    tally.result["metadata_only"] += not values
    if moving_failed is not None:
        return tally.note(
            h.category_of(moving_failed), "moving: " + h.describe(moving_failed), index
        )

    context.mark(P_DEVICE)
    h.seed_everything()
    try:
        with context.meter.measure(tally.fallbacks):
            actual = run(twin, *mine, kind, lambda t: t.to(device))
    except Exception as e:
        return tally.note(h.category_of(e), h.describe(e), index)
    context.mark(P_READ)
    try:
        actual = tally.comparer.read_back(actual)
    except Exception as e:
        return tally.note(h.category_of(e), "reading results back: " + h.describe(e), index)
    context.mark(P_COMPARE)
    try:
        tally.comparer.compare(actual, expected, values=values)
        tally.note("pass")
    except h.Mismatch as m:
        tally.note("wrong", str(m), index, m.what)


def run_task(task, context):
    info = module_db[task["index"]]
    dtype, kind, training = getattr(torch, task["dtype"]), task["kind"], task["training"]
    tally = h.Tally(task, context)
    scale = (
        context.args.tol_scale
        * TOLERANCE_SCALE
        * (h.BACKWARD_FACTOR if kind == "backward" else 1.0)
    )
    tally.comparer = h.Comparer(
        context.device,
        dtype,
        h.declared_tolerance(info, dtype, (None, "TestModule")),
        scale,
        strides=False,
    )
    context.mark(P_SAMPLES, -1)
    try:
        samples = h.spread(make_samples(info, dtype, kind, training), context.args.max_samples)
    except Exception as e:
        tally.note("skip", "samples: " + h.describe(e))
        return tally.finish()
    for index, sample in samples:
        run_sample(info, kind, dtype, training, sample, index, tally, context)
    tally.result["max_abs"] = tally.comparer.max_abs
    return tally.finish()


if __name__ == "__main__":
    h.run_script(__doc__, KINDS, "forward,backward", make_tasks, run_task, sizes)
