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


def unused(x):
    torch.rand(4, device=x.device)
    F.dropout(x, 0.5)
    x.new_empty(7).uniform_()
    torch.bernoulli(x.sigmoid())
    return torch.randn_like(x)


def test_a_backward_pass_draws_nothing_again(device):
    """PyTorch copies to the backward program what it could compute there."""

    def step(x):
        noise = torch.randn(64, device=x.device)
        torch.rand(3, device=x.device)
        return (x + noise).sin().sum()

    numbers = []
    for run in (torch.compile(step, fullgraph=True), step):
        x = torch.ones(64, device=device, requires_grad=True)
        torch.manual_seed(3)
        for _ in range(2):
            run(x).backward()
        numbers.append([x.grad.tolist(), torch.rand(4, device=device).tolist()])
    torch.testing.assert_close(*numbers, rtol=1e-5, atol=1e-5)


DRAWS = {
    "unused": unused,
    "binomial": lambda x: torch.binomial(torch.full_like(x, 9.0), x.sigmoid()),
    "dirichlet": lambda x: torch._sample_dirichlet(x + 1),
    "dropout(1)": lambda x: F.dropout(x, 1.0),
    "native_dropout(1)": lambda x: torch.native_dropout(x, 1.0, True)[0],
}


@pytest.mark.parametrize("name", DRAWS)
def test_numbers_of_the_first_call(device, name):
    """Tracing draws nothing, and all that draws in eager mode does."""
    function, x = DRAWS[name], torch.ones(4, 5, device=device)
    numbers = []
    for run in (torch.compile(function, fullgraph=True), function):
        torch.manual_seed(3)
        numbers.append((run(x), torch.rand(2, device=device)))
    torch.testing.assert_close(*numbers)


def test_random_operators_have_fake_results():
    """PyTorch calls the kernels of other operators while it traces."""
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    known = torch._subclasses.fake_impls.op_implementations_dict

    for name in torch._C._dispatch_get_all_op_names():
        if name.startswith("aten::") and has(name, "PrivateUse1"):
            packet, _, overload = name.removeprefix("aten::").partition(".")
            operator = getattr(getattr(torch.ops.aten, packet), overload or "default")
            if torch.Tag.nondeterministic_seeded in operator.tags:
                assert has(name, "Meta") or operator in known or operator._can_decompose(), name
