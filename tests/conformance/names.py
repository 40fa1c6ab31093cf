"""Calls every operator that PyTorch has a schema of, and every function of torch, torch.special,
torch.linalg, torch.fft and torch.nn.functional, on the device and on the CPU.

    python tests/conformance/names.py --import torch_ocl --ops '^aten::_sobol'

The arguments are made from the schema or signature (names_arguments.py), or written by hand
(names_table.py). What the CPU computes, the device computes, too, with the same result; of the sets
that the CPU refuses some run as well. No call ends the process. The kind "grad" differentiates.
"""

import re
import sys

import harness as h
import names_arguments as arguments
import torch
from edge_cases import Case
from edge_leaves import build
from edge_outcome import Outcome
from edge_pool import run_tasks
from edge_runs import Difference, Left, run_case
from harness import P_CPU
from names_table import BY_HAND, CALLS, UNCHECKED, UNSPECIFIED, reason, skipped

KINDS = ("forward", "grad")
MODULES = {
    "torch": (torch, ""),
    "torch.special": (torch.special, "special_"),
    "torch.linalg": (torch.linalg, "linalg_"),
    "torch.fft": (torch.fft, "fft_"),
    "torch.nn.functional": (torch.nn.functional, ""),
}


class Subject:
    """A name, with the attributes and methods that run_case() uses."""

    info, out, inplace, free_strides = None, False, None, False

    def __init__(self, name, function, forms):
        self.name = self.base = name
        self.function, self.forms = function, forms  # lists of arguments: one for each overload
        self.unspecified = UNSPECIFIED.search(name) is not None

    def tolerance(self, dtype):
        return 1e-3, 1e-4

    def call(self, sample, device):
        return self.function

    def parts(self, number, grad):
        written = CALLS.get(self.name, ())
        if number < len(written):
            return written[number]()
        number -= len(written)
        form = self.forms[number % len(self.forms)]
        return arguments.Attempt(self.name, number, grad).make(form)


def operator_of(schema):
    namespace, _, name = schema.name.partition("::")
    packet = getattr(getattr(torch.ops, namespace), name)
    return getattr(packet, schema.overload_name or "default")


def subjects():
    """All subjects, in a fixed order."""
    schemas, found = {}, {}
    for s in torch._C._jit_get_all_schemas():
        name = s.name + (f".{s.overload_name}" if s.overload_name else "")
        schemas.setdefault(s.name, []).append(s)
        if not skipped(name):
            found[name] = lambda name=name, s=s: Subject(
                name, operator_of(s), [arguments.of_schema(s)]
            )
    for module, (holder, prefix) in MODULES.items():
        for short in dir(holder):
            name, function = f"{module}.{short}", getattr(holder, short)
            if skipped(name) or isinstance(function, type) or not callable(function):
                continue
            known = schemas.get(f"aten::{prefix}{short}") or schemas.get(f"aten::{short}")
            found[name] = lambda n=name, f=function, k=known: of_name(n, f, k)
    return found


def of_name(name, function, schemas):
    try:
        forms = [arguments.of_function(function)]
    except (TypeError, ValueError):  # built in
        forms = [arguments.of_schema(s) for s in schemas or ()]
    return Subject(name, function, forms)


SUBJECTS = subjects()


def parse(argv=None):
    p = h.make_parser(__doc__.split("\n\n")[0].replace("\n", " "), KINDS, "all")
    p.add_argument("--tries", type=int, default=48, help="sets of arguments for a name")
    p.add_argument("--sets", type=int, default=6, help="those of them that run on the device")
    p.add_argument("--refused", type=int, default=2, help="and those that the CPU refuses")
    p.add_argument("--seed", type=int, default=0, help="of --fraction")
    p.add_argument("--fraction", type=float, default=1.0, help="the share of the names that runs")
    p.set_defaults(split="all", timeout_per_op=60.0)
    return h.parse_args(p, KINDS, argv)


def has_kernel(name):
    """Whether a kernel of ocl is registered. Such operators have other tests, so they come last."""
    name = re.sub(r"^torch\.(\w+)$", r"aten::\1", name)
    try:
        return torch._C._dispatch_has_kernel_for_dispatch_key(name, "PrivateUse1")
    except RuntimeError:  # no operator
        return False


def make_tasks(args):
    """The tasks. Operators that are composed of others, and functions in Python, come first."""
    return [
        {"index": i, "name": name, "base": name, "dtype": "-", "kind": kind}
        for i, name in enumerate(sorted(SUBJECTS, key=has_kernel))
        if h.selected(args, name, name)
        for kind in args.kinds
        if h.share(args.seed, name) < args.fraction
    ]


def accepted(subject, parts, grad):
    """Whether the CPU accepts the arguments, and with `grad`, a result can be differentiated."""
    try:
        with torch.set_grad_enabled(grad):
            positional, keywords = build(parts, "cpu")
            result = subject.function(*positional, **keywords)
    except Exception:
        return False
    return not grad or any(t.requires_grad for t in h.tensors_of(result))


def attempts(subject, task, context):
    """(number, parts, whether the CPU accepts them) of the attempts that are to run."""
    args, grad = context.args, task["kind"] == "grad"
    good, bad = args.sets, 0 if grad or UNCHECKED.search(subject.name) else args.refused
    written = len(CALLS.get(subject.name, ()))
    for number in range(written + (0 if BY_HAND.search(subject.name) else args.tries)):
        if number in task.get("passed_over", ()):
            yield number, None, False
            continue
        context.mark(P_CPU, number)
        parts = subject.parts(number, grad)
        if not h.mentions_device(parts):
            continue
        fits = accepted(subject, parts, grad)
        if (good if fits else bad) <= 0:
            continue
        good, bad = good - fits, bad - (not fits)
        yield number, parts, fits
        if good <= 0:
            return


def run_task(task, context):
    outcome = Outcome(task)
    try:
        subject = SUBJECTS[task["name"]]()
        if not subject.forms:
            raise arguments.Unknown("no schema, and no signature")
        for number, parts, fits in attempts(subject, task, context):
            if parts is None:
                outcome.name_lost(number, f"set {number}")
                continue
            case = Case(f"set {number}", parts, "grad" if task["kind"] == "grad" else "forward")
            compare(outcome, case, subject, context, number, fits)
    except arguments.Unknown as unknown:
        outcome.count("left", str(unknown))
    if not outcome.result["agree"] and not outcome.result["differences"]:
        outcome.count("left", "the CPU computes none of the sets with a tensor or a device")
    return outcome.result


def unstable(case, subject, context, number):
    """Whether two results of the CPU differ, for example because they are uninitialised memory."""
    on_cpu = h.Context(context.args, torch.device("cpu"), None, [0, 0, 0])
    try:
        run_case(case, subject, None, torch.float32, on_cpu, number)
    except (Difference, Left):
        return True
    return False


def compare(outcome, case, subject, context, number, fits):
    """Compares the results. The error may differ from the CPU's, but must be one for users, not an
    internal one."""
    try:
        run_case(case, subject, None, torch.float32, context, number)
        outcome.result["agree"] += 1
    except Difference as d:
        why = reason(subject.name, str(d))
        if why:
            outcome.count("decided", why)
            return
        internal = "INTERNAL ASSERT" in str(d) or "missing kernel" in str(d)
        if fits and unstable(case, subject, context, number):
            outcome.count("left", "the CPU's own results differ")
        elif fits or internal:
            outcome.differs(f"{case.label} {shown(case.parts)}", d.kind, str(d))
        else:
            outcome.count("decided", f"a set that the CPU refuses: {d.kind}")
    except Left as left:
        outcome.count("left", str(left))


def shown(parts):
    def leaf(x):
        return f"{h.dtype_name(x.dtype)}{list(x.shape)}" if isinstance(x, torch.Tensor) else x

    return str(h.pytree.tree_map(leaf, parts))


def main():
    args = parse()
    return run_tasks(args, run_task, make_tasks(args))


if __name__ == "__main__":
    sys.exit(main())
