"""torch.distributed with the backend "occl": several processes, one device each.

What the ranks do is in distributed_*.py; distributed_ranks.py starts them.
"""

import concurrent.futures
import contextlib
import datetime
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import distributed_ranks
import pytest
import torch
from distributed_support import CASES, TIMEOUT
from stern import changed_profile, skip_without_the_stern_device, stern_output_of
from support import DEADLINE, ROOT, output_of, skip_on_the_stern_device

WITH_RUNTIME = ROOT / "tools" / "with_runtime.py"

pytestmark = pytest.mark.skipif(
    not (torch.distributed.is_available() and torch.ocl.is_available()),
    reason="needs torch.distributed and an OpenCL device",
)


@contextlib.contextmanager
def ranks(folder, size, *cases, numbers=None, prefix=()):
    """Starts the ranks `numbers`, by default all; they are killed in the end."""
    numbers = ",".join(map(str, range(size) if numbers is None else numbers))
    command = [*prefix, sys.executable, distributed_ranks.__file__, folder, str(size), numbers]
    environment = {**os.environ, "OCL_FALLBACK": "error"}
    process = subprocess.Popen(
        [*command, *cases], env=environment, stdout=subprocess.PIPE, text=True, process_group=0
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def check(folder, rank, status, cases):
    output = (folder / f"output.{rank}").read_text()[-4000:]
    left = [case for case in cases if not (folder / f"{case}.{rank}").exists()]
    assert not left, f"rank {rank} at {left[0]}:\n{output}"
    assert status == "0", f"rank {rank} at its end:\n{output}"


@pytest.mark.parametrize("size", [2, 4])
def test_cases(tmp_path, size):
    """All cases in one run, since processes take seconds to start."""
    with ranks(tmp_path, size) as process:
        try:
            statuses = process.communicate(timeout=DEADLINE)[0].split()
        except subprocess.TimeoutExpired:
            statuses = ["hangs"] * size
    for rank, status in enumerate(statuses):
        check(tmp_path, rank, status, CASES)


def test_exit_while_a_collective_is_in_flight(tmp_path):
    """Gloo's thread releases the tensor last, for which PyTorch takes Python's lock."""
    script = pathlib.Path(distributed_ranks.__file__).with_name("distributed_exit.py")
    processes = [
        subprocess.Popen([sys.executable, script, str(rank), tmp_path / "store"])
        for rank in range(2)
    ]
    try:
        assert [process.wait(DEADLINE) for process in processes] == [0, 0]
    finally:
        for process in processes:
            process.kill()


def visible(runtime):
    return (WITH_RUNTIME.parents[1] / ".runtimes" / runtime).is_dir()


def test_on_a_gpu(tmp_path, monkeypatch):
    """On a device where the host has copies of the memory, and commands run late
    (docs/stern.md)."""
    skip_without_the_stern_device()
    for name in ("OCL_KERNEL_FAMILY", "OPENCL_LAYERS", "OCL_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("STERN_PROFILE", "nvidia_ampere")
    names = ["refused_by_gloo", "same_memory", "other_memory", "resized_memory", "synchronized"]
    names += ["polled", "messages_do_not_wait"]
    prefix = [sys.executable, str(WITH_RUNTIME), "stern"]
    with ranks(tmp_path, 2, *names, prefix=prefix) as process:
        statuses = process.communicate(timeout=DEADLINE)[0].split()
    for rank, status in enumerate(statuses):
        check(tmp_path, rank, status, names)


def test_one_context_per_rank(tmp_path):
    """A rank uses no memory of the first device, which is another rank's."""
    printed = stern_output_of(
        changed_profile(tmp_path, "nvidia_ampere", duplicate_platform=1),
        """
        import tempfile
        import torch
        import torch.distributed as dist

        torch.ocl.set_device(1)
        store = f"file://{tempfile.mktemp()}"
        dist.init_process_group("occl", init_method=store, rank=0, world_size=1)
        x = torch.ones(9, device="ocl")
        dist.all_reduce(x)
        assert x.device.index == 1 and x.tolist() == [1] * 9
        dist.destroy_process_group()
        """,
        OCL_ALL_DEVICES=1,
        STERN_COUNT=1,
    )
    assert re.findall(r"clCreateContext\W+(\d+)", printed) == ["1"], printed


@pytest.mark.skipif(not visible("both"), reason="needs PoCL and `make intel-runtime`")
@pytest.mark.parametrize("runtimes", [("pocl", "intel"), ("both", "both")], ids="-".join)
def test_two_runtimes(tmp_path, runtimes):
    """One rank on PoCL, one on Intel's runtime: alone in its process, or as one of its devices."""
    skip_on_the_stern_device("the layer would be in front of both runtimes")
    names = ["all_reduce", "point_to_point", "data_parallel", "sharded_tensors"]
    with contextlib.ExitStack() as stack:
        processes = []
        for rank, runtime in enumerate(runtimes):
            prefix = [sys.executable, str(WITH_RUNTIME), runtime]
            start = ranks(tmp_path, 2, *names, numbers=[rank], prefix=prefix)
            processes.append(stack.enter_context(start))
        for rank, process in enumerate(processes):
            check(tmp_path, rank, process.communicate(timeout=DEADLINE)[0].strip(), names)
    platforms = {(tmp_path / f"platform.{rank}").read_text() for rank in range(2)}
    assert platforms == {"Portable Computing Language", "Intel(R) OpenCL"}


def test_killed_peer(tmp_path):
    """The others get an error at once, not a hang, and the device stays usable."""
    started = time.monotonic()
    with ranks(tmp_path, 2, "killed_peer") as process:
        statuses = process.communicate(timeout=DEADLINE)[0].split()
    assert time.monotonic() - started < TIMEOUT.total_seconds()
    check(tmp_path, 0, statuses[0], ["killed_peer"])
    assert int(statuses[1]) == -signal.SIGKILL


@pytest.mark.slow
def test_restart_with_torchrun(tmp_path):
    """A worker is killed once: training goes on from the checkpoint, with the same result."""
    script = str(pathlib.Path(__file__).with_name("distributed_elastic.py"))
    options = ["--standalone", "--nproc-per-node=2", "--max-restarts=1", "--monitor-interval=0.1"]
    process = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", *options, script, str(tmp_path)],
        env={**os.environ, "OCL_FALLBACK": "error", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=DEADLINE,
    )
    assert process.returncode == 0, process.stderr[-8000:]
    assert "exitcode: -9" in process.stderr, process.stderr[-4000:]
    assert all((tmp_path / f"passed.{rank}").exists() for rank in range(2))


def test_meeting_in_a_used_store():
    """Ranks agree on a name, whatever former ranks left in the store; one may come late."""
    from torch_ocl.distributed import _meet

    store = torch.distributed.HashStore()
    former = meet_in_threads(_meet, store, 3)
    names = meet_in_threads(_meet, store, 3)
    assert len({*names}) == 1 and {*names} != {*former}
    with pytest.raises(torch.distributed.DistStoreError, match="met 1 of 3 ranks"):
        _meet(store, 0, 3, datetime.timedelta(seconds=0.1))


def meet_in_threads(meet, store, size):
    with concurrent.futures.ThreadPoolExecutor(size) as pool:
        futures = []
        for rank in range(size):
            futures.append(pool.submit(meet, store, rank, size, datetime.timedelta(seconds=20)))
            time.sleep(0.05)
        return [future.result() for future in futures]


def test_registered():
    backend = torch.distributed.Backend
    assert backend.backend_capability["occl"] == ["ocl", "cpu"]
    assert backend.default_device_backend_map["ocl"] == "occl"
    assert backend.default_device_backend_map["cpu"] == "gloo"


def test_import_without_opencl():
    """The backend is registered where no OpenCL is, and no process is forked for it."""
    code = """
    import torch
    print("occl" in torch.distributed.Backend.backend_list, torch.ocl.is_initialized())
    """
    assert output_of(code, OCL_ICD_VENDORS="/nonexistent") == "True False"
