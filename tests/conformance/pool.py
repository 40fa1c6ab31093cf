"""Workers: every case runs in a child process, which is replaced when it dies or hangs, so one bad
operator costs one case and not the run."""

import collections
import contextlib
import multiprocessing
import multiprocessing.connection
import os
import pathlib
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings

import torch
from cases import P_CPU, P_SAMPLES, P_START, PHASES, Context, Tally, describe
from samples import FallbackMeter, check_alive, open_device, unfreeze_seeded_wrappers


def worker_main(conn, parent_end, shared, args, run_task, log_path):
    parent_end.close()  # else this process would not notice the end of its parent
    log = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    parent = os.getppid()
    shared[2] = P_START
    torch.set_num_threads(args.threads)
    warnings.simplefilter("ignore")
    try:
        device = open_device(args.imports, args.device)
    except BaseException as e:
        traceback.print_exc()
        conn.send(("failed", describe(e)))
        return
    unfreeze_seeded_wrappers()
    dead_from_start = check_alive(device)
    meter = FallbackMeter(device.type, args.imports)
    context = Context(args, device, meter, shared)
    conn.send(
        (
            "ready",
            {
                "torch": torch.__version__,
                "device": str(device),
                "fallback_source": meter.source,
                "copy_check": dead_from_start or "ok",
            },
        )
    )
    while True:
        try:
            while not conn.poll(5):
                if os.getppid() != parent:
                    return
            task = conn.recv()
        except EOFError:
            return
        if task is None:
            return
        shared[0], shared[1], shared[2] = -1, 0, P_SAMPLES
        try:
            result = run_task(task, context)
        except BaseException as e:  # an error in the harness or in the generator of samples
            traceback.print_exc()
            tally = Tally(task, context)
            tally.note("skip", f"harness: {describe(e)}")
            result = tally.finish()
            result["harness_error"] = traceback.format_exc()[-1500:]
        sys.stdout.flush()
        result["fallback_source"] = meter.source
        # If the device does not copy data any more, the next cases would fail, too. So they run in
        # a new process.
        again = None
        if dead_from_start is None and result["category"] in ("error", "unsupported", "wrong"):
            again = check_alive(device)
            if again:
                result["broke_device"] = again
        if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > args.max_worker_gib * 2**20:
            again = again or "memory"
        conn.send(("done", result, again))
        if again:
            conn.close()
            os._exit(0)


class Worker:
    def __init__(self, pool):
        self.pool = pool
        fd, self.log_path = tempfile.mkstemp(prefix="measure-", suffix=".log")
        os.close(fd)
        self.shared = pool.mp.RawArray("l", 3)
        self.conn, child = pool.mp.Pipe()
        self.process = pool.mp.Process(
            target=worker_main,
            daemon=True,
            args=(child, self.conn, self.shared, pool.args, pool.run_task, self.log_path),
        )
        self.process.start()
        child.close()
        self.task, self.state, self.done_here = None, "starting", 0
        self.deadline = time.monotonic() + 300

    def give(self, task):
        self.task, self.state = task, "busy"
        self.log_start = pathlib.Path(self.log_path).stat().st_size
        self.shared[0], self.shared[1], self.shared[2] = -1, 0, P_SAMPLES
        self.deadline = time.monotonic() + self.pool.args.timeout_per_op
        self.conn.send(task)

    def log_tail(self, start=0):
        with pathlib.Path(self.log_path).open(errors="replace") as f:
            f.seek(start)
            lines = [s.strip() for s in f.read()[-4000:].splitlines() if s.strip()]
        for s in reversed(lines):  # the text of an uncaught C++ exception, if one ended the process
            if "what():" in s:
                return s[:200]
        return lines[-1][:200] if lines else ""

    def stop(self, kill=False):
        if kill:
            self.process.kill()
        else:
            with contextlib.suppress(OSError, ValueError):
                self.conn.send(None)
        self.process.join(5)
        if self.process.is_alive():
            self.process.kill()
            self.process.join(5)
        self.conn.close()
        with contextlib.suppress(OSError):
            pathlib.Path(self.log_path).unlink()


class StartFailed(Exception):
    pass


class Pool:
    def __init__(self, args, run_task, tasks):
        self.args, self.run_task = args, run_task
        self.mp = multiprocessing.get_context(args.start_method)
        self.queue = collections.deque(tasks)
        self.total = len(self.queue)
        self.results, self.info, self.workers = [], {}, []
        self.restarts, self.failed_starts = 0, 0
        self.started = self.last_note = self.last_save = time.monotonic()

    def run(self, save=None):
        interrupted = False

        def stop(signum, frame):
            raise KeyboardInterrupt

        for s in (
            signal.SIGINT,
            signal.SIGTERM,
        ):  # shells start background jobs with these signals ignored
            signal.signal(s, stop)
        try:
            for _ in range(max(1, min(self.args.jobs, self.total))):
                self.workers.append(Worker(self))
            while self.queue or any(w.task for w in self.workers):
                self.step()
                self.progress(save)
        except KeyboardInterrupt:
            interrupted = True
            print("interrupted: reporting what is done", file=sys.stderr)
        finally:
            for w in self.workers:
                w.stop(kill=w.state == "busy" or interrupted)
        return self.results

    def progress(self, save):
        now = time.monotonic()
        if not self.args.quiet and now - self.last_note > 20:
            self.last_note = now
            bad = sum(r["category"] not in ("pass", "skip") for r in self.results)
            current = (
                ""
                if self.args.totals_only
                else ", at " + ", ".join(w.task["name"] for w in self.workers if w.task)
            )
            print(
                f"  {len(self.results)}/{self.total} cases, {bad} not passing, "
                f"{now - self.started:.0f} s{current}",
                file=sys.stderr,
                flush=True,
            )
        if save and now - self.last_save > 60:
            self.last_save = now
            save(self.results)

    def step(self):
        for w in self.workers:
            if w.state == "idle" and self.queue:
                w.give(self.queue.popleft())
        waiting = [w for w in self.workers if w.state != "idle"]
        if not waiting:
            return
        pause = max(0.0, min(min(w.deadline for w in waiting) - time.monotonic(), 1.0))
        handles = [h for w in waiting for h in (w.conn, w.process.sentinel)]
        multiprocessing.connection.wait(handles, timeout=pause)
        for w in waiting:
            self.attend(w)

    def attend(self, w):
        message = None
        try:
            if w.conn.poll():
                message = w.conn.recv()
        except (EOFError, OSError):
            pass
        if message:
            if message[0] == "ready":
                self.info, w.state, self.failed_starts = message[1], "idle", 0
            elif message[0] == "failed":
                raise StartFailed(f"the worker could not start: {message[1]}")
            else:
                self.accept(w, message[1])
                w.task, w.state, w.done_here = None, "idle", w.done_here + 1
                if message[2]:
                    self.replace(w)
        elif not w.process.is_alive() or (w.process.exitcode is not None):
            w.process.join()
            self.died(w)
        elif time.monotonic() > w.deadline:
            self.hung(w)

    def accept(self, w, result):
        if w.task.get("retry_of"):
            result["crashed_once"] = w.task["retry_of"]
        self.results.append(result)

    def replace(self, w, kill=False):
        w.stop(kill=kill)
        self.restarts += 1
        self.workers[self.workers.index(w)] = Worker(self)

    def failure(self, w, category, message):
        """A result for a case whose worker is gone."""
        tally = Tally(w.task, Context(self.args, None, None, [0, 0, 0]))
        tally.result["samples"]["pass"] = w.shared[1]
        tally.note(category, message, w.shared[0])
        result = tally.finish()
        result["fallback_source"] = self.info.get("fallback_source", "unknown")
        return result

    def died(self, w):
        code = w.process.exitcode
        if w.state == "starting":
            self.failed_starts += 1
            if self.failed_starts >= 3:
                raise StartFailed(f"the worker dies when it starts (exit {code}): {w.log_tail()}")
            return self.replace(w)
        if w.task is None:  # between two cases
            return self.replace(w)
        try:
            how = signal.Signals(-code).name if code < 0 else f"exit {code}"
        except ValueError:
            how = f"exit {code}"
        message = f"{how} while {PHASES[w.shared[2]]}"
        tail = w.log_tail(w.log_start)
        if tail:
            message += f"; last words: {tail}"
        if not w.task.get("retry_of") and w.done_here:
            # An earlier case may have broken this process: the case gets a second try in a fresh
            # one.
            self.queue.appendleft(dict(w.task, retry_of=message))
        else:
            cpu = w.shared[2] in (P_START, P_SAMPLES, P_CPU)
            self.accept(w, self.failure(w, "skip" if cpu else "crash", message))
        self.replace(w, kill=True)

    def hung(self, w):
        if w.state == "starting":
            raise StartFailed("the worker did not start in time: " + w.log_tail())
        cpu = w.shared[2] in (P_START, P_SAMPLES, P_CPU)
        message = (
            f"after {self.args.timeout_per_op:g} s while {PHASES[w.shared[2]]}, "
            f"at sample {w.shared[0]}"
        )
        # If the CPU took too long before the device ran a sample, the device has not failed.
        category = "skip" if cpu and w.shared[0] <= 0 else "timeout"
        self.accept(w, self.failure(w, category, message))
        self.replace(w, kill=True)
