"""Writes the tables of docs/accuracy.md from the files that accuracy.py wrote.

usage: python tests/accuracy/accuracy_tables.py docs/accuracy.md JSON...
What stands between `<!-- NAME -->` and `<!-- end -->` is replaced.
"""

import json
import pathlib
import re
import sys

from bounds import BOUNDS

HALVES = ("float16", "bfloat16")


def number(x):
    if x is None:
        return ""
    if x != x or x == float("inf"):
        return "other kind"
    return f"{x:.3g}" if x < 1000 else f"{x:.1e}"


def table(titles, rows):
    lines = [titles, ["---"] * len(titles), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def by_key(found, *keys):
    return {tuple(row[key] for key in keys): row for row in found}


def arguments(row):
    return ", ".join(f"{x:.9g}" for x in row["at"])


def of_functions(files, part, wanted="float32"):
    """Function, each runtime's distance and where, the CPU's, CUDA's and OpenCL's bound.

    Complex functions have no bounds.
    """
    tables = {name: by_key(found[part], "name", "dtype") for name, found in files.items()}
    lines = []
    for name, dtype in dict.fromkeys(key for t in tables.values() for key in t):
        if dtype != wanted:
            continue
        rows = [t.get((name, dtype)) for t in tables.values()]
        row = next(r for r in rows if r)
        cells = [number(r["ocl"]["ulp"]) if r else "" for r in rows]
        furthest = max((r for r in rows if r), key=lambda r: r["ocl"]["ulp"])
        bounds = [number(bound) for bound in BOUNDS.get(name, (None, None))]
        bounds = bounds if wanted == "float32" else []
        where = arguments(furthest["ocl"]) if furthest["ocl"]["ulp"] > 0.5 else ""
        lines.append([f"`{name}`", *cells, where, number(row["cpu"]["ulp"]), *bounds])
    lines.sort(key=lambda line: line[0])
    bounds = ["CUDA", "OpenCL C"] if wanted == "float32" else []
    return table(["function", *files, "at", "CPU", *bounds], lines)


def of_halves(files, part):
    """Functions of 16-bit types whose distance is above half a unit somewhere."""
    rows = {name: by_key(found[part], "name", "dtype") for name, found in files.items()}
    first, lines, exact = next(iter(rows.values())), [], 0
    for (name, dtype), row in first.items():
        if dtype not in HALVES:
            continue
        cells = [
            t[name, dtype]["ocl"]["ulp"] if (name, dtype) in t else None for t in rows.values()
        ]
        if max(x for x in cells if x is not None) <= 0.505:
            exact += 1
        else:
            numbers = [number(x) for x in cells]
            lines.append(
                [f"`{name}`", dtype, *numbers, arguments(row["ocl"]), number(row["cpu"]["ulp"])]
            )
    text = f"{exact} more pairs of function and type are correctly rounded everywhere (0.5).\n\n"
    return text + table(["function", "type", *files, "at", "CPU"], lines)


def of_kinds(files):
    """Results of another kind than the CPU's: NaN, an infinity, a zero of the other sign.

    A runtime whose numbers and first example are those of another one shares its line.
    """
    runtimes = {}
    for name, found in files.items():
        for row in found.get("unary", []) + found.get("binary", []) + found.get("complex", []):
            if row["kinds"]["count"]:
                at, actual, expected = row["kinds"]["examples"][0]
                at = ", ".join(f"{x:.9g}" for x in at)
                results = [f"{actual:.6g}", f"{expected:.6g}"]
                line = (f"`{row['name']}`", row["dtype"], row["kinds"]["count"], at, *results)
                runtimes.setdefault(line, []).append(name)
    lines = sorted((name, ", ".join(on), *rest) for (name, *rest), on in runtimes.items())
    return table(["function", "on", "type", "numbers", "first at", "result", "CPU"], lines)


def of_pairs(files, part, *keys, small=None):
    """A line for each key; those whose errors are all `small` are only counted."""
    rows = {name: by_key(found[part], *keys) for name, found in files.items()}
    lines, few = [], 0
    for key, row in next(iter(rows.values())).items():
        errors = [t[key]["ocl"] if key in t else None for t in rows.values()] + [row["cpu"]]
        if small is not None and all(x is None or x <= small for x in errors):
            few += 1
        else:
            lines.append([*key, *map(number, errors)])
    text = table([*keys, *rows, "CPU"], lines)
    return f"Not shown: {few} lines of at most {small} everywhere.\n\n{text}" if few else text


def of_random(files):
    rows = {
        name: by_key(found["random"], "name") for name, found in files.items() if "random" in found
    }
    first = next(iter(rows.values()))
    lines = []
    for key, row in first.items():
        cells = []
        for found in rows.values():
            if key in found:
                wrong = "" if found[key]["possible"] else ", **impossible numbers**"
                cells.append(f"{found[key]['p']:.1e}{wrong}")
            else:
                cells.append("")
        lines.append([*key, row["tests"], *cells, row["test"]])
    return table(["numbers", "tests", *rows, "the test"], lines)


def of_repeats(files):
    rows = {
        name: by_key(found["repeats"], "name")
        for name, found in files.items()
        if "repeats" in found
    }
    first = next(iter(rows.values()))
    lines = [
        [*key, *(t[key]["different"] if key in t else "" for t in rows.values())] for key in first
    ]
    return table(["operator", *rows], lines)


def write(page, files):
    def having(part):
        return {name: found for name, found in files.items() if part in found}

    texts = {
        "unary": lambda: of_functions(having("unary"), "unary"),
        "binary": lambda: of_functions(having("binary"), "binary"),
        "complex": lambda: of_functions(having("complex"), "complex", "complex64"),
        "halves": lambda: of_halves(having("unary"), "unary"),
        "kinds": lambda: of_kinds(having("unary")),
        "reductions": lambda: of_pairs(
            having("reductions"), "reductions", "name", "dtype", "count"
        ),
        "normalisations": lambda: of_pairs(
            having("normalisations"), "normalisations", "name", "kind", "dtype", small=2
        ),
        "random": lambda: of_random(having("random")),
        "repeats": lambda: of_repeats(having("repeats")),
    }
    text = page.read_text()
    for name, make in texts.items():
        if having({"halves": "unary", "kinds": "unary"}.get(name, name)):
            body = f"<!-- {name} -->\n\n{make()}\n\n<!-- end -->"
            pattern = rf"<!-- {name} -->.*?<!-- end -->"
            text = re.sub(pattern, lambda match, body=body: body, text, flags=re.S)
    page.write_text(text)


def title(path):
    found = json.loads(path.read_text())
    runtime = path.stem.partition("_")[0]
    names = {"pocl": "PoCL", "intel": "Intel"}
    family = " (GPU family)" if found["family"] == "gpu" else ""
    return names.get(runtime, runtime) + family, found


def main():
    page, *paths = map(pathlib.Path, sys.argv[1:])
    write(page, dict(title(path) for path in sorted(paths, reverse=True)))


if __name__ == "__main__":
    main()
