"""The count of operators, and docs/ops.md."""

import subprocess
import sys

import pytest
import torch
from support import ROOT

from torch_ocl import coverage

DOCUMENT = ROOT / "docs/ops.md"


@pytest.mark.skipif(
    not torch.__version__.startswith("2.13."), reason="docs/ops.md is written for PyTorch 2.13"
)
def test_document_is_true():
    assert DOCUMENT.read_text() == coverage.markdown(coverage.operators()), "run `make ops`"


def test_states():
    found = coverage.operators()
    states, others = coverage.count(found)
    assert sum(states.values()) == len(found)
    assert others["cuda"] > others["mps"] > 0
    assert coverage.state("mm.out", found["mm.out"]) == "native"
    assert coverage.state("linalg_eig", found["linalg_eig"]) == "fallback"
    assert coverage.state("cudnn_convolution", found["cudnn_convolution"]) == "missing"


def test_overloads_are_grouped():
    assert coverage.grouped(["b.out", "a", "b"]) == "`a`, `b` (out)"


def test_command():
    run = subprocess.run(
        [sys.executable, "-m", "torch_ocl.coverage"], capture_output=True, text=True, check=True
    )
    assert "native" in run.stdout and "CUDA" in run.stdout
