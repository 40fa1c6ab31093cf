"""The command line that the measuring scripts share, and which entries it selects."""

import argparse
import hashlib
import re

import torch


def make_parser(description, kinds, default_kind):
    p = argparse.ArgumentParser(
        description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    p.add_argument(
        "--import",
        dest="imports",
        action="append",
        default=[],
        metavar="MODULE",
        help="module that brings the device (repeatable)",
    )
    p.add_argument(
        "--device", default="ocl", help="device to measure, 'cpu' compares the CPU with itself"
    )
    p.add_argument("--dtypes", default="float32", help="comma-separated")
    p.add_argument(
        "--ops",
        default=None,
        metavar="REGEX",
        help="only the entries whose full name matches (search)",
    )
    p.add_argument(
        "--kind",
        default=default_kind,
        help="comma-separated out of: " + ", ".join(kinds) + "; or all",
    )
    p.add_argument(
        "--split",
        choices=("all", "open", "heldout"),
        default="open",
        help="a fixed quarter of the names (by hash) is held out",
    )
    p.add_argument(
        "--max-samples",
        type=int,
        default=0,
        metavar="N",
        help="at most N samples a case, evenly spread (0: all)",
    )
    p.add_argument(
        "--timeout-per-op", type=float, default=120.0, metavar="S", help="seconds for one case"
    )
    p.add_argument("--jobs", type=int, default=1, help="worker processes")
    p.add_argument("--threads", type=int, default=1, help="CPU threads in each worker")
    p.add_argument(
        "--strides", choices=("check", "ignore"), default="check", help="compare strides of results"
    )
    p.add_argument("--tol-scale", type=float, default=1.0, help="multiplies every tolerance")
    p.add_argument(
        "--max-worker-gib",
        type=float,
        default=6.0,
        help="replace a worker whose peak memory passes this",
    )
    p.add_argument(
        "--start-method",
        choices=("fork", "spawn"),
        default="fork",
    )
    p.add_argument("--json", default=None, metavar="OUT", help="write every result there")
    p.add_argument(
        "--resume",
        default=None,
        metavar="JSON",
        help="an earlier --json of an unfinished run: take its results over and run only the rest",
    )
    p.add_argument(
        "--baseline", default=None, metavar="JSON", help="an earlier --json: print what changed"
    )
    p.add_argument("--top", type=int, default=25, help="how many failure groups to print")
    p.add_argument(
        "--totals-only",
        action="store_true",
        help="print no names and no messages (to show the held-out share without giving it away)",
    )
    p.add_argument(
        "--list", action="store_true", help="print the sizes of what would run, and stop"
    )
    p.add_argument("--quiet", action="store_true", help="no progress lines")
    return p


def parse_args(parser, kinds, argv=None):
    args = parser.parse_args(argv)
    args.kinds = list(kinds) if args.kind == "all" else [k for k in args.kind.split(",") if k]
    for k in args.kinds:
        if k not in kinds:
            parser.error(f"unknown kind {k!r}; known: {', '.join(kinds)}")
    args.dtype_list = []
    for name in args.dtypes.split(","):
        dt = getattr(torch, name.strip(), None)
        if not isinstance(dt, torch.dtype):
            parser.error(f"unknown dtype {name!r}")
        args.dtype_list.append(dt)
    if args.ops:
        try:
            re.compile(args.ops)
        except re.error as e:
            parser.error(f"--ops: {e}")
    return args


def dtype_name(dtype):
    return str(dtype).replace("torch.", "")


def is_heldout(base_name):
    """A quarter of the names, chosen by hash: the same everywhere and always."""
    return int(hashlib.sha256(base_name.encode()).hexdigest(), 16) % 4 == 0


def share(seed, *key):
    """A number from 0 to 1 that depends on the key only."""
    digest = hashlib.sha256(repr((seed, *key)).encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


def selected(args, base_name, full_name):
    if args.split == "open" and is_heldout(base_name):
        return False
    if args.split == "heldout" and not is_heldout(base_name):
        return False
    return not args.ops or re.search(args.ops, full_name) is not None


def spread(items, limit):
    """At most `limit` items, evenly spread, with their indices."""
    items = list(items)
    if not limit or len(items) <= limit:
        return list(enumerate(items))
    return [
        (i, items[i])
        for i in sorted({round(j * (len(items) - 1) / max(1, limit - 1)) for j in range(limit)})
    ]
