"""The resources of a process do not grow: a short form of `make stress-long`, and known leaks."""

import torch
import torch._functorch.config
import torch._inductor.config
from stern import on_stern
from support import ROOT
from torch._inductor.utils import clear_caches

from torch_ocl import _C

LONG = ROOT / "tests" / "stress" / "long.py"


def test_training_and_graphs():
    """Memory, files, threads and objects of OpenCL, which the stern device counts."""
    counts = "--training", "300", "--graphs", "50", "--compiled", "0", "--samples", "20"
    printed = on_stern("nvidia_ampere", str(LONG), *counts, status=0)
    assert "nothing grew" in printed and "buffers" in printed, printed


def test_growth_is_found(device, monkeypatch):
    monkeypatch.syspath_prepend(LONG.parent)
    import slopes

    kept, samples = [], slopes.Slopes("leak", count=8, samples=8)
    for step in range(1, 9):
        kept.append(torch.empty(30_000, device=device))
        samples.after(step)
    assert "leak: allocated (KiB)" in samples.report()


def test_a_function_that_is_compiled_again_has_its_kernels(device, fresh_compiler):
    """Objects of a kernel's first launch live as long as the process."""
    x, counts = torch.ones(4, 16, device=device), []
    no_caches = {"force_disable_caches": False, "fx_graph_cache": False}
    with (
        torch._inductor.config.patch(no_caches),
        torch._functorch.config.patch(enable_autograd_cache=False),
    ):
        for _ in range(3):
            torch._dynamo.reset()
            clear_caches()
            assert torch.compile(lambda x: (x.sin() * 2).sum(), fullgraph=True)(x) > 0
            counts.append(_C.kernel_objects())
    assert counts[0] == counts[1] == counts[2]
