"""Cache folders on a full disk, read-only, and vanishing while a program runs."""

import json
import os
import shutil
import subprocess
import sys
import textwrap

import pytest
from support import DEADLINE, child_environment, output_of

WORK = """
    import json, os, shutil, torch, torch_ocl
    def work():
        x = torch.arange(100.0, device="ocl")
        assert torch.equal((x * 2 + 1).cpu(), torch.arange(100.0) * 2 + 1)
        torch.ocl.synchronize()
    def stats():
        print(json.dumps(torch_ocl._C.program_cache_stats()))
"""


def in_a_mount(folder, options, code, **variables):
    """What the code prints where the folder is a file system with these options."""
    if shutil.which("unshare") is None:
        pytest.skip("needs the command unshare")
    mount = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs -o "$0" tmpfs "$1" && shift && exec "$@"']
    allowed = subprocess.run([*mount, options, folder, "true"], capture_output=True, text=True)
    if allowed.returncode != 0:
        pytest.skip(f"needs the right to mount: {allowed.stderr.strip()}")
    result = subprocess.run(
        [*mount, options, folder, sys.executable, "-c", textwrap.dedent(code)],
        env=child_environment(**variables),
        capture_output=True,
        text=True,
        timeout=DEADLINE,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize("options", ["size=4k,mode=700", "ro,mode=700"])
def test_folder_without_room(tmp_path, options):
    """Nothing is kept, not even a part of a file."""
    code = WORK + "    work(), stats(), print(os.listdir(os.environ['OCL_CACHE_DIR']))"
    lines = in_a_mount(tmp_path, options, code, OCL_CACHE_DIR=str(tmp_path)).splitlines()
    assert json.loads(lines[0])["built"] > 0 and lines[1] == "[]"


VANISHING = {
    "removed": "shutil.rmtree(folder)",
    "replaced by a file": "shutil.rmtree(folder), open(folder, 'w').close()",
    "replaced by a link to nothing": "shutil.rmtree(folder), os.symlink('/nowhere/at/all', folder)",
    "emptied": "[os.remove(os.path.join(folder, name)) for name in os.listdir(folder)]",
}


@pytest.mark.parametrize("how", VANISHING)
def test_folder_that_vanishes(tmp_path, how):
    """Before a program is stored, and before another one is looked up."""
    code = (
        WORK
        + f"""
    folder = os.environ["OCL_CACHE_DIR"]
    work()
    y = torch.ones(3, device="ocl").exp()
    {VANISHING[how]}
    torch.ocl.synchronize()
    assert y.cpu().allclose(torch.ones(3).exp())
    assert torch.ones(4, 4, device="ocl").softmax(1).cpu().eq(0.25).all()
    work(), stats()
    """
    )
    assert json.loads(output_of(code, OCL_CACHE_DIR=str(tmp_path / "kept")))["built"] > 0


@pytest.mark.parametrize("what", ["folders", "links", "pipes", "zeros", "other programs", "closed"])
def test_something_else_in_place_of_files(tmp_path, what):
    """Under the names of programs: what is no file of this key is not used, nor waited for."""
    code = WORK + "    work(), stats()"
    assert json.loads(output_of(code, OCL_CACHE_DIR=str(tmp_path)))["built"] > 0
    paths = sorted(tmp_path.iterdir())
    contents = [path.read_bytes() for path in paths]
    for path, other in zip(paths, contents[1:] + contents[:1], strict=True):
        path.unlink()
        if what == "folders":
            path.mkdir()
        elif what == "links":
            path.symlink_to("/etc/passwd")
        elif what == "pipes":
            os.mkfifo(path)
        elif what == "zeros":
            path.write_bytes(bytes(len(other)))
        elif what == "other programs":
            path.write_bytes(other)
        else:
            path.touch(mode=0o000)
    for _ in range(2):
        output_of(code, OCL_CACHE_DIR=str(tmp_path))
