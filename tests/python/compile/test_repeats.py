"""Deterministic mode gives the same bits in each run (tests/accuracy), on both kernel families."""

import json

import pytest
import repeats
from support import output_of

NAMES = sorted(repeats.cases())
RUNS = 3


@pytest.mark.parametrize("name", NAMES)
def test_runs_give_the_same_bits(device, name):
    assert repeats.differing_runs(repeats.cases()[name], device, RUNS) == 0


@pytest.mark.slow
@pytest.mark.parametrize("family", ["cpu", "gpu"])
def test_on_both_families(family):
    code = f"""
        import json, sys
        sys.path.append({str(repeats.__file__.rsplit("/", 1)[0])!r})
        import torch_ocl, repeats
        print(json.dumps(list(repeats.measure_repeats("ocl", 20))))
    """
    rows = json.loads(output_of(code, OCL_KERNEL_FAMILY=family, OCL_FALLBACK="error"))
    assert len(rows) == len(NAMES)
    assert [row["name"] for row in rows if row["different"]] == []
