"""The faults of make mutants: their text is in the sources, and their tests exist."""

import collections

import pytest
from planted import FAULTS
from support import ROOT


def test_faults_are_many():
    """Of kernels, Python and C++, each once."""
    kinds = collections.Counter((fault.is_kernel, fault.is_built) for fault in FAULTS)
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) >= 60 and len(kinds) == 3


@pytest.mark.parametrize("file", sorted({fault.file for fault in FAULTS}))
def test_text_stands_once(file):
    text = (ROOT / file).read_text()
    for fault in FAULTS:
        if fault.file == file:
            assert text.count(fault.before) == 1, fault.before
            assert all((ROOT / "tests/python" / path).exists() for path in fault.tests.split())
