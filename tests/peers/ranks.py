"""Processes of ranks."""

import contextlib
import ctypes
import json
import os
import pathlib
import select
import shutil
import signal
import tempfile

from forked import Forked


@contextlib.contextmanager
def temporary_folder():
    """As tempfile.TemporaryDirectory, which forked processes would remove when they exit."""
    folder = pathlib.Path(tempfile.mkdtemp())
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


class Rank(Forked):
    def __init__(self, body, output):
        super().__init__(body, output)
        self.status = None
        self._text = b""  # read, but not heard

    def _leave(self):
        # With destructors, which must not wait for peers, and without the caller's `finally`.
        ctypes.pythonapi.Py_Exit(0)

    def hear(self, limit):
        """The next object; None when the process has ended; TimeoutError after `limit` s."""
        while b"\n" not in self._text:
            if not select.select([self._read], [], [], limit)[0]:
                os.kill(self.process, signal.SIGABRT)  # prints the stacks
                raise TimeoutError(f"a rank says nothing for {limit} s")
            more = os.read(self._read, 1 << 16)
            if not more:
                return None
            self._text += more
        line, _, self._text = self._text.partition(b"\n")
        return json.loads(line)

    def signal(self, number):
        os.kill(self.process, number)

    def wait(self, limit):
        """The exit status of a process that has said its last; negative for a signal."""
        while self.hear(limit):
            pass
        return self.end(kill=False)

    def end(self, kill=True):
        if self.status is None:
            if kill:
                os.kill(self.process, signal.SIGKILL)
            self.status = os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])
            os.close(self._read), self._write.close()
        return self.status
