"""The program cache on disk, as processes see it."""

import json
import os
import pathlib
import subprocess
import sys

import pytest
import torch
from support import DEADLINE, output_of, run_python, skip_on_the_stern_device

from torch_ocl.ocl.driver_cache import keep_pocl_private

PROGRAM = """
    import json, torch, torch_ocl
    x = torch.arange(100.0, device="ocl")
    assert torch.equal((x * 2 + 1).cpu(), torch.arange(100.0) * 2 + 1)
    assert x.sum().item() == 4950
    print(json.dumps(torch_ocl._C.program_cache_stats()))
"""


def stats(folder, **variables):
    return json.loads(output_of(PROGRAM, OCL_CACHE_DIR=str(folder), **variables))


def files(folder):
    return sorted(pathlib.Path(folder).iterdir())


@pytest.mark.sample
def test_second_process_builds_nothing(tmp_path):
    first = stats(tmp_path)
    assert first["built"] > 0 and first["loaded"] == 0
    assert len(files(tmp_path)) == first["built"]
    assert stats(tmp_path) == {"built": 0, "loaded": first["built"]}


def test_pocl_compiles_a_kernel_once(tmp_path, device):
    """For its group size, at the launch: not for any group size, too, to store it."""
    if torch.ocl.get_device_properties(device).platform != "Portable Computing Language":
        pytest.skip("other drivers than PoCL do not show what they compiled")
    count = stats(tmp_path / "ours", POCL_CACHE_DIR=str(tmp_path / "pocl"))["built"]
    compiled = [path.parent.parent for path in (tmp_path / "pocl").rglob("*.so")]
    assert len(compiled) == len(set(compiled)) == count


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


def test_another_target_is_another_key(tmp_path, device):
    """Intel's runtime compiles for the processor that this variable names."""
    count = stats(tmp_path)["built"]
    is_cpu = torch.ocl.get_device_properties(device).type == "cpu"
    other = {"built": count, "loaded": 0} if is_cpu else {"built": 0, "loaded": count}
    assert stats(tmp_path, CL_CONFIG_CPU_TARGET_ARCH="core-avx2") == other
    assert stats(tmp_path) == {"built": 0, "loaded": count}


def test_processes_at_once(tmp_path):
    program = f"import textwrap; exec(textwrap.dedent({PROGRAM!r}))"
    environment = {**os.environ, "OCL_CACHE_DIR": str(tmp_path)}
    running = [subprocess.Popen([sys.executable, "-c", program], env=environment) for _ in range(3)]
    assert [process.wait(timeout=DEADLINE) for process in running] == [0, 0, 0]
    assert {path.suffix for path in files(tmp_path)} == {".bin"}
    assert stats(tmp_path)["built"] == 0


@pytest.mark.parametrize("mode", [0o770, 0o707])
def test_folder_that_others_can_write_is_not_used(tmp_path, mode):
    built = stats(tmp_path)["built"]
    tmp_path.chmod(mode)
    warning = subprocess.run(
        [sys.executable, "-c", f"import textwrap; exec(textwrap.dedent({PROGRAM!r}))"],
        env={**os.environ, "OCL_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=DEADLINE,
    )
    assert json.loads(warning.stdout) == {"built": built, "loaded": 0}
    assert warning.stderr.count("is not used") == 1 and str(tmp_path) in warning.stderr
    tmp_path.chmod(0o700)
    assert stats(tmp_path) == {"built": 0, "loaded": built}


def test_file_that_others_can_write_is_built_again(tmp_path):
    built = stats(tmp_path)["built"]
    files(tmp_path)[0].chmod(0o666)
    assert stats(tmp_path) == {"built": 1, "loaded": built - 1}
    assert {path.stat().st_mode & 0o777 for path in files(tmp_path)} == {0o600}
    assert stats(tmp_path) == {"built": 0, "loaded": built}


DUMPING = """
    import warnings
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        import torch
        x = torch.arange(100.0, device="ocl")
        assert (x * 2 + 1).sum().item() == 10000
    print(*[str(each.message) for each in caught], sep="\\n")
"""


def test_dumped_sources_replace_links(tmp_path):
    dumps, target = tmp_path / "new" / "dumps", tmp_path / "target"
    variables = {"OCL_DUMP_DIR": str(dumps), "OCL_CACHE_DIR": "off"}
    assert output_of(DUMPING, **variables) == ""
    assert dumps.stat().st_mode & 0o777 == 0o700
    target.write_text("mine")
    file = files(dumps)[0]
    file.unlink()
    file.symlink_to(target)
    assert output_of(DUMPING, **variables) == ""
    assert target.read_text() == "mine" and not file.is_symlink()


@pytest.mark.parametrize("mode", [None, 0o777])
def test_sources_that_cannot_be_dumped_are_told_once(tmp_path, mode):
    folder = tmp_path / "dumps"
    if mode is None:
        folder.write_text("no folder")
    else:
        folder.mkdir()
        folder.chmod(mode)
    text = output_of(DUMPING, OCL_DUMP_DIR=str(folder), OCL_CACHE_DIR="off")
    assert text.count("\n") == 0 and "OCL_DUMP_DIR must be a folder" in text


def test_read_only_folder_is_no_error(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    assert stats(blocked / "cache")["built"] > 0


LIST_HOME = """
    import os, pwd
    def getpwuid(user):
        if {listed!r} is None:
            raise KeyError(user)
        return type("Entry", (), {{"pw_dir": {listed!r}}})
    pwd.getpwuid = getpwuid
    import torch
"""
# Prints the folder of PoCL that torch-ocl sets, "None" where it sets none, and the folder's mode.
POCL_FOLDER = """
    assert torch.ones(3, device="ocl").sum().item() == 3
    folder = os.environ.get("POCL_CACHE_DIR")
    print(folder, folder and oct(os.stat(folder).st_mode & 0o777))
"""


NO_HOME = {"HOME": "", "XDG_CACHE_HOME": "", "POCL_CACHE_DIR": "", "OCL_CACHE_DIR": "off"}


def pocl_folder(listed, **variables):
    text = output_of((LIST_HOME + POCL_FOLDER).format(listed=listed), **NO_HOME | variables)
    folder, mode = text.split()
    return None if folder == "None" else folder, mode


def is_temporary(folder):
    assert pathlib.Path(folder).name.startswith("torch_ocl_pocl_")
    return not pathlib.Path(folder).exists()  # deleted when the process ends


def home_in(folder, mode=0o755):
    """A home folder in which PoCL has been used."""
    (folder / ".cache" / "pocl" / "kcache").mkdir(parents=True, mode=0o700)
    for part in (".cache/pocl", ".cache"):
        (folder / part).chmod(0o700)
    folder.chmod(mode)
    return str(folder)


def test_no_home_in_the_environment(tmp_path):
    """PoCL alone would run what it finds in /tmp/pocl."""
    home = home_in(tmp_path)
    assert pocl_folder(home) == (f"{home}/.cache/pocl/kcache", "0o700")


def test_no_home_at_all():
    folder, mode = pocl_folder(None)
    assert mode == "0o700" and is_temporary(folder)


@pytest.mark.parametrize("mode", [0o755, 0o1777])
def test_private_folder_of_pocl_is_left_to_it(tmp_path, mode):
    assert pocl_folder(None, HOME=home_in(tmp_path, mode)) == (None, "None")


def test_folder_of_pocl_is_made_before_others_can(tmp_path):
    tmp_path.chmod(0o1777)
    assert pocl_folder(None, HOME=str(tmp_path)) == (None, "None")
    assert (tmp_path / ".cache").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("part", [".", ".cache", ".cache/pocl", ".cache/pocl/kcache"])
def test_folder_of_pocl_that_others_can_write_is_not_used(tmp_path, part):
    listed, home = home_in(tmp_path / "listed"), home_in(tmp_path / "home")
    (tmp_path / "home" / part).chmod(0o777)
    assert pocl_folder(listed, HOME=home) == (f"{listed}/.cache/pocl/kcache", "0o700")
    assert is_temporary(pocl_folder(home)[0])


@pytest.mark.parametrize("mode", [0o777, 0o1777])
def test_shared_cache_folder_is_not_for_pocl(tmp_path, mode):
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(mode)
    home = home_in(tmp_path / "home")
    folder, _ = pocl_folder(None, XDG_CACHE_HOME=str(tmp_path / "shared"), HOME=home)
    assert folder == f"{home}/.cache/pocl/kcache"


def test_home_that_cannot_exist():
    assert is_temporary(pocl_folder(None, HOME="/proc/torch_ocl")[0])


NO_FOLDER = """
    import multiprocessing.reduction, tempfile
    tempfile.tempdir = "/nowhere/at/all"
    import torch
    import torch_ocl
    print(torch.UntypedStorage in multiprocessing.reduction.ForkingPickler._extra_reducers)
    print(hasattr(torch.Tensor, "ocl"), os.environ["POCL_CACHE_DIR"])
"""


def test_no_folder_for_pocl():
    """Neither a home nor a temporary one, as where all files are read-only: all of torch-ocl is
    loaded, with a warning."""
    code = LIST_HOME.replace("    import torch\n", "").format(listed=None) + NO_FOLDER
    result = run_python(code, **NO_HOME)
    assert result.stdout.split() == ["True", "True", "/dev/null/pocl"], result.stderr
    assert result.stderr.count("PoCL has no folder for its kernels") == 1


def test_children_look_for_a_folder_again(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", home_in(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("POCL_CACHE_DIR", "/dev/null/pocl")
    keep_pocl_private()
    assert "POCL_CACHE_DIR" not in os.environ


def test_temporary_folder_is_not_inherited(tmp_path, monkeypatch):
    """A process that outlives its parent would use a folder that is deleted, and made by others."""
    monkeypatch.setenv("HOME", home_in(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    for owner, stays in ((os.getpid(), True), (os.getpid() + 1, False)):
        folder = f"/tmp/torch_ocl_pocl_{owner}_x1y2"
        monkeypatch.setenv("POCL_CACHE_DIR", folder)
        keep_pocl_private()
        assert os.environ.get("POCL_CACHE_DIR") == (folder if stays else None)


FORKS = """
    import multiprocessing
    def tell(pipe):
        pipe.send(os.environ["POCL_CACHE_DIR"])
        pipe.close()
    own = os.environ["POCL_CACHE_DIR"]
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    process = context.Process(target=tell, args=(there,))
    process.start()
    of_child = here.recv()
    process.join()
    assert of_child != own and os.path.exists(own) and not os.path.exists(of_child)
    os.environ["POCL_CACHE_DIR"] = "/chosen"
    process = context.Process(target=tell, args=(there,))
    process.start()
    assert here.recv() == "/chosen"
    process.join()
    print(own)
"""


def test_forked_process_has_a_folder_of_its_own():
    assert is_temporary(output_of((LIST_HOME + FORKS).format(listed=None), **NO_HOME))


@pytest.mark.sample
def test_programs_do_not_hold_their_compiler():
    """Intel's driver keeps what its compiler made, at least 1.8 MB, with each compiled program.

    Without it, a program of PoCL takes 990 to 1005 KiB, and one of Intel's runtime less.
    """
    skip_on_the_stern_device("its platform has no quirks of the runtime below it")
    growth = output_of(
        """
        import pathlib, re, torch
        def resident():
            status = pathlib.Path("/proc/self/status").read_text()
            return int(re.search(r"VmRSS:\\s+(\\d+)", status)[1])
        def compile(number):
            source = f"__kernel void add(__global float* x) {{ x[get_global_id(0)] += {number}; }}"
            library = torch.ocl.compile_kernel(source)
            assert library.add(torch.zeros(4, device="ocl"), threads=4) is None
            return library
        first = [compile(number) for number in range(10)]
        before = resident()
        kept = [compile(number) for number in range(10, 50)]
        print((resident() - before) / len(kept))
        """,
        OCL_CACHE_DIR="off",
    )
    assert float(growth) < 1400, f"{growth} KiB for each program"
