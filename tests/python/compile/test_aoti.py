"""Programs in C++ of torch.compile (cpp_wrapper), and AOTInductor's packages."""

import pathlib
import platform
import re
import shutil
import subprocess
import sys

import numpy_operators
import pytest
import torch
import torch.nn.functional as F
from support import CXX, DEADLINE, ROOT, needs_a_compiler, needs_torch
from torch import nn

import torch_ocl.image  # its operators, too

DATA = ROOT / "tests" / "data"

pytestmark = [pytest.mark.usefixtures("fresh_compiler"), needs_a_compiler]


class Network(nn.Module):
    """Kernels of every kind: generated, of matrix products and convolutions, with several results;
    weights, a buffer that changes, and one on the CPU before those on the device."""

    def __init__(self):
        super().__init__()
        self.offset = nn.Buffer(torch.tensor([0.5, 1, 2, 3]))
        self.convolution = nn.Conv2d(3, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.linear = nn.Linear(4 * 4 * 4, 10)
        self.calls = nn.Buffer(torch.zeros(3))  # without dimensions, Inductor takes it as a number

    def to_device(self, device):
        offset = self.offset
        self.to(device).offset = offset
        return self

    def forward(self, x):
        y = F.max_pool2d(F.relu(self.norm(self.convolution(x))), 2)
        z = self.linear(y.flatten(1)).log_softmax(-1)
        self.calls.add_(1)
        return z, *z.topk(2), self.offset * 2, self.calls + 0


def package(module, args, path, **options):
    program = torch.export.export(module, args, **options)
    return torch._inductor.aoti_compile_and_package(program, package_path=str(path))


def test_headers_with_edited_comments(tmp_path):
    """Inductor's precompiled header may hold a header of ours with an older comment."""
    headers = list((pathlib.Path(torch_ocl.__file__).parent / "include").rglob("*.h"))
    assert len(headers) == 4
    assert not [path for path in headers if "\n#pragma once" in path.read_text()]

    (original,) = (path for path in headers if path.name == "program_interface.h")
    edited = tmp_path / "edited.h"
    edited.write_text(f"// edited\n{original.read_text()}")
    source = f'#include "{original}"\n#include "{edited}"\n'
    command = [CXX, "-std=c++17", "-fsyntax-only", "-x", "c++", "-"]
    subprocess.run(command, input=source, text=True, check=True)


def test_training_with_a_program_in_cpp(device):
    model = nn.Sequential(
        nn.Linear(16, 32), nn.LayerNorm(32), nn.GELU(), nn.Dropout(), nn.Linear(32, 4)
    )
    model.to(device)
    x, target = torch.randn(6, 16, device=device), torch.arange(6, device=device) % 4
    with torch._inductor.config.patch(cpp_wrapper=True):
        compiled = torch.compile(model, fullgraph=True)
        results = []
        for run in (model, compiled):
            torch.manual_seed(1)
            loss = F.cross_entropy(run(x), target)
            results.append([loss, *torch.autograd.grad(loss, model.parameters())])
    torch.testing.assert_close(*results, rtol=1e-4, atol=1e-5)


def test_a_program_in_cpp_is_replayed(device):
    def function(x, w):
        return F.layer_norm((x @ w).cumsum(0), (16,)).softmax(-1)

    with torch._inductor.config.patch(cpp_wrapper=True):
        compiled = torch.compile(function, fullgraph=True, mode="reduce-overhead")
        for _ in range(4):
            x, w = torch.randn(5, 16, device=device), torch.randn(16, 16, device=device)
            torch.testing.assert_close(compiled(x, w), function(x, w), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("cpp", [True, False])
def test_any_text_is_an_argument_of_a_compiled_program(device, cpp):
    text = 'a")OCL" + \\0 ??/ \n\t%s é€ \x7f'

    @torch.library.custom_op("texts::kept", mutates_args=())
    def kept(x: torch.Tensor, given: str) -> torch.Tensor:
        assert given == text
        return x + 1

    kept.register_fake(lambda x, given: torch.empty_like(x))
    x = torch.randn(5, device=device)
    with torch._inductor.config.patch(cpp_wrapper=cpp):
        compiled = torch.compile(lambda x: kept(x * 2, text) * 3, fullgraph=True)
        torch.testing.assert_close(compiled(x), (x * 2 + 1) * 3)


CACHED_PROGRAM = """
import torch
from torch._dynamo.utils import counters
torch._inductor.config.cpp_wrapper = True
x = torch.arange(8.0, device="ocl")
result = torch.compile(lambda x: (x * 2).sin() + x.sum())(x)
torch.testing.assert_close(result, (x * 2).sin() + x.sum())
print(counters["inductor"]["fxgraph_cache_hit"])
"""


def test_a_program_in_cpp_from_the_cache(device):
    for hits in "01":
        done = subprocess.run(
            [sys.executable, "-c", CACHED_PROGRAM], capture_output=True, text=True, timeout=DEADLINE
        )
        assert done.stdout == f"{hits}\n", done.stderr


def test_a_package_with_a_dynamic_batch(device, tmp_path):
    module = Network().eval().to_device(device)
    batch = torch.export.Dim("batch", min=1, max=64)
    x = torch.randn(4, 3, 8, 8, device=device)
    path = package(module, (x,), tmp_path / "m.pt2", dynamic_shapes={"x": {0: batch}})
    loaded = torch._inductor.aoti_load_package(path, device_index=torch.device(device).index)
    module.calls.zero_()
    before = torch.ocl.memory_allocated(device)
    del loaded
    assert torch.ocl.memory_allocated(device) < before  # the weights were there
    loaded = torch._inductor.aoti_load_package(path, device_index=torch.device(device).index)
    for size in (4, 1, 9):
        x = torch.randn(size, 3, 8, 8, device=device)
        results, expected = loaded(x), module(x)
        torch.testing.assert_close(results, expected, rtol=1e-4, atol=1e-5)
    weights = {"linear.weight": module.linear.weight * 2}
    loaded.load_constants(weights, check_full_update=False)
    module.load_state_dict(weights, strict=False)
    torch.testing.assert_close(loaded(x)[0], module(x)[0], rtol=1e-4, atol=1e-5)
    assert results[3].device.type == "cpu" and results[4].tolist() == [3, 3, 3]


def test_a_package_with_a_convolution_of_channels_last(device, tmp_path):
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten()).to(device)
    x = torch.randn(2, 3, 9, 9, device=device).to(memory_format=torch.channels_last)
    with torch.no_grad():
        loaded = torch._inductor.aoti_load_package(package(model, (x,), tmp_path / "m.pt2"))
        torch.testing.assert_close(loaded(x), model(x), rtol=1e-4, atol=1e-5)


class Clamped(nn.Module):
    def forward(self, x):
        mean = x.mean().item()
        return x.clamp(max=mean), torch.full((3,), mean, device=x.device) + x[:3]


def test_a_package_with_a_number_read_from_a_tensor(device, tmp_path):
    args = (torch.arange(5.0, device=device) + 0.25,)
    loaded = torch._inductor.aoti_load_package(package(Clamped(), args, tmp_path / "m.pt2"))
    for x in (args[0], args[0] / 3):
        torch.testing.assert_close(loaded(x), Clamped()(x))


def test_a_package_in_another_process(device, tmp_path):
    model = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.SiLU()).to(device, torch.float16)
    x = torch.randn(5, 8, device=device, dtype=torch.float16)
    path = package(model, (x,), tmp_path / "m.pt2")
    torch.save((x, model(x)), tmp_path / "values")
    program = (
        "import sys, torch\n"
        "path, values, index = sys.argv[1:]\n"
        "loaded = torch._inductor.aoti_load_package(path, device_index=int(index))\n"
        "x, expected = torch.load(values)\n"
        "torch.testing.assert_close(loaded(x), expected, rtol=1e-2, atol=1e-3)\n"
        "print('equal')\n"
    )
    arguments = [path, tmp_path / "values", str(torch.device(device).index)]
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        timeout=DEADLINE,
    )
    assert done.returncode == 0 and done.stdout == "equal\n", done.stderr


class Operators(nn.Module):
    """Operators of others, of ours, and arguments of all kinds."""

    def __init__(self, numpy_sin):
        super().__init__()
        self.numpy_sin = numpy_sin

    def forward(self, x, indices):
        y = self.numpy_sin(F.relu(x) * 2) + 1
        cropped = torch.ops.torch_ocl.crop(y[None], [1, 2, 4, 6])
        parts = torch.cat([y, x.sign().cumsum(0, dtype=torch.int64).float()]).split([1, 2, 1])
        bits = x.view(torch.int32).sort(descending=True)[0].view(torch.float32)
        summed = torch.zeros(4, 8, device=x.device).index_add(0, indices, x[0], alpha=0.5)
        return cropped, parts[1].exp(), bits, summed, torch.fft.rfft(x).abs()


def test_operators_without_a_generated_kernel(device, tmp_path):
    numpy_sin, _ = numpy_operators.functional()
    module = Operators(numpy_sin)
    args = (
        torch.randn(2, 8, 8, device=device),
        torch.tensor([0, 3, 3, 1, 0, 1, 2, 2], device=device),
    )
    loaded = torch._inductor.aoti_load_package(package(module, args, tmp_path / "m.pt2"))
    torch.testing.assert_close(loaded(*args), module(*args), rtol=1e-4, atol=1e-5)


def test_a_package_of_another_version_is_refused(device, tmp_path, monkeypatch):
    from torch_ocl.inductor import runtime

    headers = tmp_path / "include"
    shutil.copytree(runtime._INCLUDE, headers)
    text = (headers / "torch_ocl/program_interface.h").read_text()
    text, changed = re.subn(r"(kOclInterfaceVersion = )\d+;", r"\g<1>1234;", text)
    assert changed == 1
    (headers / "torch_ocl/program_interface.h").write_text(text)
    monkeypatch.setenv("CPLUS_INCLUDE_PATH", "")
    monkeypatch.setattr(runtime, "_INCLUDE", headers)
    module = nn.LayerNorm(8).to(device)
    x = torch.randn(4, 8, device=device)
    with torch._inductor.config.patch({"aot_inductor.precompile_headers": False}):
        path = package(module, (x,), tmp_path / "m.pt2")
    with pytest.raises(RuntimeError, match=r"another version of torch_ocl .*1234"):
        torch._inductor.aoti_load_package(path)(x)


@needs_torch(13, "the packages in tests/data were compiled with PyTorch 2.13")
@pytest.mark.parametrize("file", sorted(DATA.glob("program_*.pt2")), ids=lambda file: file.stem)
def test_packages_of_earlier_versions(device, file, monkeypatch):
    """tests/data/write_program.py wrote them. A change of the interface increases its version.

    Then, remove the packages of the older interface here.
    """
    if platform.machine() not in file.stem:
        pytest.skip(f"{file.name} is for another processor than {platform.machine()}")
    monkeypatch.syspath_prepend(DATA)
    from write_program import Model, arguments

    model = Model().to(device)
    loaded = torch._inductor.aoti_load_package(str(file), device_index=torch.device(device).index)
    for calls, rows in enumerate((3, 1, 7), 1):
        results = loaded(*arguments(rows, device))
        torch.testing.assert_close(results, list(model(*arguments(rows, device))))
        assert results[3].tolist() == [calls] * 3
