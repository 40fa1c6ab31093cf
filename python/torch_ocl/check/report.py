"""The report of the check: the printed text, and a file for bug reports, which also has the logs of
failed builds. Names of the user, of the host and of personal folders are replaced."""

import contextlib
import getpass
import io
import os
import pathlib
import platform
import re
import sys
import time

import torch

from torch_ocl import info

from .sections import FAILED, PASSED, SKIPPED

COLOURS = {PASSED: "\033[32m", FAILED: "\033[31m", SKIPPED: "\033[33m"}
MOST_OF_A_LOG = 20_000  # characters


def personal_folders():
    """{folder: its name in a report}, the longest first."""
    found = {str(pathlib.Path.cwd()): "WORKING_FOLDER", str(pathlib.Path.home()): "~"}
    if sys.prefix != sys.base_prefix:
        found[sys.prefix] = "VENV"
    found |= {os.path.realpath(folder): name for folder, name in found.items()}
    found.pop("/", None)
    return dict(sorted(found.items(), key=lambda each: -len(each[0])))


def personal_names():
    names = {platform.node(): "HOST"}
    with contextlib.suppress(OSError, KeyError):  # a container may have no name for its user
        names[getpass.getuser()] = "USER"
    return {name: word for name, word in names.items() if name}


def anonymous(text):
    for folder, name in personal_folders().items():
        text = re.sub(rf"(?<![\w./-]){re.escape(folder)}(?![\w-])", name, text)
    for name, word in personal_names().items():
        # replaced only in paths: "root" and short names are also words
        ends = (r"(?<=/)", r"(?=/)") if name == "root" or len(name) < 4 else (r"\b", r"\b")
        text = re.sub(ends[0] + re.escape(name) + ends[1], word, text)
    return text


class Report:
    """Prints lines and keeps them; states have colours on terminals only."""

    def __init__(self):
        self.lines = []
        self.coloured = sys.stdout.isatty() and "NO_COLOR" not in os.environ

    def say(self, text="", state=None, shown=True):
        text = anonymous(text)
        self.lines.append(text)
        if state and self.coloured:
            text = text.replace(state, f"{COLOURS[state]}{state}\033[0m", 1)
        if shown:
            print(text, flush=True)

    def write(self, path):
        path.write_text("\n".join(self.lines) + "\n")
        print(f"written to {path}")


def line_of(path, start):
    """The rest of the first line in a file that starts with this text."""
    try:
        lines = pathlib.Path(path).read_text(errors="replace").splitlines()
    except OSError:
        return "unknown"
    return next((each.partition(":")[2].strip() for each in lines if each.startswith(start)), "?")


def adapters():
    """Vendor, device and kernel driver of each display adapter on the PCI bus."""
    for place in sorted(pathlib.Path("/sys/bus/pci/devices").glob("*")):
        with contextlib.suppress(OSError):
            if not (place / "class").read_text().startswith("0x03"):
                continue
            numbers = [(place / name).read_text().strip()[2:] for name in ("vendor", "device")]
            driver = place / "driver"
            yield ":".join(numbers) + (f" by {driver.resolve().name}" if driver.exists() else "")


def system():
    """The operating system, the processor, and the OpenCL packages."""
    try:
        name = platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        name = platform.system()
    found = ", ".join(adapters())
    return "\n".join(
        [
            f"{time.strftime('%Y-%m-%d')}, {name}, {platform.release()} {platform.machine()}",
            f"processor: {line_of('/proc/cpuinfo', 'model name')}, {os.cpu_count()} threads",
            f"memory: {line_of('/proc/meminfo', 'MemTotal')}",
            f"display adapters: {found or 'none on the PCI bus'}",
            *info.opencl_here(),
        ]
    )


def describe():
    """The text of torch_ocl.info about all devices, and the variables that are set."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        info.print_variables()
        for index in range(torch.ocl.device_count()):
            info.describe(index)
        info.print_skipped()
    return text.getvalue()


def say_failed_builds(report, folder):
    """The logs in OCL_DUMP_DIR. They include programs that are not needed, such as those for a unit
    that the driver does not know."""
    logs = sorted(pathlib.Path(folder).glob("*.log"))
    if not logs:
        return
    report.say(f"\n{len(logs)} builds failed; the file has their logs.")
    for path in logs:
        text = path.read_text(errors="replace").strip()
        cut = "\n..." if len(text) > MOST_OF_A_LOG else ""
        report.say(f"\n---- {path.stem}\n{text[:MOST_OF_A_LOG]}{cut}", shown=False)
