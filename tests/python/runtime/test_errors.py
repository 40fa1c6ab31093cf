"""Error messages: the exception's class, what failed, on which device, and what to do. No platform
and no loader: test_import.py. Out of memory: test_memory.py."""

import os
import shutil

import pytest
import torch
import torch.nn.functional as F
from support import ROOT, has_fp64, output_of


def test_device_index_out_of_range(device):
    count = torch.ocl.device_count()
    pattern = rf"ocl:{count} does not exist: this process sees {count} device\(s\): ocl:0 \""
    x = torch.empty(2)
    for attempt in (
        lambda: torch.empty(2, device=f"ocl:{count}"),
        lambda: x.to(f"ocl:{count}"),
        lambda: torch.ocl.set_device(count),
        lambda: torch.ocl.synchronize(count),
        lambda: torch.ocl.get_device_properties(count),
        lambda: torch.ocl.memory_allocated(count),
        lambda: torch.ocl.get_rng_state(count),
        lambda: torch.Stream(device=f"ocl:{count}"),
        lambda: torch.ocl.device(count).__enter__(),
    ):
        with pytest.raises(RuntimeError, match=pattern):
            attempt()
    assert torch.ocl.current_device() == torch.device(device).index


def test_device_of_another_type():
    for attempt in (torch.ocl.set_device, torch.ocl.synchronize, torch.ocl.memory_allocated):
        with pytest.raises(ValueError, match="expected an ocl device, got cpu"):
            attempt("cpu")


def test_tensors_on_different_devices(two_devices):
    x, y = (torch.ones(3).to(device) for device in two_devices)
    pattern = "all tensors to be on the same device, but found at least two devices, ocl:[01]"
    for attempt in (
        lambda: x + y,
        lambda: x.add_(y),
        lambda: torch.add(x, x, out=y),
        lambda: torch.where(x > 0, x, y),
        lambda: torch.addcmul(x, x, y),
    ):
        with pytest.raises(RuntimeError, match=pattern):
            attempt()


def test_cpu_and_ocl_tensors(device):
    """CPU tensors without dimensions are numbers; others are a mistake."""
    x = torch.ones(3).to(device)
    assert (x + torch.tensor(2.5)).cpu().tolist() == [3.5, 3.5, 3.5]
    for attempt in (lambda: x + torch.ones(3), lambda: torch.ones(3) + x):
        with pytest.raises(RuntimeError, match=r"same device.*(ocl:\d and cpu|cpu and ocl:\d)"):
            attempt()


@pytest.mark.sample
def test_type_that_the_device_lacks(device, monkeypatch):
    if has_fp64(device):
        pytest.skip("the device has float64")
    x = torch.ones(3, dtype=torch.float64).to(device)
    assert x.cpu().tolist() == [1, 1, 1]
    with pytest.raises(
        NotImplementedError, match=r"self: Double \[3\] on ocl:\d, which has no cl_khr_fp64"
    ):
        x + x
    monkeypatch.setenv("OCL_FALLBACK", "allow")
    assert (x + x).cpu().tolist() == [2, 2, 2]
    assert str(x) == f"tensor([1., 1., 1.], device='{device}', dtype=torch.float64)"
    assert "1., 1., 1." in str(x.float())


def test_type_that_the_device_lacks_in_lists_of_tensors(device):
    if has_fp64(device):
        pytest.skip("the device has float64")
    x = torch.ones(3, dtype=torch.float64).to(device)
    with pytest.raises(NotImplementedError, match=r"float64 on ocl:\d \".*has no cl_khr_fp64"):
        torch._foreach_add([x], [x])


@pytest.mark.sample
@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: x @ y.t(),
        lambda x, y: torch.bmm(x[None], y.t()[None]),
        lambda x, y: torch.baddbmm(x[None, :, :3], x[None], y.t()[None]),
        lambda x, y: F.linear(x, y),
        lambda x, y: F.conv2d(x[None, None], y[None, None, :2, :2]),
        lambda x, y: F.conv_transpose2d(x[None, None], y[None, None, :2, :2]),
        lambda x, y: F.nll_loss(x, torch.zeros(3, dtype=torch.int64, device=x.device), y[0]),
    ],
)
def test_mixed_types(device, function):
    """Operands that kernels would read as numbers of another type."""
    x, y = torch.ones(3, 4), torch.ones(3, 4, dtype=torch.float16)
    for first, second, names in ((x, y, "float|Float"), (y, x, "half|Half")):
        with pytest.raises(RuntimeError):
            function(first, second)
        with pytest.raises(RuntimeError, match=f"type.*({names}).*on {device}"):
            function(first.to(device), second.to(device))


@pytest.mark.parametrize(
    "function, dtype",
    [
        (torch.bitwise_not, torch.float32),
        (lambda x: x & x, torch.float16),
        (lambda x: x << x, torch.float32),
        (lambda x: torch.gcd(x, x), torch.float32),
        (F.silu, torch.int64),
        (F.softplus, torch.uint8),
        (torch.frac, torch.int32),
        (torch.ceil, torch.bool),
        (lambda x: torch.hypot(x, x), torch.int64),
        (lambda x: x.softmax(0), torch.int64),
        (lambda x: x.normal_(), torch.int64),
    ],
)
def test_type_that_the_operator_lacks(device, function, dtype):
    """The exception has the CPU's class, and no program is built."""
    x = torch.ones(3).to(dtype)
    with pytest.raises(NotImplementedError):
        function(x)
    with pytest.raises(NotImplementedError, match=f"is not implemented for tensors of .*{device}"):
        function(x.to(device))


def test_type_without_kernels(device):
    x = torch.ones(3, dtype=torch.complex64).to(device)
    pattern = r"aten::erf.* is not implemented for ocl \(self: .*on ocl:\d"
    with pytest.raises(NotImplementedError, match=pattern):
        torch.erf(x)


def test_kernel_that_does_not_build(device, tmp_path):
    """File, line, driver's log and defines are in the message; other kernels go on."""
    code = f"""
        import pathlib, torch
        x = torch.ones(3).to("{device}")
        header = pathlib.Path("{tmp_path}/core/cl/math.clh")
        text = header.read_text()
        header.write_text("\\n\\nint broken(void) {{ return no_such_name; }}\\n")
        try:
            x.sin()
        except RuntimeError as error:
            print(error)
        header.write_text(text)
        print(x.neg().tolist())
    """
    source = str(ROOT / "kernels")
    shutil.copytree(source, tmp_path, dirs_exist_ok=True)
    programs = str(tmp_path / "programs")
    text = output_of(code, OCL_KERNEL_DIR=str(tmp_path), OCL_CACHE_DIR=programs)
    name = torch.ocl.get_device_name(device)
    assert f'cannot build pointwise_{family(device)}.cl for {device} "{name}" [' in text
    failure = "clBuildProgram failed with CL_BUILD_PROGRAM_FAILURE (-11)"
    if torch.ocl.get_device_properties(device).platform == "Portable Computing Language":
        failure = "clCompileProgram failed with CL_COMPILE_PROGRAM_FAILURE (-15)"
    for part in (
        "EXPR (SIN(a))",
        "KERNEL sin",
        f"{failure}. The log below tells why: ",
        "math.clh:3",
        "no_such_name",
        "[-1.0, -1.0, -1.0]",
    ):
        assert part in text, text


def family(device):
    return torch.ocl.get_device_properties(device).kernel_family


def test_kernel_that_does_not_build_in_threads(device, tmp_path):
    """In a thread, and in the backward pass: raised where it was called, each time."""
    code = f"""
        import pathlib, threading, torch
        x = torch.ones(3).to("{device}").requires_grad_()
        y = x.tanh()
        x.detach().neg().cpu()
        header = pathlib.Path("{tmp_path}/core/cl/common.clh")
        header.write_text(header.read_text() + "\\nint broken(void) {{ return no_such_name; }}\\n")
        def attempt(body):
            try:
                body()
            except RuntimeError as error:
                print("cannot build" in str(error) and "no_such_name" in str(error))
        thread = threading.Thread(target=lambda: attempt(lambda: x.detach().exp()))
        thread.start()
        thread.join()
        attempt(lambda: x.detach().exp())
        attempt(lambda: y.sum().backward())
        print(x.detach().neg().tolist())
    """
    source = str(ROOT / "kernels")
    shutil.copytree(source, tmp_path, dirs_exist_ok=True)
    lines = output_of(code, OCL_KERNEL_DIR=str(tmp_path)).splitlines()
    assert lines == ["True", "True", "True", "[-1.0, -1.0, -1.0]"]


def test_kernel_folder_without_the_file(device, tmp_path):
    code = f"""
        import torch
        try:
            torch.ones(3).to("{device}").sin()
        except RuntimeError as error:
            print(error)
    """
    text = output_of(code, OCL_KERNEL_DIR=str(tmp_path))
    assert f"cannot read the kernel file {tmp_path}" in text


@pytest.mark.sample
@pytest.mark.fallback_allowed
def test_printing(device):
    for dtype in (torch.float32, torch.float16, torch.int64, torch.bool):
        x = torch.tensor([[0, 1], [2, 3]]).to(dtype)
        numbers = str(x).split("]]")[0]
        assert str(x.to(device)).startswith(f"{numbers}]], device='{device}'")
    assert str(torch.tensor(2.5).to(device)) == f"tensor(2.5000, device='{device}')"
    assert "size=(0, 3)" in str(torch.empty(0, 3, device=device))


TEXT_VARIABLES = """OCL_VISIBLE_DEVICES OCL_MEMORY_MB OCL_KERNEL_FAMILY OCL_DISABLE
    OCL_FALLBACK OCL_GEMM_ALGORITHM OCL_GEMM_TILE OCL_CONV_ALGORITHM"""


@pytest.mark.parametrize("variable", TEXT_VARIABLES.split())
def test_variable_that_is_not_utf8(variable):
    program = """
        import torch
        try:
            x = torch.ones(9, 9, device="ocl")
            x @ x
            torch.nn.functional.conv2d(x[None, None], x[None, None])
            torch.linalg.eigvals(x)
        except ValueError as error:
            print(type(error).__name__, error)
    """
    text = output_of(program, **{variable: os.fsdecode(b"\xff")})
    assert text.startswith(f"ValueError {variable}") and r"\xff" in text


@pytest.mark.parametrize("seconds", [9_300_000_000, 2**43 - 1])
def test_a_time_limit_of_centuries(seconds):
    """It does not fit the clock's 64 bits of nanoseconds."""
    program = """
        import torch
        spin = torch.ocl.compile_kernel('''__kernel void spin(__global float* x, int steps) {
            for (int i = 0; i < steps; ++i) x[0] = sin(x[0]);
        }''')
        x = torch.ones(1, device="ocl")
        spin.spin(x, 2_000_000, threads=1)
        print(x.item() < 1)
    """
    assert output_of(program, OCL_TIMEOUT=str(seconds)) == "True"


def test_build_option_that_is_not_utf8():
    program = """
        import torch
        try:
            torch.ones(9, device="ocl")
        except RuntimeError as error:
            print(error)
    """
    text = output_of(program, OCL_BUILD_OPTIONS=os.fsdecode(b"-no\xff"))
    assert text.startswith("cannot build ")
