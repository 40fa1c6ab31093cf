"""Processes that are forked after the import of PyTorch, and before the first use of OpenCL."""

import faulthandler
import json
import os
import sys
import traceback


class Forked:
    """A process that runs body(say, hear), which write and read objects as lines of JSON.

    What it prints goes to the file `output`. A derived class says by _leave() how it ends.
    """

    def __init__(self, body, output):
        read, to_parent = os.pipe()
        from_parent, write = os.pipe()
        self._output = output
        self.process = os.fork()
        if not self.process:
            os.close(read), os.close(write)
            self._run(body, os.fdopen(to_parent, "w"), os.fdopen(from_parent))
        os.close(to_parent), os.close(from_parent)
        self._read, self._write = read, os.fdopen(write, "w")

    def _run(self, body, out, into):
        """Runs in the child, and does not return."""
        output = os.open(self._output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
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
        self._leave()

    def tell(self, line):
        self._write.write(json.dumps(line) + "\n")
        self._write.flush()

    def printed(self):
        return self._output.read_text(errors="replace")[-4000:]
