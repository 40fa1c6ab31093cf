"""Compares a device with the CPU at the edges of what operators accept: empty and 0-dim tensors,
broadcast batches, memory formats, views, out= and in-place forms, numbers beyond their types,
special values, pairs of types, long sums.

    python tests/conformance/edges.py --import torch_ocl --ops '^linalg' --edges empty,batch

The cases are derived from the samples of op_db and module_db (edge_cases.py says how). Each runs on
both; value, sign of zero, dtype, shape, strides and class of error must agree. What differs by
decision is in edge_decisions.py, with the reasons.
"""

import sys

import edge_huge
import edge_memory
import harness as h
import torch
from edge_cases import EDGES, derive
from edge_decisions import corrupts_the_cpu
from edge_outcome import Outcome
from edge_pool import run_tasks
from edge_runs import Difference, Left, run_case
from edge_subjects import small, subjects
from harness import P_CPU, P_DEVICE, P_SAMPLES

DTYPES = "float32,int64,float16,bfloat16,uint8,bool,complex64"
SUBJECTS = subjects()


def parse(argv=None):
    p = h.make_parser(__doc__.split("\n")[0], ("edges",), "edges")
    p.add_argument("--edges", default=",".join(EDGES), help="comma-separated derivations")
    p.add_argument("--seed", type=int, default=0, help="of --fraction and --cases")
    p.add_argument("--fraction", type=float, default=1.0, help="the share of the tasks that runs")
    p.add_argument("--cases", type=int, default=0, metavar="N", help="at most N cases a task")
    p.add_argument("--huge", action="store_true", help="also tensors of 2^31 elements")
    p.set_defaults(split="all", dtypes=DTYPES, max_samples=2, timeout_per_op=60.0)
    args = h.parse_args(p, ("edges",), argv)
    args.edges = args.edges.split(",")
    unknown = set(args.edges) - set(EDGES) - {"memory"}
    if unknown:
        p.error(f"unknown edges {', '.join(sorted(unknown))}; known: {', '.join(EDGES)}, memory")
    return args


def make_tasks(args):
    """A task is one subject with one dtype and one edge."""
    huge = [
        {"index": -1, "name": f"huge.{name}", "base": "huge", "dtype": "int8", "kind": "huge"}
        for name in edge_huge.CASES
        if args.huge and h.selected(args, "huge", f"huge.{name}")
    ]
    return huge + [
        {"index": i, "name": s.name, "base": s.base, "dtype": h.dtype_name(dtype), "kind": edge}
        for i, s in enumerate(SUBJECTS)
        if h.selected(args, s.base, s.name)
        for dtype in args.dtype_list
        if s.supports(dtype)
        for edge in args.edges
        if h.share(args.seed, s.name, h.dtype_name(dtype), edge) < args.fraction
    ]


def chosen(samples, limit):
    """At most `limit` samples, with their indices: the one whose tensors have the most dimensions,
    and others evenly spread."""
    if not limit or len(samples) <= limit:
        return list(enumerate(samples))
    most = [sum(min(t.dim(), 5) for t in h.tensors_of(s.parts)) for s in samples]
    indices = {most.index(max(most))}
    indices.update(i for i, _ in h.spread(samples, limit - 1) if limit > 1)
    return [(i, samples[i]) for i in sorted(indices)]


def cases_of(task, args):
    """(number, sample, case) of the task, in a fixed order."""
    subject, dtype = SUBJECTS[task["index"]], getattr(torch, task["dtype"])
    samples = [s for s in subject.samples(dtype) if small(s)]
    found = []
    for index, sample in chosen(samples, args.max_samples):

        def reference(sample=sample):
            args, kwargs = sample.parts
            h.seed_everything()
            with torch.no_grad():
                return subject.call(sample, "cpu")(*args, **kwargs)

        for case in derive(task["kind"], subject, sample, dtype, reference):
            case.label = f"sample {index}, {case.label}"
            found.append((len(found), sample, case))
    if args.cases and len(found) > args.cases:
        picked = sorted(found, key=lambda f: h.share(args.seed, task["name"], task["kind"], f[0]))
        found = sorted(picked[: args.cases], key=lambda f: f[0])
    return found


def run_huge(task, context):
    outcome, name = Outcome(task), task["name"].removeprefix("huge.")
    context.mark(P_CPU)
    context.shared[0] = 0
    if task.get("passed_over"):
        return outcome.result
    if edge_huge.memory_lacks():
        outcome.count("left", f"less than {edge_huge.NEEDED_GIB} GiB of memory are free")
        return outcome.result
    expected = edge_huge.CASES[name](torch.device("cpu"))
    context.mark(P_DEVICE)
    try:
        different = edge_huge.difference(edge_huge.CASES[name](context.device), expected)
        if different:
            outcome.differs("", "value", different)
        else:
            outcome.result["agree"] += 1
    except Exception as e:
        outcome.differs("", "error", h.describe(e))
    return outcome.result


def run_task(task, context):
    if task["kind"] == "huge":
        return run_huge(task, context)
    subject, dtype = SUBJECTS[task["index"]], getattr(torch, task["dtype"])
    outcome = Outcome(task)
    if task["kind"] == "memory":
        context.shared[0] = 0
        if not task.get("passed_over"):
            edge_memory.run(subject, dtype, context, outcome)
        return outcome.result
    context.mark(P_SAMPLES, -1)
    context.mark(P_CPU)
    for number, sample, case in cases_of(task, context.args):
        if number in task.get("passed_over", ()):
            outcome.name_lost(number, case.label)
            continue
        if corrupts_the_cpu(task["name"], task["kind"], case.label):
            outcome.count("left", "the CPU would write outside of its result")
            continue
        context.shared[0] = number
        try:
            run_case(case, subject, sample, dtype, context, number)
            outcome.result["agree"] += 1
        except Difference as d:
            outcome.differs(case.label, d.kind, str(d))
        except Left as reason_left:
            outcome.count("left", str(reason_left))
    return outcome.result


def main():
    args = parse()
    return run_tasks(args, run_task, make_tasks(args))


if __name__ == "__main__":
    sys.exit(main())
