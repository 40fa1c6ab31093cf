"""Runs all rows of the conformance table, and says which are below their aim.

    python tests/conformance/run.py [--jobs 2] [--rows REGEX] [--output FOLDER]

Exits with 1 if a row is below.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
# (script, kinds, dtypes, least share that passes, least share that passes without the CPU)
ROWS = [
    ("opdb", "forward", "float32", 99.5, 93),
    ("opdb", "backward", "float32", 99, 90),
    ("opdb", "noncontig", "float32", 99.5, 93),
    ("opdb", "inplace", "float32", 99.5, 93),
    ("opdb", "out", "float32", 99, 90),
    ("opdb", "forward", "int64", 99, 90),
    ("opdb", "forward", "bool", 99, 90),
    ("opdb", "forward", "float16", 98, 88),
    ("opdb", "forward", "bfloat16", 98, 88),
    ("opdb", "forward", "float64", 99, 90),
    ("opdb", "forward", "complex64", 95, 70),
    ("opdb", "errors", "float32", 95, 0),
    ("modules", "forward", "float32", 100, 97),
    ("modules", "backward", "float32", 100, 97),
    *(("optimizers", k, "float32", 100, 100) for k in ("default", "forloop", "foreach", "fused")),
]


def run(row, args):
    """Runs one row; -> (share that passes, share without the CPU), in percent."""
    script, kind, dtype = row[:3]
    output = args.output / f"{script}_{kind}_{dtype}.json"
    command = [sys.executable, HERE / f"{script}.py", "--import", "torch_ocl", "--device", "ocl"]
    command += ["--kind", kind, "--dtypes", dtype, "--jobs", str(args.jobs), "--json", output]
    with output.with_suffix(".log").open("w") as log:
        subprocess.run(
            [str(part) for part in command],
            env=os.environ | {"OCL_FALLBACK": "allow"},
            stdout=log,
            stderr=subprocess.STDOUT,
            check=True,
        )
    summary = json.loads(output.read_text())["summary"]
    return 100 * summary[0]["pass_rate"], 100 * (summary[0]["native_rate"] or 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--rows", default="", metavar="REGEX", help='of "opdb forward float32"')
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("build/conformance"))
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)
    below = 0
    for row in ROWS:
        name = " ".join(row[:3])
        if not re.search(args.rows, name):
            continue
        passed, native = run(row, args)
        short = passed < row[3] or native < row[4]
        below += short
        print(
            f"{name:32} pass {passed:5.1f} % (aim {row[3]}), native {native:5.1f} % (aim {row[4]})"
            + ("   BELOW" if short else ""),
            flush=True,
        )
    sys.exit(1 if below else 0)


if __name__ == "__main__":
    main()
