"""Damages the files that torch-ocl keeps, and checks that each process computes the same.

usage: damaged_files.py [--every BYTES] [--flips N] [--seed N]

The files are a compiled program, and the choices that the tuner measured. Each is truncated at
every 64th byte, has every 64th byte changed and single bits flipped, and is replaced by what is no
file. A child, forked before
the device is used, then computes with the folder: its result must be right, and it may use the
contents of an undamaged file only. Exits with 1 otherwise.
"""

import argparse
import collections
import hashlib
import os
import pathlib
import random
import shutil
import signal
import sys
import tempfile
import traceback
import warnings

import torch

import torch_ocl

GIBIBYTE = 2**30
SECONDS = 300  # until a child counts as hung


def compute():
    """How many programs were built in this process, which has used the device."""
    x = torch.arange(100.0).to("ocl")
    assert torch.equal((x * 2 + 1).cpu(), torch.arange(100.0) * 2 + 1)
    torch.ocl.synchronize()  # programs are kept by then
    return torch_ocl._C.program_cache_stats()["built"]


def tune():
    a, b = torch.randn(30, 40), torch.randn(40, 50)
    result = (a.to("ocl") @ b.to("ocl")).cpu()
    torch.testing.assert_close(result, a @ b, rtol=1e-4, atol=1e-4)
    return 0


def keep_choices():
    """Writes a file of choices."""
    tune()
    found = torch_ocl._C.last_tuned()
    torch_ocl._C.set_tuned(0, found.tunable, found.problem, 0)
    torch_ocl._C.save_tuned(0)
    return 0


def in_child(function, folder):
    """(exit status, its number): a child that is killed has a negative status."""
    read_end, write_end = os.pipe()
    if not (child := os.fork()):
        signal.alarm(SECONDS)
        os.environ["OCL_CACHE_DIR"] = str(folder)
        try:
            os.write(write_end, str(function()).encode())
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    os.close(write_end)
    with os.fdopen(read_end) as pipe:
        text = pipe.read()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), text


def cut(length):
    return lambda path, content: path.write_bytes(content[:length])


def flip(bit):
    def damage(path, content):
        changed = bytearray(content)
        changed[bit // 8] ^= 1 << bit % 8
        path.write_bytes(changed)

    return damage


def change(at):
    def damage(path, content):
        path.write_bytes(content[:at] + bytes([content[at] ^ 255]) + content[at + 1 :])

    return damage


def sparse(path, content):
    """The file, and then nothing until 4 GiB."""
    path.write_bytes(content)
    os.truncate(path, 4 * GIBIBYTE)


def another_key(path, content):
    """A file of backend/base/binary_file.cpp: magic, sizes, checksum, key, content."""
    *head, _, body = content.split(b"\n", 4)
    body = bytes([body[0] ^ 1]) + body[1:]
    path.write_bytes(b"\n".join((*head, hashlib.sha1(body).hexdigest().encode(), body)))


def others(path, content):
    path.write_bytes(content)
    path.chmod(0o666)


def foreign(path, content):
    """A file of another user, where this one may make it."""
    path.write_bytes(content)
    if os.geteuid() == 0:
        os.chown(path, 4242, 4242)
    else:
        path.chmod(0)


REPLACEMENTS = {
    "folder": lambda path, _: path.mkdir(),
    "pipe": lambda path, _: os.mkfifo(path),
    "link to zeros": lambda path, _: path.symlink_to("/dev/zero"),
    "link to itself": lambda path, _: path.symlink_to(path),
    "sparse": sparse,
    "writable by others": others,
    "of another user": foreign,
    "of another key": another_key,
}


def damages(size, every, flips, source):
    """(kind, function of a path and its content) of a file of `size` bytes."""
    yield from (("truncated", cut(length)) for length in range(0, size, every))
    yield from (("byte changed", change(at)) for at in range(0, size, every))
    yield from (("bit flipped", flip(source.randrange(8 * size))) for _ in range(flips))
    yield from REPLACEMENTS.items()


def remove(path):
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    else:
        path.unlink(missing_ok=True)


def check(path, function, arguments, source, found):
    """Counts children by kind in `found`; prints what is wrong, and counts it as "wrong"."""
    content = path.read_bytes()
    for kind, damage in damages(len(content), arguments.every, arguments.flips, source):
        remove(path)
        damage(path, content)
        status, number = in_child(function, path.parent)
        found[kind] += 1
        if status != 0 or (function is compute and number != "1"):
            found["wrong"] += 1
            print(f"{path.name}, {kind}: status {status}, {number} programs built", flush=True)
    remove(path)


def one_file(function, folder):
    """The file that a child of its own writes: the newest of the folder."""
    status, _ = in_child(function, folder)
    assert status == 0, "the child that should write a file failed"
    return max(folder.iterdir(), key=lambda path: path.stat().st_mtime_ns)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--every", type=int, default=64)
    parser.add_argument("--flips", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")  # files of others are told of
    source = random.Random(arguments.seed)
    wrong = 0
    for name, write, use in (("program", compute, compute), ("choices", keep_choices, tune)):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="torch_ocl_damaged_"))
        found = collections.Counter()
        try:
            check(one_file(write, folder), use, arguments, source, found)
        finally:
            print(name, dict(found), flush=True)  # if it is interrupted, too
            shutil.rmtree(folder, ignore_errors=True)  # a child may be writing
        wrong += found["wrong"]
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
