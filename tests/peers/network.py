"""Network namespaces that a process of this machine joins, so that it can delay, lose and stop
their packets, as tc's netem does where the kernel has it.

    with Network(2) as network:  # OSError where the system does not permit it
        network.rules(delay=0.02, jitter=0.005)
        if not os.fork():
            network.enter(0)  # the address here is network.address(0), the interface INTERFACE
"""

import contextlib
import ctypes
import fcntl
import heapq
import json
import os
import pathlib
import random
import selectors
import signal
import socket
import struct
import subprocess
import time
import traceback

INTERFACE = "tun0"
CLONE_NEWNET = 0x40000000
TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 0x0001, 0x1000  # packets as they are, without a header of the device
PACKET = 1 << 16

libc = ctypes.CDLL(None, use_errno=True)


def called(name, *arguments):
    if getattr(libc, name)(*arguments):
        raise OSError(ctypes.get_errno(), f"{name} failed")


class Network:
    """`size` namespaces. Rules last until the next call of rules()."""

    def __init__(self, size, seed=0):
        self._own = os.open("/proc/self/ns/net", os.O_RDONLY)
        self._namespaces, self._devices = [], []
        try:
            for member in range(size):
                self._make(member)
        except (OSError, subprocess.SubprocessError) as error:
            self._close()
            raise OSError(f"network namespaces with a tun device: {error}") from error
        self._orders, orders = socket.socketpair(type=socket.SOCK_SEQPACKET)
        self._forwarder = os.fork()
        if not self._forwarder:
            try:
                Forwarder(self._devices, orders, random.Random(seed)).run()
            except BaseException:
                traceback.print_exc()
            os._exit(1)
        orders.close()

    def _make(self, member):
        called("unshare", CLONE_NEWNET)
        try:
            self._namespaces.append(os.open("/proc/self/ns/net", os.O_RDONLY))
            device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
            self._devices.append(device)
            request = struct.pack("16sH22x", INTERFACE.encode(), IFF_TUN | IFF_NO_PI)
            fcntl.ioctl(device, TUNSETIFF, request)
            for words in (
                "link set lo up",
                f"address add {self.address(member)}/24 dev {INTERFACE}",
                f"link set {INTERFACE} up",
            ):
                subprocess.run(["ip", *words.split()], check=True, capture_output=True)
        finally:
            called("setns", self._own, CLONE_NEWNET)

    def address(self, member):
        return f"10.77.0.{member + 1}"

    def enter(self, member):
        """The calling thread, and processes and threads that it starts, are in the namespace."""
        called("setns", self._namespaces[member], CLONE_NEWNET)

    def rules(self, delay=0.0, jitter=0.0, loss=0.0, apart=()):
        """Seconds, a probability, and members whose packets do not reach the others.

        They are for the packets that are sent once this has returned: -> how many the former rules
        have lost."""
        rules = {"delay": delay, "jitter": jitter, "loss": loss, "apart": [*apart]}
        self._orders.send(json.dumps(rules).encode())
        return int(self._orders.recv(PACKET))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.kill(self._forwarder, signal.SIGKILL)
        self._orders.close()
        os.waitpid(self._forwarder, 0)
        self._close()

    def _close(self):
        for number in [self._own, *self._namespaces, *self._devices]:
            os.close(number)


class Forwarder:
    """Moves packets between the devices; each message of `orders` has new rules."""

    def __init__(self, devices, orders, generator):
        self.devices, self.orders, self.generator = devices, orders, generator
        self.rules = {"delay": 0.0, "jitter": 0.0, "loss": 0.0, "apart": []}
        self.waiting = []  # (time of arrival, number, member, packet)
        self.number = self.lost = 0

    def run(self):
        selector = selectors.DefaultSelector()
        selector.register(self.orders, selectors.EVENT_READ)
        for device in self.devices:
            selector.register(device, selectors.EVENT_READ)
        while True:
            self._deliver()
            until = self.waiting[0][0] - time.monotonic() if self.waiting else None
            ready = [key.fileobj for key, _ in selector.select(until)]
            for member in range(len(self.devices)):
                self._take_all(member)
            if self.orders in ready:
                self.rules = json.loads(self.orders.recv(PACKET))
                self.orders.send(str(self.lost).encode())
                self.lost = 0

    def _take_all(self, member):
        with contextlib.suppress(BlockingIOError):
            while True:
                self._take(member, os.read(self.devices[member], PACKET))

    def _take(self, source, packet):
        target = packet[19] - 1  # the last byte of IPv4's destination
        if packet[0] >> 4 != 4 or not 0 <= target < len(self.devices):
            return
        rules = self.rules
        apart = (source in rules["apart"]) != (target in rules["apart"])
        if apart or self.generator.random() < rules["loss"]:
            self.lost += 1
            return
        late = rules["delay"] + self.generator.uniform(-1, 1) * rules["jitter"]
        self.number += 1
        heapq.heappush(self.waiting, (time.monotonic() + late, self.number, target, packet))

    def _deliver(self):
        while self.waiting and self.waiting[0][0] <= time.monotonic():
            *_, member, packet = heapq.heappop(self.waiting)
            with contextlib.suppress(BlockingIOError):  # a full queue loses packets
                os.write(self.devices[member], packet)


def refusal():
    """Why there can be no Network here, or an empty string."""
    if not pathlib.Path("/proc/self/ns/net").exists():
        return "the system has no network namespaces"
    try:
        with Network(1):
            return ""
    except OSError as error:
        return str(error)
