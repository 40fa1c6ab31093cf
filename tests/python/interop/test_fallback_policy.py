"""OCL_FALLBACK=warn|allow|error, and the statistics of operators that ran on the CPU."""

import pytest
import torch
from fallback_operators import OPS
from support import output_of

pytestmark = pytest.mark.fallback_allowed


@pytest.fixture(autouse=True)
def no_statistics():
    torch.ocl.reset_fallback_stats()


def test_statistics(device):
    x = torch.ones(2).to(device)
    assert torch.ocl.fallback_stats() == {}
    OPS.double_it(x)
    OPS.double_it(x)
    OPS.double_it_(x)
    assert torch.ocl.fallback_stats() == {"ocl_test::double_it": 2, "ocl_test::double_it_": 1}
    torch.ocl.reset_fallback_stats()
    assert torch.ocl.fallback_stats() == {}


def test_policy_error(device, monkeypatch):
    monkeypatch.setenv("OCL_FALLBACK", "error")
    x = torch.ones(2, 3).to(device)
    pattern = (
        rf"ocl_test::double_it is not implemented for ocl \(x: \w+ \[2, 3\] on {device}\), "
        r"and OCL_FALLBACK=error forbids to run it on the CPU; see docs/errors.md"
    )
    with pytest.raises(NotImplementedError, match=pattern):
        OPS.double_it(x)
    assert torch.ocl.fallback_stats() == {}


def test_policy_unknown(device, monkeypatch):
    monkeypatch.setenv("OCL_FALLBACK", "maybe")
    with pytest.raises(ValueError, match='must be "warn", "allow" or "error", not "maybe"'):
        OPS.double_it(torch.ones(2).to(device))


@pytest.mark.parametrize("policy, warnings", [(None, 1), ("warn", 1), ("allow", 0)])
def test_policy_warn_and_allow(device, policy, warnings):
    """One warning per operator, with a hint."""
    code = """
        import torch, warnings
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            x = torch.eye(2).to("ocl")
            for _ in range(3):
                torch.linalg.eig(x)
        print(len(caught), torch.ocl.fallback_stats(), *(w.message for w in caught))
    """
    text = output_of(code, OCL_FALLBACK=policy)
    assert text.startswith(f"{warnings} {{'aten::linalg_eig': 3}}")
    for part in ("aten::linalg_eig is not implemented", "[2, 2] on ocl:0", "OCL_FALLBACK=allow"):
        assert (part in text) == (warnings > 0)
