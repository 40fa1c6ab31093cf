"""The result of a case."""

import time

from options import is_heldout

CATEGORIES = ("pass", "wrong", "unsupported", "error", "timeout", "crash", "skip")

# Outcomes from mild to grave; the gravest outcome of a sample is that of the case. A silent wrong
# value is worse than a refusal.
SEVERITY = {
    c: i
    for i, c in enumerate(
        ("skip", "pass", "strides", "unsupported", "error", "wrong", "timeout", "crash")
    )
}
# The current work of a worker; the parent reads it if the worker dies or hangs.
PHASES = (
    "starting",
    "making samples",
    "running on the CPU",
    "moving inputs",
    "running on the device",
    "reading results back",
    "comparing",
)
P_START, P_SAMPLES, P_CPU, P_MOVE, P_DEVICE, P_READ, P_COMPARE = range(len(PHASES))


def describe(e):
    """The type of an exception, and the first line of its text that is not empty."""
    lines = [s.strip() for s in str(e).splitlines() if s.strip()]
    return f"{type(e).__name__}: {lines[0] if lines else '(no message)'}"[:300]


def category_of(e):
    return "unsupported" if isinstance(e, NotImplementedError) else "error"


def severity(category, what):
    return SEVERITY["strides" if category == "wrong" and what == "strides" else category]


class Tally:
    """Collects the outcomes of the samples of one case."""

    def __init__(self, task, context):
        self.context = context
        self.result = {
            "name": task["name"],
            "base": task["base"],
            "dtype": task["dtype"],
            "kind": task["kind"],
            "split": "heldout" if is_heldout(task["base"]) else "open",
            "category": "skip",
            "message": "",
            "what": "",
            "failing_sample": None,
            "metadata_only": 0,
            "tie_tolerated": 0,
            "gauge_tolerated": 0,
            "rounding_tolerated": 0,
            "samples": {c: 0 for c in CATEGORIES},
            "fallbacks": {},
            "native": None,
            "max_abs": 0.0,
            "seconds": 0.0,
        }
        self.skip_reason = ""
        self.begun = time.perf_counter()

    @property
    def fallbacks(self):
        return self.result["fallbacks"]

    def note(self, category, message="", index=None, what=""):
        r = self.result
        r["samples"][category] += 1
        if category == "skip":
            self.skip_reason = self.skip_reason or message
        elif category == "pass":
            self.context.shared[1] += 1
        if severity(category, what) > severity(r["category"], r["what"]):
            r["category"] = category
            r["message"], r["failing_sample"], r["what"] = (
                (message, index, what) if category not in ("pass", "skip") else ("", None, "")
            )

    def finish(self):
        r = self.result
        if r["category"] == "skip":
            r["message"] = self.skip_reason or "no samples"
        r["seconds"] = round(time.perf_counter() - self.begun, 3)
        return r


class Context:
    """The arguments of a worker's task function."""

    def __init__(self, args, device, meter, shared):
        self.args, self.device, self.meter, self.shared = args, device, meter, shared

    def mark(self, phase, sample=None):
        self.shared[2] = phase
        if sample is not None:
            self.shared[0] = sample
