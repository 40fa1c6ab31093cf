"""Processes of ranks, forked once PyTorch is imported, and before OpenCL is used."""

import contextlib
import ctypes
import faulthandler
import json
import os
import pathlib
import select
import shutil
import signal
import sys
import tempfile
import traceback


@contextlib.contextmanager
def temporary_folder():
    """As tempfile.TemporaryDirectory, which forked processes would remove when they exit."""
    folder = pathlib.Path(tempfile.mkdtemp())
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


class Rank:
    """A process that runs body(say, hear), which write and read objects as lines of JSON."""

    def __init__(self, body, printed):
        read, to_parent = os.pipe()
        from_parent, write = os.pipe()
        self.printed = printed
        self.status = None
        self.process = os.fork()
        if not self.process:
            os.close(read), os.close(write)
            self._run(body, os.fdopen(to_parent, "w"), os.fdopen(from_parent))
        os.close(to_parent), os.close(from_parent)
        self._read, self._write = read, os.fdopen(write, "w")
        self._text = b""  # read, but not heard

    def _run(self, body, out, into):
        """In the child; does not return."""
        output = os.open(self.printed, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(output, 1), os.dup2(output, 2)
        faulthandler.enable()

        def say(**line):
            out.write(json.dumps(line) + "\n")
            out.flush()

        try:
            body(say, lambda: json.loads(into.readline()))
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
        # With destructors, which must not wait for peers, and without the caller's `finally`.
        ctypes.pythonapi.Py_Exit(0)

    def tell(self, line):
        self._write.write(json.dumps(line) + "\n")
        self._write.flush()

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

    def output(self):
        return self.printed.read_text(errors="replace")[-4000:]
