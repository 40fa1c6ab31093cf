"""Draws a part of a trace that torch.profiler has exported, without a browser.

    python tests/bench/draw_trace.py trace.json picture.png [--from MS] [--length MS]

Times count from the first command of the device. One row per level of nested calls of each host
thread, one per queue, and an arrow from each call of OpenCL to what the device did.
"""

import argparse
import collections
import json
import pathlib

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

HOST = ("user_annotation", "cpu_op", "privateuse1_runtime")
DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
COLORS = {
    "user_annotation": "#c9c9c9",
    "cpu_op": "#9ecae1",
    "privateuse1_runtime": "#fdae6b",
    "kernel": "#74c476",
    "gpu_memcpy": "#bcbddc",
    "gpu_memset": "#dadaeb",
}


def rows_of(events, begin, end):
    """[(row's name, event)], the rows of each thread by depth, the device's queues last."""
    lines = collections.defaultdict(list)
    for event in events:
        if event["ts"] < end and event["ts"] + event["dur"] > begin:
            lines[event["cat"] in DEVICE, event["pid"], event["tid"]].append(event)
    rows = []
    for (on_device, pid, tid), line in sorted(lines.items()):
        open_until = []
        for event in sorted(line, key=lambda e: (e["ts"], -e["dur"])):
            while not on_device and open_until and open_until[-1] <= event["ts"]:
                open_until.pop()
            name = f"ocl:{pid}\nqueue {tid}" if on_device else f"thread {tid}"
            rows.append(((on_device, pid, tid, len(open_until), name), event))
            if not on_device:
                open_until.append(event["ts"] + event["dur"])
    return rows


def draw(events, begin, end, title):
    rows = rows_of(events, begin, end)
    heights = {row: -i for i, row in enumerate(sorted({row for row, _ in rows}))}
    figure, axes = plt.subplots(figsize=(15, 1 + 0.42 * len(heights)), dpi=100)
    at = {}
    for row, event in rows:
        left, right = max(event["ts"], begin), min(event["ts"] + event["dur"], end)
        y = heights[row]
        color = COLORS[event["cat"]]
        box = (left - begin) / 1e3, (right - left) / 1e3
        axes.broken_barh([box], (y, 0.8), facecolor=color, edgecolor="#555555", linewidth=0.3)
        letters = int((right - left) / (end - begin) * 190)
        if letters > 2:
            axes.text(box[0], y + 0.4, f" {event['name'][:letters]}", va="center", fontsize=7)
        if event["cat"] in (*DEVICE, "privateuse1_runtime"):
            at[event["args"]["correlation"], event["cat"] in DEVICE] = box[0], y
    for (number, on_device), target in at.items():
        if on_device and (number, False) in at:
            x, y = at[number, False]
            arrow = {"arrowstyle": "->", "color": "#d62728", "linewidth": 0.7, "alpha": 0.7}
            axes.annotate("", (target[0], target[1] + 0.8), (x, y), arrowprops=arrow)
    tops = {row[4]: y for row, y in reversed(list(heights.items()))}
    axes.set_yticks([y + 0.4 for y in tops.values()], tops.keys())
    axes.set_xlim(0, (end - begin) / 1e3)
    axes.set_xlabel("ms")
    axes.set_title(title, fontsize=10)
    figure.tight_layout()
    return figure


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trace", type=pathlib.Path)
    parser.add_argument("picture")
    parser.add_argument("--from", dest="begin", type=float, default=0)
    parser.add_argument("--length", type=float, default=10)
    arguments = parser.parse_args()
    trace = json.loads(arguments.trace.read_text())
    events = [
        e for e in trace["traceEvents"] if e["ph"] == "X" and e.get("cat") in (*HOST, *DEVICE)
    ]
    begin = min(e["ts"] for e in events if e["cat"] in DEVICE) + 1e3 * arguments.begin
    title = ", ".join(p["name"] for p in trace["deviceProperties"])
    draw(events, begin, begin + 1e3 * arguments.length, title).savefig(arguments.picture)


if __name__ == "__main__":
    main()
