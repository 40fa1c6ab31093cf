"""The outcome of the cases in a task of a sweep."""

from edge_decisions import reason


class Outcome:
    """The outcome of a task's cases."""

    def __init__(self, task):
        self.task = task
        self.result = {k: task[k] for k in ("name", "base", "dtype", "kind")}
        self.result |= {"category": "pass", "message": "", "seconds": 0.0, "agree": 0}
        self.result |= {"decided": {}, "left": {}, "differences": list(task.get("lost", []))}

    def differs(self, label, kind, message):
        why = reason(self.task["name"], self.task["kind"], label, self.task["dtype"], message)
        if why:
            self.count("decided", why)
            return
        self.result["differences"].append({"case": label, "kind": kind, "message": message})
        self.result["category"] = "wrong"

    def name_lost(self, number, label):
        """Names a case that ended its process. If it did so on the CPU, the case is left out."""
        for lost in list(self.result["differences"]):
            if lost["case"] != f"number {number}":
                continue
            lost["case"] = label
            if lost["kind"].endswith("of the CPU"):
                self.result["differences"].remove(lost)
                self.count("left", lost["kind"])

    def count(self, what, why):
        self.result[what][why] = self.result[what].get(why, 0) + 1
