"""Sets each environment variable to wrong values, and checks how a program ends.

usage: with_runtime.py RUNTIME python variables.py [--variables NAME ...] [--values N ...]

A program must give right results, or raise an error that names the variable. It must not crash or
hang, and a plugin that cannot be loaded must leave `import torch` whole. Exits with 1 otherwise.
"""

import argparse
import collections
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import traceback

import torch_ocl

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/environment.md"
VARIABLES = re.findall(r"^\| `(OCL_\w+|TORCH_\w+)`", PAGE.read_text(), re.MULTILINE)
VALUES = [
    b" ",
    b"-1",
    b"0",
    b"1.5",
    b"1e3",
    b"nan",
    b"99999999999999999999",
    b"9223372036854775807",
    b"8796093022207",  # 2^43 - 1: the largest number that is taken
    b"no such thing",
    b"\xff\xfe\x80 %s%n \x1b[31m",
    b"/nonexistent/" + b"x" * 5000,
    b"1,,2:;= -D",
    "\N{PILE OF POO}".encode(),
]
PROBE = """
import faulthandler, sys, warnings
faulthandler.dump_traceback_later(float(sys.argv[2]))  # shows where a hang is
warnings.simplefilter("ignore")
import torch
assert torch.ones(3).sum() == 3
name = sys.argv[1]
try:
    x = torch.arange(100.0).to("ocl")
    right = torch.arange(100.0)
    assert torch.equal((x * 2 + 1).cpu(), right * 2 + 1)
    a, b = torch.rand(60, 70), torch.rand(70, 50)
    torch.testing.assert_close((a.to("ocl") @ b.to("ocl")).cpu(), a @ b)
    image, weight = torch.rand(1, 3, 9, 9), torch.rand(4, 3, 3, 3)
    conv = torch.nn.functional.conv2d
    torch.testing.assert_close(conv(image.to("ocl"), weight.to("ocl")).cpu(), conv(image, weight))
    torch.linalg.eigvals(a[:, :60].to("ocl"))
    source = "__kernel void k(__global float* x) { x[get_global_id(0)] += 1; }"
    torch.ocl.compile_kernel(source).k(x)
    assert torch.equal(x.cpu(), right + 1)
    start, end = (torch.ocl.Event(enable_timing=True) for _ in range(2))
    start.record(), x.add_(1), end.record()
    torch.ocl.synchronize()
    assert start.elapsed_time(end) >= 0
except AssertionError:
    raise
except Exception as error:
    text = f"{type(error).__name__}: {error}"
    print(text)
    sys.exit(3 if name in text else 4)
"""
# Read before a fork could set them.
AT_IMPORT = {"OCL_ICD_VENDORS", "OCL_ICD_FILENAMES", "OCL_AUTOLOAD"}
AT_IMPORT |= {"OCL_INTEGRATIONS", "OCL_AS_CUDA", "TORCH_DEVICE_BACKEND_AUTOLOAD"}
HELP = "torch_ocl.info"  # errors without a device name this command, which prints the variables
SECONDS = 300


def run_at_import(name, value):
    """(status, what was printed) of a new process."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE, name, str(SECONDS - 5)],
        env={**os.environb, name.encode(): value},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=SECONDS,
        check=False,
    )
    return done.returncode, done.stdout


def run_forked(name, value):
    """The same of a child that has imported torch already."""
    with tempfile.TemporaryFile() as printed:
        if not (child := os.fork()):
            signal.alarm(SECONDS)
            os.dup2(printed.fileno(), 1)
            os.dup2(printed.fileno(), 2)
            os.environb[name.encode()] = value
            sys.argv = ["probe", name, str(SECONDS - 5)]
            status = 0
            try:
                exec(PROBE, {})
            except SystemExit as error:
                status = error.code
            except BaseException:
                traceback.print_exc()
                status = 1
            sys.stdout.flush()
            torch_ocl._C.drain_devices()
            os._exit(status)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        printed.seek(0)
        return status, printed.read()


def run(name, value):
    """(outcome, what was printed)"""
    try:
        status, printed = (run_at_import if name in AT_IMPORT else run_forked)(name, value)
    except subprocess.TimeoutExpired as error:
        return "hang", (error.output or b"").decode(errors="replace")
    printed = printed.decode(errors="replace")
    if status == 4 and HELP in printed:
        return "no device", printed
    if status == -signal.SIGALRM:
        return "hang", printed
    kinds = {0: "right", 3: "refused", 4: "error without the name", 1: "wrong"}
    return kinds.get(status, f"crash {status}"), printed


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--variables", nargs="*", default=VARIABLES)
    parser.add_argument("--values", nargs="*", type=int, default=range(len(VALUES)))
    arguments = parser.parse_args()
    found = collections.Counter()
    for name in arguments.variables:
        here = collections.Counter()
        for index in arguments.values:
            outcome, printed = run(name, VALUES[index])
            here[outcome] += 1
            if outcome not in ("right", "refused"):
                print(f"{name}={VALUES[index][:40]}: {outcome}\n{printed[-600:]}", flush=True)
        print(name, dict(here), flush=True)
        found += here
    print(dict(found))
    sys.exit(any(kind not in ("right", "refused", "no device") for kind in found))


if __name__ == "__main__":
    main()
