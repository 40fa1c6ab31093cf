"""One training run of several ranks with a fault, and what is wrong with what the ranks say."""

import dataclasses
import os
import re
import signal
import threading
import time

import training
from network import INTERFACE
from ranks import Rank, temporary_folder

LIMIT = 240  # seconds after which a rank that says nothing hangs

BREAKING = ["killed", "stopped", "partition"]  # the others get an error
HARMLESS = ["none", "stopped for 2 s", "slow", "delay", "loss", "partition of 3 s"]
OF_THE_NETWORK = ["delay", "loss", "partition", "partition of 3 s"]
FAULTS = [*HARMLESS, *BREAKING]
RULES = {"delay": {"delay": 0.02, "jitter": 0.005}, "loss": {"loss": 0.01}}


@dataclasses.dataclass(frozen=True)
class Case:
    kind: str  # of training.KINDS
    size: int
    fault: str

    @property
    def victim(self):
        return self.size - 1

    def __str__(self):
        return f"{self.kind}, {self.size} ranks, {self.fault}"


def in_backward(case, step, say, hear):
    """The fault of the victim in the middle of a backward pass."""
    if case.fault == "slow":
        time.sleep(0.2)
    elif case.fault not in RULES and case.fault != "none" and step == training.FAULT_AT:
        say(fault=True)
        if case.fault.startswith("partition"):
            hear()  # the network is cut
        else:
            how = signal.SIGKILL if case.fault == "killed" else signal.SIGSTOP
            # A signal for this thread, which goes no further. A signal for the process may arrive
            # later.
            signal.pthread_kill(threading.get_ident(), how)


def nothing(*_):
    pass


def rank_of(case, rank, place, network, folder):
    hook = nothing
    if rank == case.victim:

        def hook(*arguments):
            in_backward(case, *arguments)

    train = training.body(case.kind, rank, case.size, place, hook, case.fault in BREAKING)

    def body(say, hear):
        if network:
            network.enter(rank)
            os.environ["GLOO_SOCKET_IFNAME"] = INTERFACE
        train(say, hear)

    return Rank(body, folder / f"printed.{rank}")


class Run:
    """The ranks of a case. `digests` has each rank's after each step, `ends` its last words."""

    def __init__(self, case, network=None):
        self.case, self.network = case, network
        self.digests = [{} for _ in range(case.size)]
        self.ends = [None] * case.size
        self.statuses, self.lost = [], 0
        if network:
            network.rules(**RULES.get(case.fault, {}))
        with temporary_folder() as folder:
            place = f"tcp://{network.address(0)}:29500" if network else f"file://{folder}/store"
            self.ranks = [rank_of(case, rank, place, network, folder) for rank in range(case.size)]
            try:
                self._follow()
                if network:
                    self.lost += network.rules()
            except Exception as error:
                error.add_note(self.outputs())
                raise
            finally:
                for rank in self.ranks:
                    rank.end()

    def _follow(self):
        victim = self.ranks[self.case.victim]
        # The victim first: without it the others do not end.
        self._hear(self.case.victim)
        for rank in range(self.case.size - 1):
            self._hear(rank)
        if self.case.fault == "stopped":
            victim.signal(signal.SIGCONT)
            self._hear(self.case.victim)
        for rank, end in zip(self.ranks, self.ends):
            if end:
                rank.tell("end")
        self.statuses = [rank.wait(LIMIT) for rank in self.ranks]

    def _hear(self, number):
        """Until the rank has ended or is stopped."""
        rank = self.ranks[number]
        while (line := rank.hear(LIMIT)) is not None:
            if "step" in line:
                self.digests[number][line["step"]] = line["digest"]
            elif "fault" in line:
                if self._begin(rank):
                    return
            else:
                self.ends[number] = line
                return

    def _begin(self, victim):
        """The fault: -> whether the victim says nothing for now."""
        fault = self.case.fault
        if fault.startswith("partition"):
            half = range(self.case.size // 2, self.case.size)
            self.network.rules(apart=half)
            victim.tell("cut")
            if fault != "partition":
                time.sleep(3)
                self.lost = self.network.rules()
        if fault == "stopped for 2 s":
            time.sleep(2)
            victim.signal(signal.SIGCONT)
        return fault == "stopped"

    def outputs(self):
        return "\n".join(f"rank {n}: {rank.printed()}" for n, rank in enumerate(self.ranks))

    def defects(self, expected):
        """Describes what is wrong; `expected`: the digests of the same ranks without a fault."""
        for rank, end in enumerate(self.ends):
            killed = self.case.fault == "killed" and rank == self.case.victim
            if killed or end is None:
                if not killed or self.statuses[rank] != -signal.SIGKILL:
                    yield f"rank {rank} ended with status {self.statuses[rank]}"
                continue
            if self.statuses[rank]:
                yield f"rank {rank} ended with status {self.statuses[rank]} after all"
            if not end["device"]:
                yield f"the device of rank {rank} computes wrong numbers"
            if end["digest"] != expected[rank][end["done"]]:
                yield f"rank {rank} has other parameters after step {end['done']}"
            breaking = self.case.fault in BREAKING
            if end["done"] != (training.FAULT_AT if breaking else training.STEPS):
                yield f"rank {rank} has done {end['done']} steps"
            if bool(end["error"]) != breaking:
                yield f"rank {rank}: {end.get('text', 'no error')}"
            elif breaking and not re.search(
                r"occl: [A-Z_]+ failed: .*(onnection|imed? ?out)", end["text"]
            ):
                yield f"rank {rank} does not say what broke: {end['text']}"

    def outcome(self):
        """In words, for a table."""
        if self.case.fault in HARMLESS:
            return "the same parameters" + f", {self.lost} packets lost" * bool(self.lost)
        kinds = set()
        for end in filter(None, self.ends):
            late = re.search("imed? ?out", end["text"])
            kinds.add(f"{end['error']}: {'timed out' if late else 'connection lost'}")
        # A stopped process also counts the time in which it was stopped.
        longest = max(end["seconds"] for end in self.ends[: self.case.victim])
        return f"{', '.join(sorted(kinds))}; {longest:.1f} s"
