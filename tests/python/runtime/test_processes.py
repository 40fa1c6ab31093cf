"""Processes that begin while the device works: spawned, forked by a loader, replaced by exec."""

import subprocess
import sys
import textwrap

import pytest
from support import DEADLINE, child_environment, output_of

QUEUED = """
    import os, sys, torch
    def queue():
        x = torch.ones(300, 300, device="ocl")
        for _ in range(50):
            x = (x @ x).clamp(max=1)
        return x
"""
NEXT = "import torch; print(torch.ones(3, device='ocl').sum().item())"


def test_exec_with_work_queued(device):
    code = f"""
    x = queue()
    os.execv(sys.executable, [sys.executable, "-c", {NEXT!r}])
    """
    assert output_of(QUEUED + code) == "3.0"


@pytest.mark.parametrize("start", ["subprocess", "exec in a fork"])
def test_parent_goes_on(device, start):
    """The new process computes, and the work of its parent ends right."""
    code = f"""
    import subprocess
    x = queue()
    if {start!r} == "subprocess":
        print(subprocess.check_output([sys.executable, "-c", {NEXT!r}], text=True).strip())
    elif child := os.fork():
        assert os.waitpid(child, 0)[1] == 0
    else:
        os.execv(sys.executable, [sys.executable, "-c", {NEXT!r}])
    print(x.eq(1).all().item())
    """
    assert output_of(QUEUED + code).split() == ["3.0", "True"]


LOADER = """
    import sys
    import torch
    class Numbers(torch.utils.data.Dataset):
        def __len__(self):
            return 4
        def __getitem__(self, index):
            return torch.full((3,), float(index), device="ocl").cpu()
    if __name__ == "__main__":
        x = torch.ones(100, device="ocl") * 2
        loader = torch.utils.data.DataLoader(
            Numbers(), 2, num_workers=2, multiprocessing_context=sys.argv[1]
        )
        try:
            print([batch.sum().item() for batch in loader])
        except RuntimeError as error:
            print("in a forked process" in str(error))
        print(x.sum().item())
"""


@pytest.mark.parametrize("method, line", [("spawn", "[3.0, 15.0]"), ("fork", "True")])
def test_workers_of_a_loader_that_use_the_device(device, tmp_path, method, line):
    """Spawned ones can, and forked ones say that they cannot; the parent's tensor stays right."""
    path = tmp_path / "loading.py"
    path.write_text(textwrap.dedent(LOADER))
    result = subprocess.run(
        [sys.executable, path, method],
        env=child_environment(),
        capture_output=True,
        text=True,
        timeout=DEADLINE,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == [line, "200.0"]
