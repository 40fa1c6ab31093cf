"""Random operators of compiled programs draw in the order of the program, as in eager mode."""

import pytest
import torch
import torch.nn.functional as F
from support import needs_a_compiler, needs_torch

pytestmark = pytest.mark.usefixtures("fresh_compiler")


def of_both_kinds(x):
    """Dropout, whose draws are an operator of ours, and eager kernels."""
    first, one = F.dropout(x, 0.5).sum(), torch.rand(1, device=x.device)
    return first, one, F.dropout(x, 0.5).sum(), torch.rand(1, device=x.device)


def with_noise(x):
    return F.dropout(x + torch.randn_like(x), 0.5), F.dropout(x * 2, 0.5)


def in_branches(x):
    def noisy(x):
        return F.dropout(x, 0.5).sum() + torch.rand(1, device=x.device)

    first = F.dropout(x, 0.5)
    drawn = torch.cond(x.sum() > 0, noisy, lambda x: x[0, :1] * 2, (x,))
    return torch.rand(1, device=x.device), drawn, first


IN_ORDER = needs_torch(12, "Inductor of PyTorch 2.11 moves random operators (reorder_for_locality)")
FUNCTIONS = [
    pytest.param(of_both_kinds, marks=[pytest.mark.sample, IN_ORDER]),
    with_noise,
    in_branches,
]


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize(
    "mode", ["default", "reduce-overhead", pytest.param("in C++", marks=needs_a_compiler)]
)
def test_draws(device, function, mode):
    def joined(x):
        """One kernel, which the operators are moved to."""
        return torch.stack([part.reshape(-1)[0] for part in function(x)])

    in_cpp = mode == "in C++"
    with torch._inductor.config.patch(cpp_wrapper=in_cpp):
        compiled = torch.compile(joined, fullgraph=True, mode="default" if in_cpp else mode)
        numbers = []
        for run in (compiled, joined):
            torch.manual_seed(3)
            numbers.append([run(torch.ones(8, 8, device=device)).tolist() for _ in range(4)])
    torch.testing.assert_close(*numbers, rtol=1e-5, atol=1e-5)
