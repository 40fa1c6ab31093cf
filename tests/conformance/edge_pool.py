"""The pool of workers for the sweep: after a case that kills or blocks its worker, the other cases
of the task run in a new one."""

import time

import edge_report
from cases import P_CPU, P_SAMPLES, P_START
from pool import Pool, StartFailed

MOST_LOST = 12  # crashes and hangs in one task; a task with more skips its other cases


class EdgePool(Pool):
    def step(self):
        """The time limit is for one case, so it starts again with each case."""
        for w in self.workers:
            if w.state == "busy" and w.shared[0] != getattr(w, "case", None):
                w.case = w.shared[0]
                w.deadline = time.monotonic() + self.args.timeout_per_op
        super().step()

    def failure(self, w, category, message):
        on_cpu = w.shared[2] in (P_START, P_SAMPLES, P_CPU)
        kind = "hang" if category == "timeout" or message.startswith("after ") else "crash"
        return {
            "lost": w.shared[0],
            "what": f"{kind} of the CPU" if on_cpu else kind,
            "message": message,
        }

    def accept(self, w, result):
        if "lost" not in result:
            if "agree" not in result:  # the harness, or a generator of samples, failed
                result = {k: result[k] for k in ("name", "base", "dtype", "kind")} | {
                    "agree": 0,
                    "decided": {},
                    "seconds": 0.0,
                    "category": "skip",
                    "left": {result["message"]: 1},
                    "differences": w.task.get("lost", []),
                }
            return super().accept(w, result)
        case, passed_over = result["lost"], w.task.get("passed_over", [])
        lost = [
            *w.task.get("lost", []),
            {"case": f"number {case}", "kind": result["what"], "message": result["message"]},
        ]
        task = dict(w.task, lost=lost, passed_over=[*passed_over, case])
        task.pop("retry_of", None)
        if case < 0 or len(lost) > MOST_LOST:
            self.results.append(
                {k: task[k] for k in ("name", "base", "dtype", "kind")}
                | {"agree": 0, "decided": {}, "left": {"given up": 1}, "differences": lost}
                | {"category": "crash", "seconds": 0.0}
            )
        else:
            self.queue.appendleft(task)
            self.total += 1


def run_tasks(args, run_task, tasks):
    """Runs the tasks of a sweep, and saves and shows the results; -> the exit code."""
    if not tasks:
        print("nothing to run: nothing matches")
        return 2
    pool = EdgePool(args, run_task, tasks)
    try:
        results = pool.run(lambda results: edge_report.save(args, pool, results))
    except StartFailed as e:
        print(f"cannot measure: {e}")
        return 2
    edge_report.save(args, pool, results)
    return edge_report.show(args, pool, results, tasks)
