"""The program cache on disk, as processes see it."""

import json
import os
import pathlib
import subprocess
import sys

import pytest
from support import output_of

PROGRAM = """
    import json, torch, torch_ocl
    x = torch.arange(100.0, device="ocl")
    assert torch.equal((x * 2 + 1).cpu(), torch.arange(100.0) * 2 + 1)
    assert x.sum().item() == 4950
    print(json.dumps(torch_ocl._C.program_cache_stats()))
"""


def stats(folder):
    return json.loads(output_of(PROGRAM, OCL_CACHE_DIR=str(folder)))


def files(folder):
    return sorted(pathlib.Path(folder).iterdir())


@pytest.mark.sample
def test_second_process_builds_nothing(tmp_path):
    first = stats(tmp_path)
    assert first["built"] > 0 and first["loaded"] == 0
    assert len(files(tmp_path)) == first["built"]
    assert stats(tmp_path) == {"built": 0, "loaded": first["built"]}


def test_damaged_files_are_built_again(tmp_path):
    count = stats(tmp_path)["built"]
    for number, path in enumerate(files(tmp_path)):
        content = bytearray(path.read_bytes())
        if number % 2:
            content[len(content) // 2] ^= 1
        else:
            del content[len(content) // 2 :]
        path.write_bytes(content)
    assert stats(tmp_path) == {"built": count, "loaded": 0}
    assert stats(tmp_path) == {"built": 0, "loaded": count}


def test_another_driver_is_another_key(tmp_path):
    """The key holds the driver's version: a file under its name but of another key is not used."""
    count = stats(tmp_path)["built"]
    for path in files(tmp_path):
        content = path.read_bytes()
        path.write_bytes(content.replace(b"-cl-std=CL1.2", b"-cl-std=CL1.3"))
    assert stats(tmp_path) == {"built": count, "loaded": 0}


def test_processes_at_once(tmp_path):
    program = f"import textwrap; exec(textwrap.dedent({PROGRAM!r}))"
    environment = {**os.environ, "OCL_CACHE_DIR": str(tmp_path)}
    running = [subprocess.Popen([sys.executable, "-c", program], env=environment) for _ in range(3)]
    assert [process.wait(timeout=120) for process in running] == [0, 0, 0]
    assert {path.suffix for path in files(tmp_path)} == {".bin"}
    assert stats(tmp_path)["built"] == 0


def test_read_only_folder_is_no_error(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    assert stats(blocked / "cache")["built"] > 0
