"""The summary table, the JSON file, and the run from beginning to end."""

import collections
import json
import pathlib
import re
import sys
import time

import torch
from cases import CATEGORIES
from options import make_parser, parse_args
from pool import Pool, StartFailed
from samples import SEED


def settle_native(results):
    """Sets `native`: True without any fallback, False with one, None if the device does not report
    fallbacks."""
    by_warning = any(r["fallbacks"] for r in results)
    for r in results:
        source = r.get("fallback_source", "unknown")
        if r["category"] in ("skip", "crash", "timeout"):
            r["native"] = False if r["fallbacks"] else None
        elif source == "stats" or by_warning:
            r["native"] = not r["fallbacks"]
        else:
            r["native"] = None


def summarize(results):
    groups = collections.OrderedDict()
    for r in results:
        groups.setdefault((r["kind"], r["dtype"]), []).append(r)
    rows = []
    for (kind, dtype), rs in groups.items():
        n = collections.Counter(r["category"] for r in rs)
        total = len(rs) - n["skip"]
        passed = [r for r in rs if r["category"] == "pass"]
        known = any(r["native"] is not None for r in rs)
        samples = collections.Counter()
        for r in rs:
            samples.update(r["samples"])
        rows.append(
            {
                "kind": kind,
                "dtype": dtype,
                "cases": total,
                **{c: n[c] for c in CATEGORIES},
                "wrong_strides_only": sum(
                    r["what"] == "strides" and r["category"] == "wrong" for r in rs
                ),
                "metadata_only_cases": sum(r["metadata_only"] > 0 for r in rs),
                "pass_rate": len(passed) / total if total else None,
                "native_rate": sum(r["native"] is True for r in passed) / total
                if total and known
                else None,
                "fallback_rate": sum(r["native"] is False for r in passed) / total
                if total and known
                else None,
                "samples_run": sum(v for c, v in samples.items() if c != "skip"),
                "samples_pass": samples["pass"],
                "seconds": round(sum(r["seconds"] for r in rs), 1),
            }
        )
    return rows


def percent(x):
    return "-" if x is None else f"{100 * x:.1f}%"


def print_table(rows, header):
    widths = [max(len(str(r[i])) for r in [header, *rows]) for i in range(len(header))]
    for r in [header, *rows]:
        print(
            "  ".join(
                str(c).ljust(w) if i < 2 else str(c).rjust(w)
                for i, (c, w) in enumerate(zip(r, widths))
            ).rstrip()
        )


def normalize(message):
    """Messages that differ in numbers, shapes and operator names only are one group."""
    message = re.sub(r"\([\d, ]*\)|\[[\d, ]*\]", "(..)", message)
    return re.sub(r"-?\d+(\.\d+)?(e[+-]?\d+)?", "#", message)[:160]


def print_summary(args, results, rows, top):
    print()
    print_table(
        [
            [
                r["kind"],
                r["dtype"],
                r["cases"],
                r["pass"],
                r["wrong"],
                r["wrong_strides_only"],
                r["unsupported"],
                r["error"],
                r["timeout"],
                r["crash"],
                r["skip"],
                percent(r["pass_rate"]),
                percent(r["native_rate"]),
                percent(r["fallback_rate"]),
                f"{r['samples_pass']}/{r['samples_run']}",
                r["seconds"],
            ]
            for r in rows
        ],
        [
            "kind",
            "dtype",
            "cases",
            "pass",
            "wrong",
            "(strides)",
            "unsup",
            "error",
            "timeout",
            "crash",
            "skip",
            "pass%",
            "native%",
            "fallbk%",
            "samples",
            "sec",
        ],
    )
    harness = [r for r in results if r.get("harness_error")]
    if harness and not args.totals_only:
        print(f"\nFaults of the harness itself ({len(harness)}):")
        for r in harness[:10]:
            print(f"  {r['kind']} {r['dtype']} {r['name']}: {r['message']}")
    if args.totals_only:
        return
    failing = [r for r in results if r["category"] not in ("pass", "skip")]
    groups = collections.defaultdict(list)
    for r in failing:
        groups[(r["category"], normalize(r["message"]))].append(r)
    if groups:
        print(f"\nFailures ({len(failing)} cases, {len(groups)} groups, largest first):")
        for (category, _), rs in sorted(groups.items(), key=lambda kv: -len(kv[1]))[:top]:
            names = list(dict.fromkeys(r["name"] for r in rs))
            print(f"  {len(rs):4d}  {category:11s} {rs[0]['message'][:150]}")
            print(f"        {', '.join(names[:8])}{', ...' if len(names) > 8 else ''}")
    exempt = [
        r
        for r in failing
        if r["category"] == "wrong" and r["what"] == "value" and r.get("upstream_exempt")
    ]
    if exempt:
        print(
            f"\n{len(exempt)} of the wrong values are of operators where PyTorch does not hold its "
            "own CUDA to the CPU's values:\n  "
            + ", ".join(dict.fromkeys(r["name"] for r in exempt))
        )
    rounded = [r["name"] for r in results if r["category"] == "pass" and r["rounding_tolerated"]]
    if rounded:
        print(
            f"\n{len(rounded)} cases of 16 bits pass by the CPU's float32 result, not its rounded "
            f"one:\n  {', '.join(dict.fromkeys(rounded))}"
        )
    used = collections.Counter(op for r in results for op in r["fallbacks"])
    if used:
        print(f"\nOperators that fell back to the CPU ({len(used)}; number of cases each):")
        print("  " + ", ".join(f"{op} {n}" for op, n in used.most_common(top * 2)))


def print_changes(baseline_path, results):
    with pathlib.Path(baseline_path).open() as f:
        old = {(r["name"], r["dtype"], r["kind"]): r["category"] for r in json.load(f)["results"]}
    better, worse = [], []
    for r in results:
        was = old.get((r["name"], r["dtype"], r["kind"]))
        if was is None or was == r["category"] or "skip" in (was, r["category"]):
            continue
        line = f"{r['kind']} {r['dtype']} {r['name']}: {was} -> {r['category']}"
        if r["category"] == "pass":
            better.append(line)
        elif was == "pass":
            worse.append(line + f" ({r['message'][:120]})")
    print(f"\nAgainst the baseline: {len(better)} newly pass, {len(worse)} no longer pass")
    for line in worse:
        print("  LOST " + line)


def save_json(path, meta, rows, results):
    temporary = pathlib.Path(path + ".tmp")
    with temporary.open("w") as f:
        json.dump({"meta": meta, "summary": rows, "results": results}, f, indent=1)
        f.write("\n")
    temporary.replace(path)


def main(args, run_task, tasks, sizes):
    """Runs the tasks, prints the summary. Exit code 0 whatever the device does; 2 when it cannot be
    started."""
    if args.list:
        print_table(sizes(), ["kind", "dtype", "cases", "names", "samples"])
        return 0
    if not tasks:
        print("nothing to run: no entry matches")
        return 2
    meta = {
        "device": args.device,
        "imports": args.imports,
        "split": args.split,
        "ops": args.ops,
        "seed": SEED,
        "max_samples": args.max_samples,
        "timeout_per_op": args.timeout_per_op,
        "strides": args.strides,
        "tol_scale": args.tol_scale,
        "torch": torch.__version__,
    }
    earlier = []
    if args.resume:
        with pathlib.Path(args.resume).open() as f:
            found = {(r["name"], r["dtype"], r["kind"]): r for r in json.load(f)["results"]}
        keys = [(t["name"], t["dtype"], t["kind"]) for t in tasks]
        earlier = [found[key] for key in keys if key in found]
        tasks = [t for t, key in zip(tasks, keys) if key not in found]
        meta["resumed"] = len(earlier)
        if not tasks:
            print("nothing left to run")
    pool = Pool(args, run_task, tasks)

    def save(results):
        if args.json:
            results = earlier + results
            settle_native(results)
            meta.update(
                worker=pool.info,
                restarts=pool.restarts,
                wall_seconds=round(time.monotonic() - pool.started, 1),
                complete=len(results) == len(earlier) + len(tasks),
            )
            save_json(args.json, meta, summarize(results), results)

    sys.stdout.flush()
    try:
        results = pool.run(save) if tasks else []
    except StartFailed as e:
        print(f"cannot measure: {e}")
        return 2
    save(results)
    results = earlier + results
    settle_native(results)
    rows = summarize(results)
    if pool.info.get("copy_check", "ok") != "ok":
        print(
            f"note: the device already failed a plain copy at the start: {pool.info['copy_check']}"
        )
    print_summary(args, results, rows, args.top)
    if args.baseline:
        print_changes(args.baseline, results)
    wall = time.monotonic() - pool.started
    source = pool.info.get("fallback_source", "unknown")
    if source != "stats" and any(r["fallbacks"] for r in results):
        source = "warnings"
    unfinished = len(earlier) + len(tasks) - len(results)
    print(
        f"\n{len(results)} cases in {wall:.0f} s, {pool.restarts} worker restarts, "
        f"fallbacks known from: {source}"
        + (f"; {unfinished} cases NOT RUN" if unfinished else "")
        + (f"; {len(earlier)} taken over" if earlier else "")
    )
    for r in rows:
        native = percent(r["native_rate"]) if r["native_rate"] is not None else "unknown"
        print(
            f"{r['kind']} {r['dtype']}: {r['pass']}/{r['cases']} pass "
            f"({percent(r['pass_rate'])}), native {native}"
        )
    return 0


def run_script(document, kinds, default_kind, make_tasks, run_task, sizes):
    """A measuring script from its command line to its exit code."""
    args = parse_args(make_parser(document.split("\n")[0], kinds, default_kind), kinds)
    tasks = make_tasks(args)
    sys.exit(main(args, run_task, tasks, lambda: sizes(args, tasks)))
