"""Reads the files that torch.profiler exports, for tests."""

import collections
import json

import torch
from torch.profiler import ProfilerActivity, profile

BOTH = [ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]
ON_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")


class Trace:
    """The exported events of a profile, by category."""

    def __init__(self, prof, folder):
        path = folder / "trace.json"
        prof.export_chrome_trace(str(path))
        self.json = json.loads(path.read_text())
        self.of = collections.defaultdict(list)
        for event in self.json["traceEvents"]:
            self.of[event.get("cat", event["name"])].append(event)
        self.on_device = sorted(
            (e for kind in ON_DEVICE for e in self.of[kind]), key=lambda e: e["ts"]
        )
        self.calls = {e["args"]["correlation"]: e for e in self.of["privateuse1_runtime"]}
        self.operators = {e["args"]["External id"]: e for e in self.of["cpu_op"]}

    def names(self, kind="kernel"):
        return [event["name"] for event in self.of[kind]]

    def call_of(self, event):
        return self.calls[event["args"]["correlation"]]

    def operator_of(self, event):
        return self.operators[event["args"]["External id"]]["name"]


def profiled(body, folder, activities=BOTH, **options):
    with profile(activities=activities, **options) as prof:
        body()
    return Trace(prof, folder)


def has_clock(device):
    """Mesa's drivers of CPUs stamp their events with 0, 1, 2, 3."""
    return "llvmpipe" not in torch.ocl.get_device_properties(device).name
