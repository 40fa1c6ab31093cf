"""tools/check_layers.py: dependencies between the folders go one way."""

import subprocess
import sys

import pytest
from support import ROOT


def check_layers(root):
    script = ROOT / "tools/check_layers.py"
    return subprocess.run([sys.executable, script, root], capture_output=True, text=True)


def test_repository_is_clean():
    result = check_layers(ROOT)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(
    "path, include",
    [
        ("backend/device/device.cpp", '"kernels/pointwise/pointwise_table.h"'),
        ("generator/generator.cpp", '"guard/hooks.h"'),
        ("serialization/meta.h", '"generator/generator.h"'),
        ("kernels/tensor/copy.cpp", '"guard/hooks.h"'),
        ("guard/hooks.cpp", '"kernels/dispatch/fallback.h"'),
        ("guard/hooks.cpp", '"../backend/device/device.h"'),
        ("kernels/user/cl_info.cpp", "<CL/opencl.hpp>"),
        ("kernels/core/types/dtype.cpp", '"kernels/pointwise/pointwise.h"'),
        ("kernels/matmul/gemm.cpp", '"kernels/conv/common/conv.h"'),
        ("kernels/image/band.cpp", '"kernels/resample/resample.h"'),
        ("kernels/stray.cpp", '"kernels/pointwise/pointwise.h"'),
        ("backend/device/device.cpp", "<CL/cl.h>"),
        ("backend/device/device.cpp", "<ATen/ops/empty.h>"),
        ("backend/device/device.cpp", "<torch/extension.h>"),
        ("backend/device/device.cpp", '"backend/queue/stream.h"'),
        ("backend/queue/event.cpp", '"backend/stray.h"'),
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


def test_floors_of_inductor(tmp_path):
    for path, text in {
        "codegen/kernel.py": "from ..lowering.eager import aten\nfrom .types import TYPES\n",
        "lowering/eager.py": "from .. import device_interface, registration\n",
        "device_interface.py": "from . import versions\nfrom .stray import name\n",
    }.items():
        file = tmp_path / "python/torch_ocl/inductor" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    assert check_layers(tmp_path).stdout.splitlines() == [
        "python/torch_ocl/inductor/codegen/kernel.py:1: codegen is below lowering",
        "python/torch_ocl/inductor/device_interface.py:2: INDUCTOR_FLOORS does not have stray",
        "python/torch_ocl/inductor/lowering/eager.py:1: lowering is below registration",
    ]


def test_full_folder(tmp_path):
    folder = tmp_path / "kernels/pool"
    folder.mkdir(parents=True)
    for number in range(26):
        (folder / f"file{number}.cl").touch()
    (folder / "data.txt").touch()
    assert check_layers(tmp_path).returncode == 0
    (folder / "file.h").touch()
    assert check_layers(tmp_path).stdout.splitlines() == [
        "kernels/pool: 27 source files; at most 26: split it by what the files hold"
    ]


def test_circles_of_rooms(tmp_path):
    """A circle may go through the .cpp file of a room."""
    for path, included in {
        "guard/a.h": "guard/b.h",
        "guard/b.cpp": "guard/c.h",
        "guard/c.h": "guard/a.h",
        "guard/d.h": "guard/a.h",
        "kernels/index/index.cpp": "kernels/index/index_tables.h",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(f'#include "{included}"\n')
    assert check_layers(tmp_path).stdout.splitlines() == [
        "guard/a b c: 3 rooms include each other",
        "kernels/index/index index_plan: no circle, but listed",
    ]


@pytest.mark.parametrize(
    "path, include",
    [
        ("backend/base/opencl.h", "<CL/opencl.hpp>"),
        ("backend/device/device.cpp", '"backend/device/device.h"'),
        ("backend/memory/host_allocator.cpp", "<ATen/core/CachingHostAllocator.h>"),
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
