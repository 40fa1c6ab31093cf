"""The stern device's layer, by ctypes: failures on demand, counts of calls, objects alive."""

import ctypes
import os

from entries import CODES

OBJECTS = ("contexts", "queues", "buffers", "programs", "kernels", "events", "maps")


class Layer:
    """The layer that the OpenCL loader of this process loads, or has loaded."""

    def __init__(self):
        library = ctypes.CDLL(os.environ["OPENCL_LAYERS"])
        self._fail = library.stern_fail
        self._fail.restype = ctypes.c_bool
        self._failed = library.stern_failed
        self._calls = library.stern_calls
        self._alive = library.stern_alive
        for function in (self._failed, self._calls, self._alive):
            function.restype = ctypes.c_ulong

    def fail(self, failures=""):
        """Begins to count calls anew, and lets them fail as listed in the form of STERN_FAIL."""
        os.environ.pop("STERN_FAIL", None)  # for a layer that is not in use yet
        if not self._fail(failures.encode()):
            raise ValueError(failures)

    def failed(self):
        """How many calls failed on demand since then."""
        return self._failed()

    def calls_of_all(self):
        """{entry point: calls since then}"""
        return {entry: self._calls(entry.encode()) for entry in CODES}

    def alive(self):
        """{kind of objects: how many the program holds}"""
        return {name: self._alive(name.encode()) for name in OBJECTS}
