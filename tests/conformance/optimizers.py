"""Measures a device against PyTorch's optimizer database (OptimizerInfo).

    python tests/conformance/optimizers.py --import torch_ocl --dtypes float32 --kind all

Every configuration of every optimizer takes a few steps on the same small set of parameters, with
the same gradients (made on the CPU), on the CPU and on the device; the parameters after every step
and the optimizer's state at the end are compared. Kinds, the implementations that an optimizer
offers:

  default    no flag given: torch.optim takes foreach on a PrivateUse1 device
  forloop    foreach=False
  foreach    foreach=True
  fused      fused=True

See harness.py for the categories, and --help for the options.
"""

import copy

import harness as h
import torch
from harness import P_COMPARE, P_CPU, P_DEVICE, P_MOVE, P_READ, P_SAMPLES
from torch.testing._internal.common_optimizers import optim_db

KINDS = ("default", "forloop", "foreach", "fused")
STEPS = 6
TOLERANCE_SCALE = 2.0  # differences add up over the steps

# Its orthogonalization runs in bfloat16 whatever the parameters are.
BFLOAT16_INSIDE = {"Muon"}


def applicable(info, kind):
    return (
        kind == "default"
        or (kind == "forloop" and "foreach" in info.supported_impls)
        or (kind in info.supported_impls and (kind != "fused" or "cpu" in info.supports_fused_on))
    )


def make_tasks(args):
    tasks = []
    for kind in args.kinds:
        for dtype in args.dtype_list:
            for index, info in enumerate(optim_db):
                if (
                    dtype.is_floating_point
                    and applicable(info, kind)
                    and h.selected(args, info.name, info.name)
                ):
                    tasks.append(
                        {
                            "index": index,
                            "name": info.name,
                            "base": info.name,
                            "kind": kind,
                            "dtype": h.dtype_name(dtype),
                        }
                    )
    return tasks


def make_samples(info, dtype):
    h.seed_everything()
    return list(info.optim_inputs_func("cpu", dtype))


def sizes(args, tasks):
    rows = []
    for kind in args.kinds:
        for dtype in args.dtype_list:
            mine = [t for t in tasks if t["kind"] == kind and t["dtype"] == h.dtype_name(dtype)]
            samples = sum(
                len(h.spread(make_samples(optim_db[t["index"]], dtype), args.max_samples))
                for t in mine
            )
            rows.append(
                [kind, h.dtype_name(dtype), len(mine), len({t["base"] for t in mine}), samples]
            )
    return rows


def make_problem(info, dtype):
    """Parameters and, for every step, their gradients; all on the CPU. One gradient is missing in
    one step."""
    generator = torch.Generator().manual_seed(h.SEED)
    shapes = [(5, 7), (16, 3)] if info.name == "Muon" else [(5, 7), (13,), (2, 3, 4), (1,)]
    params = [torch.randn(s, generator=generator, dtype=torch.float32).to(dtype) for s in shapes]
    grads = []
    for step in range(STEPS):
        row = []
        for i, s in enumerate(shapes):
            g = torch.randn(s, generator=generator, dtype=torch.float32).to(dtype)
            if info.only_supports_sparse_grads:
                rows = torch.randperm(s[0], generator=generator)[: (s[0] + 1) // 2]
                g = torch.sparse_coo_tensor(rows.unsqueeze(0), g[rows], s)
            row.append(None if step == 2 and i == 1 else g)
        grads.append(row)
    return params, grads


def make_arguments(config, kind):
    """Keyword arguments of the optimizer; tensors among them (a tensor lr) stay on the CPU, as they
    are given."""
    kwargs = copy.deepcopy(config.kwargs)
    if kind == "forloop":
        kwargs["foreach"] = False
    elif kind != "default":
        kwargs[kind] = True
    return kwargs


def run(info, kwargs, params, grads):
    for p in params:
        p.requires_grad_(True)
    optimizer = info.optim_cls(params, **kwargs)
    after = []
    for row in grads:
        for p, g in zip(params, row):
            p.grad = g

        def closure():
            # A real function of the parameters, for the optimizers that evaluate it again (LBFGS).
            optimizer.zero_grad()
            with torch.enable_grad():
                loss = sum(((p - 0.5) ** 2).sum() for p in params)
            loss.backward()
            return loss.detach()

        result = optimizer.step(closure) if info.step_requires_closure else optimizer.step()
        after.append([result, [p.detach().clone() for p in params]])
    state = [
        dict(
            sorted(
                (k, v)
                for k, v in optimizer.state[p].items()
                if isinstance(v, (torch.Tensor, float, int))
            )
        )
        for p in params
    ]
    return {"after": after, "state": state}


def run_sample(info, kind, dtype, config, index, tally, context):
    device = context.device
    context.mark(P_CPU, index)
    params, grads = make_problem(info, dtype)
    context.mark(P_MOVE)
    moving_failed = None
    try:
        mine = [p.clone().to(device) for p in params]
        my_grads = [[None if g is None else g.clone().to(device) for g in row] for row in grads]
    except Exception as e:
        moving_failed = e
    context.mark(P_CPU)
    h.seed_everything()
    try:
        expected = run(info, make_arguments(config, kind), params, grads)
    except Exception as e:
        return tally.note("skip", "CPU: " + h.describe(e))
    if moving_failed is not None:
        return tally.note(
            h.category_of(moving_failed), "moving: " + h.describe(moving_failed), index
        )
    context.mark(P_DEVICE)
    h.seed_everything()
    try:
        with context.meter.measure(tally.fallbacks):
            actual = run(info, make_arguments(config, kind), mine, my_grads)
    except Exception as e:
        return tally.note(h.category_of(e), f"[{config.desc}] {h.describe(e)}", index)
    context.mark(P_READ)
    try:
        actual = tally.comparer.read_back(actual)
    except Exception as e:
        return tally.note(h.category_of(e), "reading results back: " + h.describe(e), index)
    context.mark(P_COMPARE)
    try:
        # Step counters live on the CPU by design, so the device is asked of the parameters only.
        tally.comparer.compare(actual["after"], expected["after"])
        tally.comparer.compare(actual["state"], expected["state"], on_device=False)
        tally.note("pass")
    except h.Mismatch as m:
        tally.note("wrong", f"[{config.desc}] {m}", index, m.what)


def run_task(task, context):
    info = optim_db[task["index"]]
    dtype, kind = getattr(torch, task["dtype"]), task["kind"]
    tally = h.Tally(task, context)
    declared = h.base_tolerance(torch.bfloat16) if info.name in BFLOAT16_INSIDE else (0.0, 0.0)
    tally.comparer = h.Comparer(
        context.device, dtype, declared, context.args.tol_scale * TOLERANCE_SCALE, strides=False
    )
    context.mark(P_SAMPLES, -1)
    for index, config in h.spread(make_samples(info, dtype), context.args.max_samples):
        run_sample(info, kind, dtype, config, index, tally, context)
    tally.result["max_abs"] = tally.comparer.max_abs
    return tally.finish()


if __name__ == "__main__":
    h.run_script(__doc__, KINDS, "all", make_tasks, run_task, sizes)
