"""Shows which goals of speed the kernels meet according to the model, operator by operator.

usage: goals.py FOLDER [--only REGULAR_EXPRESSION] [--registers FILE] [--markdown FILE] [--again]

Records the operators of goal_cases.py in FOLDER/goals.json, where it is missing or with --again or
--only, and writes the tables of docs/gpu_model.md. The recorder is in FOLDER/plugin (record.py).
"""

import argparse
import json
import math
import pathlib
import subprocess
import sys

import micro
from formula import estimate, load_devices, memory_bytes
from goal_cases import CASES, GOALS
from record import environment
from registers import Registers
from tables import markdown, percent, replace

# Mid-range GPUs: GCN and RDNA, Xe-HPG, Ampere.
DEVICES = ("amd_rx580", "amd_rx7600", "intel_a750", "nvidia_rtx3060")
LARGE = 1 << 20  # bytes of a launch that has to fill a GPU
GROUPS, ITEMS, LOCAL = 64, 4096, 32


def record(folder, sample, only=""):
    """{title: launches}. `sample`: the cases of which "some" groups run, or the "whole" launch."""
    log = folder / "goals.log"
    log.unlink(missing_ok=True)
    whole = "." if sample == "whole" else None
    variables = environment(micro.build(folder / "plugin"), log, whole=whole)
    variables |= {"OCL_FALLBACK": "error", "OCL_DUMP_DIR": str(folder / "programs")}
    command = [sys.executable, pathlib.Path(__file__).parent / "goal_cases.py", sample, only]
    rows_file = folder / "goals.rows"
    with rows_file.open("w") as rows:
        subprocess.run(command, env=variables, stdout=rows, check=True)
    launches = micro.read_log(log) if log.exists() else []
    rows = (json.loads(line) for line in rows_file.read_text().splitlines())
    return {CASES[number].title: launches[first:end] for number, first, end in rows}


class Figures:
    """The results of a case's launches on a device."""

    def __init__(self, case, device, launches, registers):
        self.goal = GOALS[case.goal]
        found = [estimate(device, x, registers.of(device, x)) for x in launches]
        self.seconds = sum(e.kernel for e in found)
        slowest = max(range(len(found)), key=lambda i: found[i].kernel)
        self.slowest, self.bound = launches[slowest]["kernel"], found[slowest].bound
        peak = device.flops if self.goal.of == "FMA" else device.bandwidth_gb * 1e9
        self.share = case.needed / peak / self.seconds
        self.moved = sum(memory_bytes(device, x["regions"]) for x in launches) / case.needed
        self.lanes = sum(e.lanes * e.kernel for e in found) / self.seconds
        self.banks = sum(e.kernel / max(e.banks, 1e-9) for e in found) / self.seconds

    def misses(self):
        """The parts of the goal that are missed."""
        goal = self.goal
        if self.share < goal.share:
            yield f"{goal.of} ({self.bound})"
        if goal.moved and self.moved > goal.moved:
            yield f"bytes x {self.moved:.1f}"
        if goal.lanes and self.lanes < goal.lanes:
            yield f"lanes {percent(self.lanes)}"
        if goal.banks and self.banks > goal.banks:
            yield f"banks x {self.banks:.1f}"


def text_of(goal):
    parts = [f">= {percent(goal.share)} of {goal.of}"]
    parts += [f"bytes <= {goal.moved} x needed"] if goal.moved else []
    parts += [f"lanes >= {percent(goal.lanes)}"] if goal.lanes else []
    parts += [f"bank conflicts <= {goal.banks}"] if goal.banks else []
    return ", ".join(parts)


def summary_table(figures, devices):
    yield ["goal", *(device.name for device in devices.values())]
    for name, goal in GOALS.items():
        rows = [row for case, row in figures if case.goal == name]
        met = [sum(not list(row[key].misses()) for row in rows) for key in devices]
        yield [text_of(goal), *(f"{count} of {len(rows)}" for count in met)]


def case_table(figures, devices):
    """The table of cases, sorted by goal, with the worst case first."""
    head = [device.name for device in devices.values()]
    yield ["operator", "kernel", *head, "met?", "missed"]
    for name in GOALS:
        rows = [(case, row) for case, row in figures if case.goal == name]
        rows.sort(key=lambda item: sum(row.share for row in item[1].values()))
        for case, row in rows:
            missed = {key: list(row[key].misses()) for key in devices}
            met = sum(not part for part in missed.values())
            every = dict.fromkeys(text for part in missed.values() for text in part)
            yield [
                case.title,
                f"`{next(iter(row.values())).slowest}`",
                *(percent(row[key].share) for key in devices),
                "yes" if met == len(devices) else f"{met} of {len(devices)}" if met else "no",
                "; ".join(every),
            ]


def small_launches(recorded):
    """Launches that cannot fill a GPU, or whose groups cannot fill a wavefront."""
    yield ["operator", "kernel", "groups", "work-items", "local size", "bytes"]
    rows = {}
    for title, launches in recorded.items():
        for launch in launches:
            groups, items, local = launch["groups"], launch["items"], math.prod(launch["local"])
            moved = sum(loaded + stored for _, loaded, stored in launch["regions"])
            if moved > LARGE and (groups < GROUPS or items < ITEMS or local < LOCAL):
                size = f"{moved / LARGE:.1f} MB"
                numbers = (str(groups), str(items), str(local), size)
                rows[title, f"`{launch['kernel']}`", *numbers] = True
    yield from map(list, rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--registers", type=pathlib.Path)
    parser.add_argument("--markdown", type=pathlib.Path)
    parser.add_argument("--again", action="store_true")
    arguments = parser.parse_args()

    file = arguments.folder.resolve() / "goals.json"
    recorded = json.loads(file.read_text()) if file.exists() else {}
    if arguments.again or arguments.only or not recorded:
        if reason := micro.missing():
            sys.exit(reason)
        file.parent.mkdir(parents=True, exist_ok=True)
        for sample in ("some", "whole"):
            recorded |= record(file.parent, sample, arguments.only)
        file.write_text(json.dumps(recorded))

    devices = {key: device for key, device in load_devices().items() if key in DEVICES}
    registers = Registers(file.parent / "programs", arguments.registers)
    known = [(case, recorded[case.title]) for case in CASES if case.title in recorded]
    figures = [
        (case, {key: Figures(case, x, launches, registers) for key, x in devices.items()})
        for case, launches in known
    ]
    tables = [summary_table(figures, devices), case_table(figures, devices)]
    part = "\n\n".join(map(markdown, [*tables, small_launches(recorded)]))
    if absent := [case.title for case in CASES if case.title not in recorded]:
        part += f"\n\nNot recorded: {', '.join(absent)}."
    if arguments.markdown:
        text = arguments.markdown.read_text()
        arguments.markdown.write_text(replace(text, "goals", part))
    else:
        print(part)


if __name__ == "__main__":
    main()
