"""tools/check_layers.py: dependencies between the folders go one way."""

import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def check_layers(root):
    script = ROOT / "tools/check_layers.py"
    return subprocess.run([sys.executable, script, root], capture_output=True, text=True)


def test_repository_is_clean():
    result = check_layers(ROOT)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(
    "path, include",
    [
        ("backend/device.cpp", '"kernels/pointwise/pointwise_table.h"'),
        ("generator/generator.cpp", '"guard/hooks.h"'),
        ("serialization/meta.h", '"generator/generator.h"'),
        ("kernels/tensor/copy.cpp", '"guard/hooks.h"'),
        ("guard/hooks.cpp", '"kernels/dispatch/fallback.h"'),
        ("guard/hooks.cpp", '"../backend/device.h"'),
        ("kernels/user/cl_info.cpp", "<CL/opencl.hpp>"),
        ("kernels/core/dtype.cpp", '"kernels/pointwise/pointwise.h"'),
        ("kernels/matmul/gemm.cpp", '"kernels/conv/common/conv.h"'),
        ("kernels/image/band.cpp", '"kernels/resample/resample.h"'),
        ("kernels/stray.cpp", '"kernels/pointwise/pointwise.h"'),
        ("backend/device.cpp", "<CL/cl.h>"),
        ("backend/device.cpp", "<ATen/ops/empty.h>"),
        ("backend/device.cpp", "<torch/extension.h>"),
    ],
)
def test_violation_is_found(tmp_path, path, include):
    file = tmp_path / path
    file.parent.mkdir(parents=True)
    file.write_text(f"// A comment.\n#include {include}\n")
    result = check_layers(tmp_path)
    assert result.returncode == 1
    assert result.stdout.startswith(f"{path}:2: #include {include}: ")


def test_included_opencl_source_is_found_by_its_name(tmp_path):
    for path, text in {
        "kernels/core/cl/math.clh": '#include "bessel.clh"\n',
        "kernels/pointwise/functions/bessel.clh": '#include "math.clh"\n',
    }.items():
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_text(text)
    assert check_layers(tmp_path).stdout.splitlines() == [
        'kernels/core/cl/math.clh:1: #include "bessel.clh": '
        "kernels/core/cl may include no other folder but core"
    ]


@pytest.mark.parametrize(
    "path, include",
    [
        ("backend/opencl.h", "<CL/opencl.hpp>"),
        ("backend/device.cpp", '"backend/device.h"'),
        ("backend/host_allocator.cpp", "<ATen/core/CachingHostAllocator.h>"),
        ("guard/hooks.cpp", '"generator/generator.h"'),
        ("kernels/tensor/fill.cpp", "<ATen/native/Fill.h>"),
        ("kernels/conv/conv.cpp", '"kernels/conv/gpu/conv_direct_gpu.h"'),
        ("python/module.cpp", '"guard/hooks.h"'),
        ("tests/cpp/device_test.cpp", '"kernels/pointwise/pointwise_table.h"'),
    ],
)
def test_allowed(tmp_path, path, include):
    file = tmp_path / path
    file.parent.mkdir(parents=True)
    file.write_text(f"#include {include}\n")
    result = check_layers(tmp_path)
    assert result.returncode == 0, result.stdout
