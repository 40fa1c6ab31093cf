"""Measures a device against PyTorch's own operator database (OpInfo).

    python tests/conformance/opdb.py --import torch_ocl --dtypes float32,int64 --kind forward,out

For every entry of op_db the sample inputs are made on the CPU with a fixed seed, copied to the
device, run on both, and compared. Kinds:

  forward    the operator itself
  backward   gradients of the differentiable inputs, from a fixed random gradient of the results
  noncontig  forward with inputs that have gaps in memory
  out        the out= variant, three times a sample: a fitting out, one with other strides, one
             to be resized
  inplace    the in-place variant on a copy of the input
  errors     inputs that the operator must refuse, with the CPU's exception class
  compiled   the operator itself, through torch.compile on the device; not one of "all"

See harness.py for the categories, and --help for the options.
"""

import re
import sys

import harness as h
import torch
from excuses import as_float32, excused, upstream_exempts
from harness import P_COMPARE, P_CPU, P_DEVICE, P_MOVE, P_READ, P_SAMPLES
from opdb_runners import RUNNERS, NothingToDifferentiate, out_arguments, run_forward
from torch.testing._internal.common_methods_invocations import op_db

KINDS = ("forward", "backward", "noncontig", "out", "inplace", "errors")
if "all" not in sys.argv:
    KINDS += ("compiled",)

# Results with unspecified values: only shape, dtype and device are compared.
UNINITIALIZED = {
    "empty",
    "empty_like",
    "empty_permuted",
    "empty_strided",
    "new_empty",
    "new_empty_strided",
    "resize_",
    "resize_as_",
}

# Operators whose strides are not specified, and depend on the library that computes them (LAPACK's
# order, plans of FFTs); and nonzero_static, whose strides on the CPU are not those of its meta
# function.
FREE_STRIDES = re.compile(
    r"^(linalg|fft)\.|^(svd|svd_lowrank|pca_lowrank|qr|geqrf|ormqr|lu|lu_solve|lu_unpack|"
    r"cholesky|cholesky_solve|cholesky_inverse|triangular_solve|eig|symeig|inverse|pinverse|"
    r"matrix_exp|logdet|stft|istft|logdet|nonzero_static|"
    r"nn\.functional\.grid_sample)$"
)

# Operators that need an argument on the CPU, whatever device the input is on.
ARGS_STAY_ON_CPU = {"tensor_split"}


# Operators that get no out= tensor with unusual strides: with four or more dimensions, PyTorch's
# CPU kernel for tril and triu writes outside of it (seen in 2.13), which ends the process sooner or
# later.
CPU_BREAKS_WITH_STRIDED_OUT = {"tril", "triu", "linalg.lu", "lu", "lu_unpack"}


def full_name(op):
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


def applicable(op, dtype, kind):
    if kind == "backward":
        return op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
    if not op.supports_dtype(dtype, "cpu"):
        return False
    if kind == "out":
        return op.supports_out
    if kind == "inplace":
        return op.get_inplace() is not None
    if kind == "errors":
        return op.error_inputs_func is not None
    return True


def make_tasks(args):
    tasks = []
    for kind in args.kinds:
        for dtype in args.dtype_list:
            for index, op in enumerate(op_db):
                if h.selected(args, op.name, full_name(op)) and applicable(op, dtype, kind):
                    tasks.append(
                        {
                            "index": index,
                            "name": full_name(op),
                            "base": op.name,
                            "dtype": h.dtype_name(dtype),
                            "kind": kind,
                        }
                    )
    return tasks


def make_samples(op, dtype, kind):
    h.seed_everything()
    return op.sample_inputs("cpu", dtype, requires_grad=kind == "backward")


def sizes(args, tasks):
    rows = []
    for kind in args.kinds:
        for dtype in args.dtype_list:
            mine = [t for t in tasks if t["kind"] == kind and t["dtype"] == h.dtype_name(dtype)]
            samples = 0
            for t in mine:
                try:
                    samples += len(
                        h.spread(make_samples(op_db[t["index"]], dtype, kind), args.max_samples)
                    )
                except Exception as e:
                    print(f"  no samples of {t['name']}: {h.describe(e)}", file=sys.stderr)
            rows.append(
                [kind, h.dtype_name(dtype), len(mine), len({t["base"] for t in mine}), samples]
            )
    return rows


def same_values(a, b):
    """Whether two results of the CPU agree. If not, they cannot serve as a reference."""
    try:
        torch.testing.assert_close(
            h.tensors_of(a),
            h.tensors_of(b),
            equal_nan=True,
            check_stride=False,
            rtol=1e-3,
            atol=1e-3,
        )
        return True
    except AssertionError:
        return False


def run_sample(op, kind, dtype, sample, index, tally, context):
    """Runs and compares one sample, and notes the outcome(s)."""
    device = context.device
    parts = (sample.input, sample.args, sample.kwargs)
    if not h.mentions_device(parts):
        return tally.note("skip", "the sample has neither a tensor nor a device")
    if kind == "inplace" and (
        sample.broadcasts_input or not isinstance(sample.input, torch.Tensor)
    ):
        return tally.note("skip", "no in-place form for a broadcast input")
    if kind == "noncontig":
        parts = h.map_sample(parts, h.noncontiguous_like)
    runner = RUNNERS[kind]

    extras = [("", None, None)]  # (name, extra of the CPU, extra of the device as a function)
    if kind == "backward":
        extras = [("", lambda t: t, lambda: lambda t: t.to(device))]
    elif kind == "compiled":
        extras = [("", None, lambda: device)]
    elif kind == "out":
        context.mark(P_CPU, index)
        try:
            h.seed_everything()
            plain = run_forward(
                op, sample, *h.map_sample(parts, lambda t: h.copy_tensor(t, "cpu")), None
            )
            candidates = out_arguments(plain)
        except Exception as e:
            return tally.note("skip", "CPU: " + h.describe(e))
        if op.name in CPU_BREAKS_WITH_STRIDED_OUT:
            candidates = [c for c in candidates if c[0] != "out with other strides"]
        if not candidates:
            return tally.note("skip", "the result is not a tensor")
        extras = [
            (name, out, lambda out=out: h.map_sample(out, lambda t: h.copy_tensor(t, device)))
            for name, out in candidates
        ]

    for extra_name, cpu_extra, device_extra in extras:
        prefix = f"{extra_name}: " if extra_name else ""

        # The device's copy is made first: some operators write into their inputs.
        context.mark(P_MOVE, index)
        moving_failed = None
        try:
            mine = h.map_sample(parts, lambda t: h.copy_tensor(t, device), device)
            if op.name in ARGS_STAY_ON_CPU:
                mine = (mine[0], h.map_sample(parts[1], lambda t: h.copy_tensor(t, "cpu")), mine[2])
            extra = device_extra() if device_extra else None
        except Exception as e:
            moving_failed = e

        context.mark(P_CPU)
        theirs = h.map_sample(parts, lambda t: h.copy_tensor(t, "cpu"))
        before = [t._version for t in h.tensors_of(theirs)]
        h.seed_everything()
        rng = h.RngWatch()
        try:
            expected = runner(op, sample, *theirs, cpu_extra)
        except NothingToDifferentiate:
            tally.note("skip", "nothing to differentiate")
            continue
        except Exception as e:
            tally.note("skip", "CPU: " + h.describe(e))
            continue
        written = [t._version != v for t, v in zip(h.tensors_of(theirs), before)]
        values = not (rng.used() or op.name in UNINITIALIZED)
        if kind == "out" and values and not same_values(expected["out"], plain):
            tally.note("skip", f"CPU: {prefix}its out= disagrees with its plain call")
            continue
        if not values:
            tally.result["metadata_only"] += 1
        if moving_failed is not None:
            tally.note(
                h.category_of(moving_failed), "moving inputs: " + h.describe(moving_failed), index
            )
            continue

        context.mark(P_DEVICE)
        h.seed_everything()
        try:
            with context.meter.measure(tally.fallbacks):
                actual = runner(op, sample, *mine, extra)
        except Exception as e:
            tally.note(h.category_of(e), prefix + h.describe(e), index)
            continue

        context.mark(P_READ)
        compare = tally.comparer
        try:
            actual_back = compare.read_back(actual)
            mine_back = compare.read_back(h.tensors_of(mine))
        except Exception as e:
            tally.note(h.category_of(e), prefix + "reading results back: " + h.describe(e), index)
            continue

        context.mark(P_COMPARE)
        try:
            free_strides = kind == "backward" or not values or FREE_STRIDES.search(op.name)
            compare.compare(actual_back, expected, values=values, strides=not free_strides)
            # Inputs that the CPU wrote into (running statistics, in-place operators) must agree
            # too.
            changed = [(a, e) for a, e, w in zip(mine_back, h.tensors_of(theirs), written) if w]
            if changed and kind == "forward":
                try:
                    compare.compare(
                        [a for a, _ in changed],
                        [e for _, e in changed],
                        values=values,
                        strides=False,
                    )
                except h.Mismatch as m:
                    raise h.Mismatch(m.what, f"input written by the operator: {m}") from None
            tally.note("pass")
        except h.Mismatch as m:

            def in_float32(cpu_extra=cpu_extra):
                return runner(op, sample, *h.map_sample(parts, as_float32), cpu_extra)

            excuse = excused(
                op, kind, sample, theirs, actual, actual_back, expected, m, compare, in_float32
            )
            if excuse:
                tally.result[excuse] += 1
                tally.note("pass")
            else:
                tally.note("wrong", prefix + str(m), index, m.what)


def run_error(op, error_input, index, tally, context):
    """Notes whether the device refuses an input with the CPU's exception class."""
    sample = error_input.sample_input
    parts = (sample.input, sample.args, sample.kwargs)
    if not h.mentions_device(parts):
        return tally.note("skip", "the sample has neither a tensor nor a device")
    context.mark(P_CPU, index)
    try:
        inp, args, kwargs = h.map_sample(parts, lambda t: h.copy_tensor(t, "cpu"))
        op(inp, *args, **kwargs)
    except Exception as e:
        expected = e
    else:
        return tally.note("skip", "CPU: raises nothing")
    context.mark(P_MOVE)
    try:
        inp, args, kwargs = h.map_sample(
            parts, lambda t: h.copy_tensor(t, context.device), context.device
        )
    except Exception as e:
        return tally.note("skip", "moving inputs: " + h.describe(e))
    context.mark(P_DEVICE)
    try:
        with context.meter.measure(tally.fallbacks):
            op(inp, *args, **kwargs)
            if context.device.type != "cpu":
                torch.accelerator.synchronize(context.device)  # raises errors of kernels
    except Exception as e:
        if type(e) is type(expected):
            return tally.note("pass")
        return tally.note("wrong", f"{h.describe(e)} instead of {h.describe(expected)}", index)
    return tally.note("wrong", f"nothing raised instead of {h.describe(expected)}", index)


def run_task(task, context):
    op = op_db[task["index"]]
    dtype, kind = getattr(torch, task["dtype"]), task["kind"]
    tally = h.Tally(task, context)
    scale = context.args.tol_scale * (h.BACKWARD_FACTOR if kind == "backward" else 1.0)
    tally.comparer = h.Comparer(
        context.device,
        dtype,
        h.declared_tolerance(op, dtype),
        scale,
        strides=context.args.strides == "check",
    )
    tally.result["upstream_exempt"] = upstream_exempts(op, dtype)
    context.mark(P_SAMPLES, -1)
    try:
        if kind == "errors":
            h.seed_everything()
            for index, error_input in enumerate(op.error_inputs("cpu")):
                run_error(op, error_input, index, tally, context)
            return tally.finish()
        samples = h.spread(make_samples(op, dtype, kind), context.args.max_samples)
    except Exception as e:
        tally.note("skip", "samples: " + h.describe(e))
        return tally.finish()
    for index, sample in samples:
        run_sample(op, kind, dtype, sample, index, tally, context)
    tally.result["max_abs"] = tally.comparer.max_abs
    return tally.finish()


if __name__ == "__main__":
    h.run_script(__doc__, KINDS, "forward", make_tasks, run_task, sizes)
