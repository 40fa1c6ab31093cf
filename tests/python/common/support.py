"""Helpers of the tests."""

import os
import pathlib
import shutil
import subprocess
import sys
import textwrap

import pytest
import torch

import torch_ocl

ROOT = pathlib.Path(__file__).resolve().parents[3]
KERNELS = ROOT / "kernels"
FLOATS = [torch.float32, torch.float16, torch.bfloat16, torch.float64]
INTEGERS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]
HALVES = [torch.float16, torch.bfloat16]
DTYPES = [*FLOATS, *INTEGERS, torch.bool]
COMPLEX = [torch.complex64, torch.complex128]
# Seconds until a process counts as hung; tests on two busy cores take a third of it.
DEADLINE = 900

CXX = shutil.which(os.environ.get("CXX", "g++"))
needs_a_compiler = pytest.mark.skipif(not CXX, reason="no C++ compiler (g++) is found")
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12, torch.float16: 4e-3, torch.bfloat16: 3e-2}


def needs_torch(minor, reason):
    """Skips a test with releases of PyTorch before 2.minor."""
    release = tuple(map(int, torch.__version__.split(".")[:2]))
    return pytest.mark.skipif(release < (2, minor), reason=reason)


needs_lazy_clones = needs_torch(13, "storages have no materializers before PyTorch 2.13")
needs_refused_operators = needs_torch(
    12, "PyTorch 2.11 refuses std, var, cdist and pdist for out-of-tree devices"
)


def name_of(dtype):
    return str(dtype).removeprefix("torch.")


def has_fp64(device):
    return torch.ocl.get_device_properties(device).has_fp64


def skip_in_a_simulator(device=0, reason="takes minutes"):
    """Skips a test that takes minutes in oclgrind, which executes one instruction at a time."""
    if torch.ocl.get_device_properties(device).platform == "Oclgrind":
        pytest.skip(f"{reason} in a simulator")


def skip_without_buffers_of(size, device=0):
    """Skips a test that needs a tensor of `size` bytes if the device has no buffers of that size.
    The limit of GPUs is below their memory."""
    largest = torch.ocl.get_device_properties(device).max_allocation
    if largest < size:
        pytest.skip(f"the largest buffer of the device has {largest} bytes, not {size}")


def on_the_stern_device():
    """Whether the device is one that a layer imitates (docs/stern.md)."""
    return "OPENCL_LAYERS" in os.environ


def skip_on_the_stern_device(reason):
    """Skips a test that the stern device cannot pass."""
    if on_the_stern_device():
        pytest.skip(f"on the stern device: {reason}")


def tensors_share_buffers():
    """Whether a launch can take many tensors of one buffer."""
    return os.environ.get("OCL_MEMORY_CACHING") != "0"


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def random_tensor(shape, dtype, seed=0, low=-9, high=9):
    """A CPU tensor with numbers that every type can hold, from low to high where it is signed."""
    numbers = torch.rand(shape, generator=generator(seed), dtype=torch.float64)
    if dtype == torch.bool:
        return numbers < 0.5
    if dtype == torch.uint8 or not dtype.is_signed:
        return (numbers * high).to(dtype)
    if dtype.is_complex:
        other = torch.rand(shape, generator=generator(seed + 1), dtype=torch.float64)
        return torch.complex(low + numbers * (high - low), other).to(dtype)
    return (low + numbers * (high - low)).to(dtype)


def assert_same(actual, expected, exact=True, **tolerance):
    """The ocl tensor has the type, shape, strides and values of the CPU tensor."""
    assert actual.device.type == "ocl", actual.device
    assert actual.dtype == expected.dtype, (actual.dtype, expected.dtype)
    assert actual.shape == expected.shape, (actual.shape, expected.shape)
    assert actual.stride() == expected.stride(), (actual.stride(), expected.stride())
    if exact:
        tolerance = {"rtol": 0, "atol": 0}
    torch.testing.assert_close(actual.cpu(), expected, equal_nan=True, **tolerance)


def fill_gaps(device):
    """Makes tensors that fill the free parts of large segments which earlier tests still use."""
    sizes = [
        block["size"]
        for segment in torch.ocl.memory_snapshot(include_traces=False)
        for block in segment["blocks"]
        if segment["segment_type"] == "large" and block["state"] == "inactive"
    ]
    sizes.sort(reverse=True)
    return [torch.empty(size, dtype=torch.uint8, device=device) for size in sizes]


def child_environment(**variables):
    """The environment of this process with `variables` added; those of value None are removed.

    A child with its own OCL_ICD_VENDORS sees those drivers only. Khronos's loader would add what
    OCL_ICD_FILENAMES names.
    """
    if "OCL_ICD_VENDORS" in variables:
        variables.setdefault("OCL_ICD_FILENAMES", None)
    merged = {**os.environ, **variables}
    return {name: value for name, value in merged.items() if value is not None}


def run_python(code, **variables):
    """Runs the code in a process of its own, with the variables of child_environment()."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env=child_environment(**variables),
        capture_output=True,
        text=True,
        timeout=DEADLINE,
    )


def output_of(code, **variables):
    """The output of the code; fails if the process does."""
    result = run_python(code, **variables)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def altered_kernels(folder, files, wanted, found):
    """A copy of the kernels, for OCL_KERNEL_DIR, in which one of the files differs."""
    copy = shutil.copytree(KERNELS, folder / "kernels")
    changed = 0
    for path in copy.rglob(files):
        text = path.read_text()
        changed += wanted in text
        path.write_text(text.replace(wanted, found))
    assert changed == 1, changed
    return str(copy)


def copy_package(folder, *without):
    """(a copy of torch_ocl, variables for a process that imports it)"""
    source = pathlib.Path(torch_ocl.__file__).parent
    ignore = shutil.ignore_patterns("__pycache__", *without)
    package = shutil.copytree(source, folder / "torch_ocl", ignore=ignore)
    # If no site-packages has the entry point, a folder that is already on the path has it.
    path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    return package, {"PYTHONPATH": path}


def on_cpu_and_device(function, device, *tensors):
    """The function's results on the CPU, and on the device, copied back."""
    return function(*tensors), function(*(x.to(device) for x in tensors)).cpu()


def result_of(function, *tensors):
    """(results on the CPU, None), or (None, the error)"""
    try:
        result = function(*tensors)
        results = result if isinstance(result, (tuple, list)) else [result]
        return [x.cpu() for x in results], None
    except Exception as error:
        return None, error


def assert_agrees(function, device, *tensors, exact=True, **tolerance):
    """Values, signs of zeros and the class of the error are the CPU's."""
    expected, wanted = result_of(function, *(x.clone() for x in tensors))
    actual, error = result_of(function, *(x.to(device) for x in tensors))
    if error and not wanted:
        raise error
    assert type(error) is type(wanted)
    for a, b in zip(actual or [], expected or [], strict=True):
        assert a.dtype == b.dtype and a.stride() == b.stride()
        if exact:
            tolerance = {"rtol": 0, "atol": 0}
        torch.testing.assert_close(a, b, equal_nan=True, **tolerance)
        if b.is_floating_point():
            zero = b == 0
            assert torch.equal(a[zero].signbit(), b[zero].signbit())
