"""Training whose peers or network fail: a sample of `make test-peers`."""

import os
import signal
import socket
import subprocess
import sys
import time

import pytest
import torch
from network import Network, refusal
from support import DEADLINE, ROOT

MOST_LATE = 0.2  # seconds of delay for packets
TEXTS = [str(number) for number in range(100)]
FOLDER = ROOT / "tests" / "peers"
pytestmark = pytest.mark.skipif(
    not (torch.distributed.is_available() and torch.ocl.is_available()),
    reason="needs torch.distributed and an OpenCL device",
)


def printed_by(script, *arguments):
    result = subprocess.run(
        [sys.executable, str(FOLDER / script), *arguments],
        env={**os.environ, "OCL_FALLBACK": "error"},
        capture_output=True,
        text=True,
        timeout=DEADLINE,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout.splitlines()


def faults(kind, *names):
    """The ranks end with the parameters of a run without a fault, or with an error; where the
    system permits no namespaces, without the faults of the network."""
    lines = printed_by("run.py", "--kinds", kind, "--sizes", "2", "--faults", *names)
    assert lines[-1] == f"{1 if refusal() else 2} cases, 0 defects", lines


def test_faults_of_sharded_training():
    faults("FSDP2", "loss", "killed")


@pytest.mark.slow
def test_faults_of_parallel_training():
    faults("DDP", "partition of 3 s", "stopped")


def test_other_shapes_and_types():
    lines = printed_by("lies.py", "--collectives", "all_reduce", "all_to_all", "--lies", "more")
    assert lines[-1] == "6 cases, 0 defects", lines


@pytest.mark.slow
def test_killed_while_writing_a_checkpoint():
    """torchrun starts the workers again, from the last good checkpoint."""
    moments = ("--moments", "part", "metadata")
    lines = printed_by("run_restarts.py", "--kinds", "FSDP2", "--seeds", "0", *moments)
    assert lines[-1] == "1 runs, 0 defects", lines


def test_latency_above_a_bound():
    command = [sys.executable, str(FOLDER / "latency.py"), "--bytes", "4", "--calls", "20"]
    done = subprocess.run(
        [*command, "--most", "0"], capture_output=True, text=True, timeout=DEADLINE
    )
    assert done.returncode == 1 and "times gloo's time, more than 0.0" in done.stderr, done.stderr
    assert done.stdout.count("| 4 |") == 3


@pytest.fixture
def network():
    if reason := refusal():
        pytest.skip(reason)
    with Network(2, seed=5) as network:
        yield network


@pytest.fixture
def exchange(network):
    """exchange(TEXT...) sends a packet for each from the first namespace to the second, and then,
    without rules, "last": -> what came before that."""
    read, write = os.pipe()
    processes = []

    def in_namespace(member, work):
        process = os.fork()
        if not process:
            status = 1
            try:
                network.enter(member)
                work(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
                status = 0
            finally:
                os._exit(status)
        processes.append(process)

    def receive(receiver):
        receiver.bind((network.address(1), 7000))
        os.write(write, b"ready\n")
        while True:
            os.write(write, receiver.recv(100) + b"\n")

    def send(*texts):
        def sending(sender):
            for text in texts:
                sender.sendto(text.encode(), (network.address(1), 7000))

        in_namespace(0, sending)
        assert os.waitpid(processes.pop(), 0)[1] == 0

    def exchanged(*texts):
        send(*texts)
        lost = network.rules()
        time.sleep(MOST_LATE)
        send("last")
        received = [*iter(lambda: lines.readline().strip(), "last")]
        assert len(received) + lost == len(texts)
        return received

    in_namespace(1, receive)
    lines = os.fdopen(read)
    assert lines.readline() == "ready\n"
    yield exchanged
    os.kill(processes[0], signal.SIGKILL)
    os.waitpid(processes[0], 0)
    lines.close(), os.close(write)


def test_network_forwards(exchange):
    assert exchange(*TEXTS) == TEXTS


def test_network_delays(exchange, network):
    network.rules(delay=MOST_LATE / 2)
    begun = time.monotonic()
    assert exchange("delayed") == ["delayed"] and time.monotonic() - begun >= MOST_LATE / 2
    network.rules(delay=MOST_LATE / 2, jitter=MOST_LATE / 2)
    received = exchange(*TEXTS)
    assert received != TEXTS and sorted(received) == sorted(TEXTS)


def test_network_loses(exchange, network):
    network.rules(loss=0.5)
    received = exchange(*TEXTS)
    assert 0 < len(received) < len(TEXTS) and {*received} < {*TEXTS}


def test_network_is_cut(exchange, network):
    network.rules(apart=[1])
    assert exchange(*TEXTS) == []
    assert exchange(*TEXTS) == TEXTS
