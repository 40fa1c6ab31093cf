"""tests/tools/check_layers.py: dependencies between the folders go one way."""

import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def check_layers(root):
    script = ROOT / "tests/tools/check_layers.py"
    return subprocess.run([sys.executable, script, root], capture_output=True, text=True)


def test_repository_is_clean():
    result = check_layers(ROOT)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(
    "path, include",
    [
        ("backend/device.cpp", '"kernels/pointwise_table.h"'),
        ("generator/generator.cpp", '"guard/hooks.h"'),
        ("serialization/meta.h", '"generator/generator.h"'),
        ("kernels/copy.cpp", '"guard/hooks.h"'),
        ("guard/hooks.cpp", '"kernels/fallback.h"'),
        ("guard/hooks.cpp", '"../backend/device.h"'),
        ("kernels/cl_info.cpp", "<CL/opencl.hpp>"),
        ("backend/device.cpp", "<CL/cl.h>"),
        ("backend/device.cpp", "<ATen/ops/empty.h>"),
        ("backend/device.cpp", "<torch/extension.h>"),
    ],
)
def test_violation_is_found(tmp_path, path, include):
    file = tmp_path / path
    file.parent.mkdir()
    file.write_text(f"// A comment.\n#include {include}\n")
    result = check_layers(tmp_path)
    assert result.returncode == 1
    assert result.stdout.startswith(f"{path}:2: #include {include}: ")


@pytest.mark.parametrize(
    "path, include",
    [
        ("backend/opencl.h", "<CL/opencl.hpp>"),
        ("backend/device.cpp", '"backend/device.h"'),
        ("backend/host_allocator.cpp", "<ATen/core/CachingHostAllocator.h>"),
        ("guard/hooks.cpp", '"generator/generator.h"'),
        ("kernels/fill.cpp", "<ATen/native/Fill.h>"),
        ("python/module.cpp", '"guard/hooks.h"'),
        ("tests/cpp/device_test.cpp", '"kernels/pointwise_table.h"'),
    ],
)
def test_allowed(tmp_path, path, include):
    file = tmp_path / path
    file.parent.mkdir(parents=True)
    file.write_text(f"#include {include}\n")
    result = check_layers(tmp_path)
    assert result.returncode == 0, result.stdout
