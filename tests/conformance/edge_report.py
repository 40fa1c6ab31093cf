"""The table of a sweep, the differences in groups, and the JSON."""

import collections
import json
import pathlib
import re
import time

import torch
from report import normalize, print_table

TYPE_NAMES = re.compile(
    r"\b(Bool|Byte|Char|Short|Int|Long|Half|BFloat16|Float|Double|ComplexFloat|ComplexDouble|"
    r"[iu](8|16|32|64)|f(16|32|64)|bf16|b8|u?int(8|16|32|64)|b?float(16|32|64)|complex(64|128)|"
    r"COMPUTE_IS_\w+)\b"
)

LOST = ("crash", "hang")


def of_cpu(difference):
    return difference["kind"].endswith("of the CPU")


def rows(results):
    """{edge: counts}"""
    table = collections.defaultdict(collections.Counter)
    for r in results:
        row = table[r["kind"]]
        row["agreeing"] += r["agree"]
        row["decided"] += sum(r["decided"].values())
        row["left out"] += sum(r["left"].values())
        for d in r["differences"]:
            if of_cpu(d):
                row["left out"] += 1
            else:
                row["crashes" if d["kind"] in LOST else "differing"] += 1
    return table


def differences(results):
    return [(r, d) for r in results for d in r["differences"] if not of_cpu(d)]


def save(args, pool, results):
    if not args.json:
        return
    meta = {
        "device": args.device,
        "torch": torch.__version__,
        "seed": args.seed,
        "fraction": args.fraction,
        "dtypes": args.dtypes,
        "max_samples": args.max_samples,
        "seconds": round(time.monotonic() - pool.started, 1),
        "restarts": pool.restarts,
    }
    path = pathlib.Path(args.json)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"meta": meta, "summary": rows(results), "results": results}, indent=1)
    path.write_text(text + "\n")


def show(args, pool, results, tasks):
    """Prints all; -> the exit code: 1 when something differs."""
    table = rows(results)
    columns = ("agreeing", "differing", "crashes", "decided", "left out")
    total = sum(table.values(), collections.Counter())
    lines = [
        [edge, sum(row.values()) - row["left out"], *(row[c] for c in columns)]
        for edge, row in [*table.items(), ("all", total)]
    ]
    print_table(lines, ["edge", "cases", *columns])
    groups = collections.defaultdict(list)
    for r, d in differences(results):
        groups[(d["kind"], normalize(TYPE_NAMES.sub("<type>", d["message"])))].append((r, d))
    print(f"\nDifferences ({sum(map(len, groups.values()))}, in {len(groups)} groups):")
    for (kind, _), found in sorted(groups.items(), key=lambda g: -len(g[1]))[: args.top]:
        print(f"  {len(found):5d}  {kind}: {found[0][1]['message'][:160]}")
        print("         " + places(found))
    for what in ("decided", "left"):
        why = collections.Counter()
        for r in results:
            why.update(r[what])
        print(f"\n{'By decision' if what == 'decided' else 'Left out'}:")
        for text, n in why.most_common(args.top):
            print(f"  {n:5d}  {text[:160]}")
    once = [r for r in results if r.get("crashed_once")]
    for r in once:
        print(f"crashed, and passed in a new process: {r['name']} {r['kind']}: {r['crashed_once']}")
    seconds = time.monotonic() - pool.started
    unfinished = len(tasks) - len(results)
    print(
        f"\n{len(results)} tasks in {seconds:.0f} s, {pool.restarts} worker restarts"
        + (f"; {unfinished} tasks NOT RUN" if unfinished else "")
    )
    return 1 if groups or unfinished else 0


def places(found):
    """The text "operator (dtype edge: case)" for the first differences of up to six operators."""
    by_name = collections.defaultdict(list)
    for r, d in found:
        by_name[r["name"]].append(f"{r['dtype']} {r['kind']}: {d['case']}")
    names = [
        f"{name} ({where[0]}{f', +{len(where) - 1}' if len(where) > 1 else ''})"
        for name, where in by_name.items()
    ]
    return "; ".join(names[:6]) + (f"; and {len(names) - 6} more" if len(names) > 6 else "")
