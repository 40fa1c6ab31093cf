"""Operators that users write in Python (torch.library.custom_op) on ocl tensors."""

import os
import subprocess
import sys

import pytest
import torch
from pil_operators import crop, plain_crop
from support import ROOT, has_fp64

BACKENDS = ["eager", "aot_eager", "inductor"]
BOX = [10, 10, 50, 50]

# opcheck's test of the registration for autograd knows the CPU, CUDA and XPU only.
EXCEPT_AUTOGRAD = ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic")


@pytest.fixture(autouse=True)
def compiler(monkeypatch, tmp_path):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def picture(device):
    ramp = torch.linspace(0, 1, steps=64)
    return (torch.ones(3, 64, 64) * ramp * ramp.unsqueeze(-1)).to(device)


@pytest.mark.sample
def test_crop(device):
    image = picture(device).requires_grad_()
    part = crop(image, BOX)
    assert part.device == image.device
    torch.testing.assert_close(
        part.cpu(), image.detach().cpu()[:, 10:50, 10:50], atol=1 / 255, rtol=0
    )
    part.sum().backward()
    expected = torch.zeros(3, 64, 64)
    expected[:, 10:50, 10:50] = 1
    assert torch.equal(image.grad.cpu(), expected)


@pytest.mark.parametrize("backend", BACKENDS)
def test_compiled_crop(device, backend):
    image = picture(device).requires_grad_()
    compiled = torch.compile(lambda x: crop(x * 1, BOX), backend=backend, fullgraph=True)
    part = compiled(image)
    assert torch.equal(part, crop(image, BOX))
    part.sum().backward()
    assert image.grad.sum() == 3 * 40 * 40 and image.grad[:, 10:50, 10:50].min() == 1


def test_a_plain_python_function_cannot_be_compiled(device):
    compiled = torch.compile(lambda x: plain_crop(x, BOX), fullgraph=True)
    with pytest.raises(torch._dynamo.exc.Unsupported):
        compiled(picture(device))


EXAMPLES = [
    ((3, 64, 64), torch.float, False, [0, 0, 10, 10]),
    ((3, 91, 91), torch.float, True, [10, 0, 20, 10]),
    ((3, 60, 60), torch.double, False, [3, 4, 32, 20]),
    ((3, 512, 512), torch.double, True, [3, 4, 32, 45]),
]


@pytest.mark.parametrize("shape, dtype, gradient, box", EXAMPLES)
def test_opcheck_of_crop(device, shape, dtype, gradient, box):
    image = torch.randn(shape, dtype=dtype, requires_grad=gradient)
    torch.library.opcheck(crop, (image, box))
    if dtype == torch.float or has_fp64(device):
        image = torch.randn(shape, dtype=dtype, device=device, requires_grad=gradient)
        torch.library.opcheck(crop, (image, box), test_utils=EXCEPT_AUTOGRAD)


def test_a_kernel_for_ocl_replaces_the_general_one(device):
    @torch.library.custom_op("mylib::doubled", mutates_args=())
    def doubled(x: torch.Tensor) -> torch.Tensor:
        ran.append("general")
        return x * 2

    @doubled.register_kernel("ocl")
    def _(x):
        ran.append("ocl")
        return x + x

    @doubled.register_fake
    def _(x):
        return torch.empty_like(x)

    torch.library.register_autograd("mylib::doubled", lambda ctx, gradient: gradient * 2)
    ran = []
    x = torch.ones(3, device=device, requires_grad=True)
    doubled(x).sum().backward()
    doubled(torch.ones(3))
    assert ran == ["ocl", "general"]
    assert x.grad.tolist() == [2, 2, 2]
    y = torch.compile(lambda x: doubled(x).sum(), fullgraph=True)(x)
    assert ran[2:] == ["ocl"] and y.item() == 6
    torch.library.opcheck(doubled, (x,), test_utils=EXCEPT_AUTOGRAD)
    torch.library.opcheck(doubled, (torch.ones(3, requires_grad=True),))


@torch.library.custom_op("mylib::on_cpu", mutates_args=(), device_types="cpu")
def on_cpu(x: torch.Tensor) -> torch.Tensor:
    assert x.device.type == "cpu"
    return x + 1


@on_cpu.register_fake
def _(x):
    return torch.empty_like(x)


@pytest.mark.fallback_allowed
def test_an_operator_for_the_cpu_goes_through_the_counted_fallback(device):
    x = torch.ones(3, device=device)
    torch.ocl.reset_fallback_stats()
    assert on_cpu(x).device == x.device
    compiled = torch.compile(on_cpu, fullgraph=True)
    assert compiled(x).tolist() == [2, 2, 2]
    assert torch.ocl.fallback_stats()["mylib::on_cpu"] == 2


def test_an_operator_for_the_cpu_is_refused_where_the_fallback_is(device):
    with pytest.raises(NotImplementedError, match="mylib::on_cpu is not implemented for ocl"):
        on_cpu(torch.ones(3, device=device))


def test_opcheck_finds_an_undeclared_change(device):
    @torch.library.custom_op("mylib::hidden_change", mutates_args=())
    def hidden_change(x: torch.Tensor, out: torch.Tensor) -> None:
        out.copy_(x)

    x = torch.randn(3, device=device)
    with pytest.raises(torch.testing._internal.optests.generate_tests.OpCheckError, match="out"):
        torch.library.opcheck(hidden_change, (x, torch.zeros_like(x)), test_utils=EXCEPT_AUTOGRAD)


@pytest.mark.parametrize("form", ["functional", "mutating"])
def test_numpy_sin(device, form, tmp_path):
    script = ROOT / "tests/python/common/numpy_operators.py"
    result = subprocess.run(
        [sys.executable, script, form, device],
        env={**os.environ, "OCL_FALLBACK": "error", "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout == "ok\n"
