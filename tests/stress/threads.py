"""Many threads on all devices: each result is bit by bit that of one thread, and each error reaches
the thread that caused it.

usage: threads.py [--seed S] [--threads N] [--minutes M | --steps K] [--silence SECONDS]

A thread's work depends only on the seed and the thread's number. The threads begin with empty
caches, so that they build kernels at the same time. Results of a job are compared with the first
ones, and those at the end with those of a single thread. When no step ends for SECONDS, the stacks
of all threads are printed, and the process ends with status 1.
"""

import argparse
import collections
import faulthandler
import random
import sys
import threading
import time
import traceback

import torch
from faults import FAULTS
from jobs import HELPERS, JOBS, Place

import torch_ocl  # noqa: F401 (the device, also where PyTorch has a GPU of its own)

SEEDS_OF_A_JOB = 12
FAULT_SHARE = 0.15
KEPT = 4  # results that a thread checks later, when their memory may have been used again
SECONDS_BETWEEN_LINES = 60


class Watchdog:
    """Ends the process when alive() has not been called for `seconds`."""

    def __init__(self, seconds):
        self.seconds, self.lock, self.armed = seconds, threading.Lock(), 0.0
        self.alive()

    def alive(self):
        with self.lock:
            if time.monotonic() > self.armed + 1:
                self.armed = time.monotonic()
                faulthandler.dump_traceback_later(self.seconds, exit=True)

    def stop(self):
        faulthandler.cancel_dump_traceback_later()


class Results:
    """The first results of each job, and what differed from them."""

    def __init__(self):
        self.lock, self.first, self.failures = threading.Lock(), {}, []
        self.counts, self.fault_numbers = collections.Counter(), 0

    def compare(self, key, found, who):
        with self.lock:
            expected = self.first.setdefault(key, found)
            self.counts[key[0]] += 1
        for i, (a, b) in enumerate(zip(found, expected, strict=True)):
            if a.dtype != b.dtype or not torch.equal(a, b):
                self.fail(f"{who}: result {i} of {key} differs")

    def fail(self, text):
        with self.lock:
            self.failures.append(text)
        print(text, file=sys.stderr, flush=True)

    def fault_number(self, name):
        with self.lock:
            self.counts[name] += 1
            self.fault_numbers += 1
            return self.fault_numbers


class Streams:
    """Streams of a device: OWN of them go to one thread each, the others to any."""

    OWN, ALL = 48, 64

    def __init__(self, device):
        streams = [torch.ocl.Stream(device, priority=-(i // 32)) for i in range(self.ALL)]
        self.own, self.shared = streams[: self.OWN], streams[self.OWN :]
        self.default = torch.ocl.default_stream(device)


class Worker:
    """A thread with its streams."""

    def __init__(self, number, seed, stress):
        self.name, self.stress = f"thread {number}", stress
        self.random = random.Random(f"{seed} {number}")
        mine, other = (stress.streams[n % len(stress.streams)] for n in (number, number + 1))
        self.streams, self.stream = mine, mine.own[number // len(stress.streams)]
        side, guest = self.random.choice(mine.shared), self.random.choice(other.shared)
        self.place = Place(str(self.stream.device), side, guest)
        self.kept, self.steps = collections.deque(), 0

    def run(self, wanted):
        """Steps until wanted(steps) is false. A failure ends the thread."""
        try:
            with self.stream:
                while wanted(self.steps):
                    self.step()
                    self.steps += 1
                    self.stress.watchdog.alive()
                while self.kept:
                    self.check()
        except BaseException:
            self.stress.results.fail(f"{self.name}, step {self.steps}:\n{traceback.format_exc()}")

    def step(self):
        if self.random.random() < FAULT_SHARE:
            return self.fault()
        name = self.random.choice(list(JOBS))
        key = (name, self.random.randrange(SEEDS_OF_A_JOB), self.place.device)
        self.kept.append((key, run_job(key, self.place)))
        if len(self.kept) > self.random.randrange(KEPT + 1):
            self.check()

    def check(self):
        key, tensors = self.kept.popleft()
        self.stress.results.compare(key, [tensor.cpu() for tensor in tensors], self.name)

    def fault(self):
        fault = self.random.choice(FAULTS)
        number = self.stress.results.fault_number(fault.__name__)
        shared = self.place.side, self.streams.default
        with self.random.choice((self.stream, *shared)):
            fault(self.place.device, number)


def run_job(key, place):
    name, seed, _ = key
    return JOBS[name](place, random.Random(f"{name} {seed}"))


class Stress:
    def __init__(self, args):
        count = torch.ocl.device_count()
        self.streams = [Streams(f"ocl:{index}") for index in range(count)]
        self.watchdog, self.results = Watchdog(args.silence), Results()
        threads = min(args.threads, count * Streams.OWN)
        self.workers = [Worker(number, args.seed, self) for number in range(threads)]
        self.end = time.monotonic() + args.minutes * 60
        self.args = args

    def wanted(self, steps):
        if self.results.failures:
            return False
        return time.monotonic() < self.end if self.args.minutes else steps < self.args.steps

    def run(self):
        """Whether all was as it should be."""
        threads = [
            threading.Thread(target=worker.run, args=(self.wanted,), name=worker.name)
            for worker in self.workers
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():
                thread.join(SECONDS_BETWEEN_LINES)
                if thread.is_alive():
                    print(self.sums(), file=sys.stderr, flush=True)
        if not self.results.failures:
            self.run_alone()
        self.watchdog.stop()
        print(self.sums())
        for name, count in sorted(self.results.counts.items()):
            print(f"{count:8}  {name}")
        return not self.results.failures

    def run_alone(self):
        """Each job once more, in this thread alone."""
        for key in list(self.results.first):
            worker = self.workers[int(key[2].removeprefix("ocl:"))]
            with worker.stream:
                found = [x.cpu() for x in run_job(key, worker.place)]
            self.results.compare(key, found, "a single thread")
            self.watchdog.alive()

    def sums(self):
        steps = sum(worker.steps for worker in self.workers)
        parts = f"{steps} steps of {len(self.workers)} threads", f"{len(self.results.first)} jobs"
        return ", ".join((*parts, f"{len(self.results.failures)} failures"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("usage")[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=64, help="48 at most on each device")
    parser.add_argument("--minutes", type=float, default=0, help="stop after this time")
    parser.add_argument("--steps", type=int, default=100, help="of a thread, without --minutes")
    parser.add_argument("--silence", type=float, default=300, help="seconds that count as a hang")
    torch.set_num_threads(1)
    good = Stress(parser.parse_args()).run()
    HELPERS.shutdown()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
