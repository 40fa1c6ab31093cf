"""torch.autocast("ocl"): which type each operator runs in, and the interface of torch.ocl.amp."""

import pytest
import torch
from autocast_cases import CASES, Arguments, overload, policies
from support import HALVES, has_fp64, output_of
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

LISTED = [(policy, name) for policy, names in policies().items() for name in names]

# No device but CUDA has it; scaled_dot_product_attention does not choose it for others.
CUDA_ONLY = {"_scaled_dot_product_flash_attention"}


def test_every_operator_of_the_lists_has_arguments():
    names = {name for _, name in LISTED}
    assert len(LISTED) == len(names) > 100
    assert names - set(CASES) == set()
    assert names >= CUDA_ONLY


def given_and_expected(policy, dtype):
    """[(types of the arguments, in turn, and the type of the result)]"""
    full = torch.float32
    if policy == "LOWER_PRECISION_FP":
        return [((full,), dtype), ((dtype,), dtype), ((full, dtype), dtype)]
    if policy == "PROMOTE":
        return [((full, dtype), full), ((dtype, full), full), ((dtype,), dtype), ((full,), full)]
    return [((dtype,), full), ((full,), full)]


class TypesOfArguments(TorchDispatchMode):
    """Notes the types that flash attention is called with instead of running it."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function != torch.ops.aten._scaled_dot_product_flash_attention.default:
            return function(*args, **(kwargs or {}))
        self.dtypes = {x.dtype for x in args if isinstance(x, torch.Tensor)}
        return (args[0],) * 4 + (0, 0) + (args[0],) * 3


class Casts(TorchDispatchMode):
    """Counts casts."""

    count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += function == torch.ops.aten._to_copy.default
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("policy,name", LISTED)
def test_output_types(device, policy, name, dtype):
    operator = overload(name)
    if name in CUDA_ONLY:
        with torch.autocast("ocl", dtype), TypesOfArguments() as seen:
            operator(*CASES[name](Arguments(device, torch.float32)))
        assert seen.dtypes == {dtype}
        return
    for given, expected in given_and_expected(policy, dtype):
        with torch.autocast("ocl", dtype):
            results = operator(*CASES[name](Arguments(device, *given)))
        results = results if isinstance(results, (list, tuple)) else [results]
        assert {x.dtype for x in results} == {expected}, given
        assert all(x.isfinite().all() for x in results if x.numel())


@pytest.mark.parametrize("dtype", HALVES)
def test_other_operators_keep_their_types(device, dtype):
    low, full = torch.ones(4, dtype=dtype, device=device), torch.ones(4, device=device)
    with torch.autocast("ocl", dtype):
        assert (low + low).dtype == torch.relu(low).dtype == low.sqrt().dtype == dtype
        assert (low + full).dtype == torch.cat([low, full]).dtype == torch.float32
        assert (low == full).dtype == torch.bool


def test_what_is_not_cast(device):
    """Float64, integers, and tensors of other devices."""
    a = torch.ones(2, 2)
    with torch.autocast("ocl"):
        assert (a @ a).dtype == torch.float32
        assert torch.ones(3, dtype=torch.int64, device=device).sum().dtype == torch.int64
        if has_fp64(device):
            assert a.double().to(device).exp().dtype == torch.float64
    with torch.autocast("cpu"):
        assert (a.to(device) @ a.to(device)).dtype == torch.float32


def test_given_dtype_is_kept(device):
    x = torch.ones(4, dtype=torch.float16, device=device)
    with torch.autocast("ocl"):
        assert x.sum(dtype=torch.bfloat16).dtype == torch.bfloat16
        assert x.softmax(0, dtype=torch.float16).dtype == torch.float16


def test_binary_cross_entropy_is_refused(device):
    x = torch.rand(4, 4).to(device)
    with torch.autocast("ocl"):
        with pytest.raises(RuntimeError, match="unsafe to autocast"):
            nn.functional.binary_cross_entropy(x, x)
        with torch.autocast("ocl", enabled=False):
            nn.functional.binary_cross_entropy(x, x)


def test_default_is_float16():
    """The default is known in a process that has not used OpenCL, without starting it."""
    code = """
        import torch
        assert torch.get_autocast_dtype("ocl") == torch.ocl.get_autocast_dtype() == torch.float16
        with torch.autocast("ocl"):
            assert torch.ocl.is_autocast_enabled()
        print(torch.ocl.is_initialized(), torch.amp.is_autocast_available("ocl"))
    """
    assert output_of(code) == "False True"


def test_state_and_nesting(device):
    assert torch.ocl.get_amp_supported_dtype() == HALVES
    weight = torch.ones(2, 2, device=device)

    def state():
        return (
            torch.ocl.is_autocast_enabled(),
            torch.ocl.get_autocast_dtype(),
            (weight @ weight).dtype,
        )

    outside = (False, torch.float16, torch.float32)
    assert state() == outside
    with torch.autocast("ocl", dtype=torch.bfloat16):
        assert state() == (True, torch.bfloat16, torch.bfloat16)
        with torch.autocast("ocl", enabled=False):
            assert state() == (False, torch.bfloat16, torch.float32)
            with torch.autocast("ocl", dtype=torch.float16):
                assert state() == (True, torch.float16, torch.float16)
        assert state() == (True, torch.bfloat16, torch.bfloat16)
    assert state() == outside
    torch.ocl.set_autocast_dtype(torch.bfloat16)
    torch.ocl.set_autocast_enabled(True)
    try:
        assert state() == (True, torch.bfloat16, torch.bfloat16)
    finally:
        torch.ocl.set_autocast_enabled(False)
        torch.ocl.set_autocast_dtype(torch.float16)
    assert state() == outside


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.int32])
def test_other_types_are_refused(device, dtype):
    message = f"the dtype is {dtype}, but only torch.float16 and torch.bfloat16"
    with pytest.raises(ValueError, match=message):
        torch.ocl.set_autocast_dtype(dtype)
    with pytest.raises(ValueError, match=message):
        torch.ocl.amp.autocast(dtype=dtype)
    # torch warns and leaves autocast off.
    with pytest.warns(UserWarning, match="only supports dtypes of torch.float16, torch.bfloat16"):
        context = torch.autocast("ocl", dtype=dtype)
    x = torch.ones(2, 2, device=device)
    with context:
        assert not torch.ocl.is_autocast_enabled() and (x @ x).dtype == torch.float32
    # This goes past every check in Python.
    torch.set_autocast_dtype("ocl", dtype)
    torch.set_autocast_enabled("ocl", True)
    try:
        with pytest.raises(ValueError, match=r"only torch\.float16 and"):
            x @ x
        with pytest.raises(ValueError, match=r"only torch\.float16 and"):
            x.sum()
    finally:
        torch.set_autocast_enabled("ocl", False)
        torch.set_autocast_dtype("ocl", torch.float16)


def test_namespace(device):
    x = torch.ones(2, 2, device=device)
    with torch.ocl.amp.autocast():
        assert (x @ x).dtype == torch.float16
    with torch.ocl.amp.autocast(dtype=torch.bfloat16):
        assert (x @ x).dtype == torch.bfloat16
    with torch.ocl.amp.autocast(enabled=False):
        assert (x @ x).dtype == torch.float32

    @torch.ocl.amp.autocast()
    def product(x):
        return x @ x

    assert product(x).dtype == torch.float16
    scaler = torch.ocl.amp.GradScaler(init_scale=8.0)
    assert isinstance(scaler, torch.amp.GradScaler)
    assert scaler.scale(torch.ones((), device=device)).item() == 8


def test_custom_functions(device):
    """custom_fwd and custom_bwd: the backward pass has the forward's autocast state."""
    seen = []

    class Product(torch.autograd.Function):
        @staticmethod
        @torch.ocl.amp.custom_fwd
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            seen.append(torch.ocl.is_autocast_enabled())
            return a @ b

        @staticmethod
        @torch.ocl.amp.custom_bwd
        def backward(ctx, gradient):
            a, b = ctx.saved_tensors
            seen.append(torch.ocl.is_autocast_enabled())
            return gradient @ b.t(), a.t() @ gradient

    class InFloat32(Product):
        @staticmethod
        @torch.ocl.amp.custom_fwd(cast_inputs=torch.float32)
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            seen.append(a.dtype)
            return a @ b

    a = torch.ones(3, 3, device=device, requires_grad=True)
    with torch.autocast("ocl"):
        y = Product.apply(a, a)
        z = InFloat32.apply(a.half(), a)
    assert (y.dtype, z.dtype) == (torch.float16, torch.float32)
    y.float().sum().backward()
    assert seen == [True, torch.float32, True]
    z.sum().backward()
    assert seen[3:] == [False] and a.grad.dtype == torch.float32


@pytest.mark.sample
@pytest.mark.parametrize("dtype", HALVES)
def test_forward_and_backward(device, dtype):
    """Parameters and their gradients stay float32, and agree with float32 training."""
    gradients = []
    for target, enabled in (("cpu", False), (device, True)):
        torch.manual_seed(0)
        layers = nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 3)
        model = nn.Sequential(*layers).to(target)
        x, labels = torch.randn(5, 8).to(target), torch.arange(5).to(target) % 3
        with torch.autocast(target.split(":")[0], dtype, enabled=enabled):
            y = model(x)
            value = nn.functional.cross_entropy(y, labels)
        assert y.dtype == (dtype if enabled else torch.float32) and value.dtype == torch.float32
        value.backward()
        assert {p.grad.dtype for p in model.parameters()} == {torch.float32}
        gradients.append([p.grad.cpu() for p in model.parameters()])
    limit = 3e-3 if dtype == torch.float16 else 2e-2
    for mine, theirs in zip(*gradients):
        torch.testing.assert_close(mine, theirs, rtol=limit, atol=limit)


def test_weight_cache(device):
    """A parameter is cast once in a region, again after it, and never where the cache is off."""
    weight = torch.ones(4, 4, device=device, requires_grad=True)
    x = torch.ones(4, 4, device=device)

    def casts(times, **options):
        with Casts() as casts, torch.autocast("ocl", **options):
            for _ in range(times):
                x.mm(weight)
        return casts.count

    assert casts(3) == 3 + 1
    assert casts(1) == 1 + 1
    assert casts(3, cache_enabled=False) == 3 + 3
    with torch.autocast("ocl"):
        x.mm(weight)
        with torch.no_grad():
            weight.zero_()
        assert x.mm(weight).sum().item() == 64, "the cache keeps what it has, as on CUDA"
    with torch.autocast("ocl"):
        assert x.mm(weight).sum().item() == 0


def test_in_place_and_out(device):
    """They run in the types that they get, as on CUDA."""
    x, out = torch.ones(2, 2, device=device), torch.empty(2, 2, device=device)
    with torch.autocast("ocl"):
        assert torch.mm(x, x, out=out).dtype == torch.float32
        assert x.addmm_(x, x).dtype == torch.float32
        with pytest.raises(RuntimeError):
            x.addmm_(x.half(), x.half())
