"""torch.amp.GradScaler("ocl"): its two kernels, and training with it, against the CPU."""

import math
import re

import pytest
import torch
from models import transformer_layer
from support import HALVES, ROOT, generator, has_fp64
from torch import nn

from torch_ocl import _C

pytestmark = pytest.mark.usefixtures("float64_on_the_cpu")
SIZES = [(5, 7), (13,), (2, 3, 4), (1,), (), (0,), (4099,), (70, 130)]
WAYS = {"forloop": {"foreach": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}


def unscale(gradients, inverse, device):
    found = torch.zeros((), device=device)
    inv_scale = torch.tensor(inverse, device=device)
    torch._amp_foreach_non_finite_check_and_unscale_(gradients, found, inv_scale)
    return found


def make_gradients(device, dtype):
    numbers = generator(3)
    return [torch.randn(shape, generator=numbers).to(dtype).to(device) for shape in SIZES]


@pytest.mark.sample
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
def test_unscale(device, dtype):
    gradients = make_gradients(device, dtype)
    assert unscale(gradients, 0.3, device).item() == 0
    for mine, theirs in zip(gradients, make_gradients("cpu", dtype)):
        wide = torch.float64 if dtype == torch.float64 else torch.float32
        expected = (theirs.to(wide) * torch.tensor(0.3, dtype=torch.float32).to(wide)).to(dtype)
        torch.testing.assert_close(mine.cpu(), expected, rtol=1e-6, atol=0)


@pytest.mark.sample
@pytest.mark.parametrize("bad", [math.inf, -math.inf, math.nan])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_what_is_not_finite_is_found(device, dtype, bad):
    """Wherever it is; and found_inf stays 1 for the gradients that follow."""
    for which, position in [(0, 0), (1, 12), (3, 0), (6, 4098), (7, 1017), (7, -1)]:
        gradients = make_gradients("cpu", dtype)
        gradients[which].view(-1)[position] = bad
        gradients = [g.to(device) for g in gradients]
        found = unscale(gradients, 0.5, device)
        assert found.item() == 1, (which, position)
        torch._amp_foreach_non_finite_check_and_unscale_(
            [torch.ones(3, device=device)], found, torch.ones((), device=device)
        )
        assert found.item() == 1


def test_greatest_numbers_are_finite(device):
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        gradient = torch.full((100,), torch.finfo(dtype).max, dtype=dtype, device=device)
        assert unscale([gradient], 2.0, device).item() == 0
        assert gradient.isinf().all(), "what overflows by unscaling is not reported, as on CUDA"


def test_one_launch_for_a_list(device):
    gradients = make_gradients(device, torch.float32)
    found, inverse = torch.zeros((), device=device), torch.ones((), device=device)
    before = _C.launch_count()
    torch._amp_foreach_non_finite_check_and_unscale_(gradients, found, inverse)
    assert _C.launch_count() - before == 1 and _C.last_kernel() == "amp_unscale"


def test_gaps_and_several_types(device):
    wide = torch.full((6, 8), 4.0, device=device)
    half = torch.full((5,), 4.0, dtype=torch.float16, device=device)
    transposed = torch.full((3, 4), 4.0, device=device).t()
    assert unscale([wide[:, ::2], half, transposed, wide[:, 1:2]], 0.25, device).item() == 0
    assert wide.tolist() == [[1, 1, 1, 4, 1, 4, 1, 4]] * 6
    assert half.tolist() == [1] * 5 and transposed.tolist() == [[1] * 3] * 4
    wide[3, 4] = math.inf
    assert unscale([half, wide[:, ::2]], 0.25, device).item() == 1


def test_arguments_are_checked(device):
    g, one = torch.ones(3, device=device), torch.ones((), device=device)
    function = torch._amp_foreach_non_finite_check_and_unscale_
    function([], one, one)
    with pytest.raises(RuntimeError, match="all tensors to be on the same device"):
        function([g], torch.ones(()), one)
    with pytest.raises(RuntimeError, match="inv_scale must have one element, not 3"):
        function([g], one, g)
    with pytest.raises(RuntimeError, match="inv_scale must be Float, not Half"):
        function([g], one, one.half())
    with pytest.raises(RuntimeError, match="cannot unscale gradients of type Int"):
        function([g.int()], one, one)
    with pytest.raises(RuntimeError, match="single memory location"):
        function([one.expand(3)], one, one)
    with pytest.raises(RuntimeError, match="growth_tracker must be Int"):
        torch._amp_update_scale_(one, one, one, 2.0, 0.5, 1)


@pytest.mark.sample
def test_update_scale(device):
    """Against the CPU: backoff, growth after `interval` steps, and not beyond float32."""
    found = [0, 0, 1, 0, 0, 0, 0, 1, 1, 0, 0, 0]
    for start in (8.0, 2.0**126, 2.0**-140):
        states = []
        for target in (device, "cpu"):
            scale = torch.tensor(start, device=target)
            tracker = torch.zeros((), dtype=torch.int32, device=target)
            history = []
            for inf in found:
                inf = torch.tensor(float(inf), device=target)
                result = torch._amp_update_scale_(scale, tracker, inf, 3.0, 0.5, 2)
                assert result is scale
                history.append((scale.item(), tracker.item()))
            states.append(history)
        assert states[0] == states[1]


def make_model(device, seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4)).to(device)


def train(device, way, steps=6, bad_steps=(), clip=False, optimizer_class=torch.optim.SGD):
    """Parameters and scales after float32 training with a scaler."""
    model = make_model(device)
    options = {"momentum": 0.9} if optimizer_class is torch.optim.SGD else {}
    optimizer = optimizer_class(model.parameters(), lr=0.05, **options, **WAYS[way])
    scaler = torch.amp.GradScaler(
        device.split(":")[0], init_scale=1024.0, growth_interval=2, growth_factor=4.0
    )
    numbers, scales = generator(1), []
    for step in range(steps):
        x, y = (torch.randn(10, n, generator=numbers).to(device) for n in (8, 4))
        optimizer.zero_grad()
        scaler.scale(nn.functional.mse_loss(model(x), y)).backward()
        if step in bad_steps:
            model[0].weight.grad[3, 5] = math.inf
        if clip:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        before = [p.detach().clone() for p in model.parameters()]
        scaler.step(optimizer)
        scaler.update()
        same = [torch.equal(p, q) for p, q in zip(model.parameters(), before)]
        assert all(same) == any(same) == (step in bad_steps)
        scales.append(scaler.get_scale())
    return [p.detach().cpu() for p in model.parameters()], scales


@pytest.mark.parametrize("clip", [False, True])
@pytest.mark.parametrize("bad_steps", [(), (0, 3)])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.AdamW])
def test_steps(device, optimizer, way, bad_steps, clip):
    """Growth, backoff, skipped steps and clipping, with each kind of optimizer."""
    parameters, scales = train(device, way, 6, bad_steps, clip, optimizer)
    expected, expected_scales = train("cpu", "forloop", 6, bad_steps, clip, optimizer)
    assert scales == expected_scales
    grown = [1024, 4096, 4096, 16384, 16384, 65536]
    assert scales == ([512, 512, 2048, 1024, 1024, 4096] if bad_steps else grown)
    for mine, theirs in zip(parameters, expected):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)


def test_nothing_waits_for_the_device(device, monkeypatch):
    """Unscaling, clipping, fused steps and updates read nothing back."""
    if not has_fp64(device):
        pytest.skip("the reciprocal of the scale is taken on the CPU")
    model = make_model(device)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    scaler = torch.amp.GradScaler("ocl")
    x = torch.ones(4, 8, device=device)

    def step():
        optimizer.zero_grad()
        with torch.autocast("ocl"):
            value = model(x).square().mean()
        scaler.scale(value).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()

    step()
    copies = []

    class Reads(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            result = function(*args, **(kwargs or {}))
            to_host = isinstance(result, torch.Tensor) and result.device.type == "cpu"
            from_device = any(isinstance(a, torch.Tensor) and a.device.type == "ocl" for a in args)
            if "_local_scalar_dense" in str(function) or (to_host and from_device):
                copies.append(str(function))
            return result

    with Reads():
        step()
    assert copies == []


@pytest.mark.sample
def test_state_and_switched_off(device):
    scaler = torch.amp.GradScaler("ocl", init_scale=4.0)
    model = make_model(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler.scale(model(torch.ones(2, 8, device=device)).sum()).backward()
    scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="step\\(\\) has already been called"):
        scaler.step(optimizer)
    scaler.update(32.0)
    other = torch.amp.GradScaler("ocl")
    other.load_state_dict(scaler.state_dict())
    assert other.get_scale() == scaler.get_scale() == 32
    assert other.scale([torch.ones(2, device=device)])[0].tolist() == [32, 32]
    off = torch.amp.GradScaler("ocl", enabled=False)
    x = torch.ones((), device=device)
    assert off.scale(x) is x and off.get_scale() == 1


def test_float16_gradients_are_refused(device):
    """Parameters stay float32 under autocast, as on CUDA."""
    model = make_model(device).half()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("ocl", init_scale=4.0)
    scaler.scale(model(torch.ones(2, 8, dtype=torch.float16, device=device)).sum()).backward()
    with pytest.raises(ValueError, match="Attempting to unscale FP16 gradients"):
        scaler.step(optimizer)


class SmallTransformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.head = transformer_layer(32, 4), nn.Linear(32, 3)

    def forward(self, x):
        return self.head(self.layer(x).mean(1))


def small_cnn():
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 3),
    )


MODELS = {"cnn": (small_cnn, (1, 8, 8)), "transformer": (SmallTransformer, (6, 32))}


def losses_of(name, device, dtype, steps=25):
    """Losses of training on patterns in noise; with autocast and a scaler unless dtype is None."""
    build, shape = MODELS[name]
    torch.manual_seed(0)
    model = build().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scaler = torch.amp.GradScaler("ocl", enabled=dtype == torch.float16, init_scale=2.0**10)
    numbers = generator(2)
    patterns = torch.randn(3, *shape, generator=numbers)
    labels = torch.arange(48) % 3
    x = patterns[labels] + 0.5 * torch.randn(48, *shape, generator=numbers)
    x, labels = x.to(device), labels.to(device)
    values = []
    for _ in range(steps):
        optimizer.zero_grad()
        with torch.autocast("ocl", dtype or torch.float16, enabled=dtype is not None):
            value = nn.functional.cross_entropy(model(x), labels)
        scaler.scale(value).backward()
        scaler.step(optimizer)
        scaler.update()
        values.append(value.detach())
    return torch.stack(values).cpu()


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", MODELS)
def test_training_converges_as_in_float32(device, name, dtype):
    full, mixed = losses_of(name, device, None), losses_of(name, device, dtype)
    assert mixed[-1] < 0.25 * mixed[0] and mixed[-1] < 0.2
    torch.testing.assert_close(mixed, full, rtol=0.1, atol=0.05)


def test_code_of_the_documentation(device):
    text = (ROOT / "docs/amp.md").read_text()
    variables = {}
    exec(re.search(r"```python\n(.*?)```", text, re.DOTALL)[1], variables)
    assert variables["loss"].isfinite()
