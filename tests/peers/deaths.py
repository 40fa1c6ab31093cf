"""Moments at which a training process kills itself."""

import contextlib
import os
import pathlib
import signal
import threading
import time

import torch.distributed as dist
from torch.distributed.checkpoint import filesystem

MOMENTS = ["any time", "backward", "part", "metadata", "before renaming", "after renaming"]
ONLY_FIRST_RANK = ["metadata", "before renaming", "after renaming"]  # which writes and renames


def die():
    os.kill(os.getpid(), signal.SIGKILL)


class DyingFile:
    """A file whose process is killed once `left` bytes of it are on the disk."""

    def __init__(self, file, left):
        self._file, self._left = file, left

    def write(self, data):
        data = memoryview(data).cast("B")
        self._file.write(data[: self._left])
        if len(data) >= self._left:
            self._file.flush()
            os.fsync(self._file.fileno())
            die()
        self._left -= len(data)
        return len(data)

    def __getattr__(self, name):
        return getattr(self._file, name)


def die_while_writing(pattern, left):
    """In the next file of a checkpoint whose path contains the pattern."""
    original = filesystem.FileSystem.create_stream

    @contextlib.contextmanager
    def create_stream(self, path, mode):
        with original(self, path, mode) as file:
            dies = pattern in str(path) and mode == "wb"
            yield DyingFile(file, left) if dies else file

    filesystem.FileSystem.create_stream = create_stream


def size_of(folder, pattern):
    """Bytes of the smallest such file of the earlier checkpoints."""
    return min(file.stat().st_size for file in folder.glob(f"[0-9]*/{pattern}*"))


class Death:
    """One that `generator` draws, after at least one step since `first`."""

    def __init__(self, folder, moment, generator, first):
        self.folder, self.moment = folder, moment
        self.step = first + 1 + generator.randrange(2)
        self.rank = generator.randrange(dist.get_world_size())
        if moment in ONLY_FIRST_RANK:
            self.rank = 0
        self.part = generator.random()
        self.begun = self.duration = None
        self.timer = None

    def _due(self, moment, step):
        return (moment, step, dist.get_rank()) == (self.moment, self.step, self.rank)

    def begin_step(self, step):
        now = time.monotonic()
        if self.begun is not None:
            self.duration = now - self.begun
        self.begun = now
        if self._due("any time", step):
            # A step and its checkpoint take about as long as those before.
            self.timer = threading.Timer(self.part * self.duration, die)
            self.timer.start()

    def in_backward(self, step):
        if self._due("backward", step):
            die()

    def begin_save(self, step):
        for moment, pattern in ("part", f"__{self.rank}_"), ("metadata", ".metadata"):
            if self._due(moment, step):
                die_while_writing(pattern, int(self.part * size_of(self.folder, pattern)))
        if self._due("before renaming", step):
            rename = pathlib.Path.rename
            pathlib.Path.rename = lambda path, target: (
                die() if path.name == "writing" else rename(path, target)
            )

    def end_save(self, step):
        if self._due("after renaming", step):
            die()

    def end(self):
        """After the last step."""
        if self.timer:
            self.timer.join()
        assert not self.moment, f"all ranks survived {vars(self)}"

    def steps_kept(self, last):
        """How many steps the last good checkpoint may have."""
        if self.moment == "any time":
            return [*range(self.step, last + 1)]
        return [self.step + (self.moment == "after renaming")]
