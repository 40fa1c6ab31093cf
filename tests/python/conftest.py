"""Settings of all tests: no operator may fall back to the CPU unless a test allows it, and a
session keeps programs in one cache folder."""

import os
import shutil
import tempfile
import time

import pytest
import torch

# If PyTorch has a GPU of its own, the device must be asked for: here, and in child processes.
import torch_ocl  # noqa: F401

os.environ["OCL_AUTOLOAD"] = "1"
CACHE = "OCL_CACHE_DIR"
UNTIL = "OCL_TESTS_UNTIL"  # seconds since 1970: tests that would begin later are left out (.ci/run)
NO_TIME = f"left out: begins after {UNTIL}"
DOUBLES = (torch.float64, torch.complex128)
NO_DOUBLES = "which has no cl_khr_fp64"  # kernels/core/types/dtype.cpp


def pytest_configure(config):
    config.addinivalue_line(
        "markers", "fallback_allowed: operators without a kernel may run on the CPU in this test"
    )
    # Workers of pytest-xdist inherit the folder from the process that starts them.
    if CACHE not in os.environ:
        config.own_cache = os.environ[CACHE] = tempfile.mkdtemp(prefix="torch_ocl_tests_")


def pytest_unconfigure(config):
    if hasattr(config, "own_cache"):
        shutil.rmtree(config.own_cache, ignore_errors=True)


def pytest_runtest_setup(item):
    if time.time() > float(os.environ.get(UNTIL, "inf")):
        pytest.skip(NO_TIME)


def pytest_terminal_summary(terminalreporter):
    skipped = terminalreporter.stats.get("skipped", [])
    count = sum(NO_TIME in str(report.longrepr) for report in skipped)
    if count:
        terminalreporter.write_line(f"{count} tests were left out for lack of time", red=True)


def pytest_generate_tests(metafunc):
    """device: each visible device. operator_device: also while another device is current."""
    devices = [f"ocl:{index}" for index in range(torch.ocl.device_count())]
    absent = pytest.param(None, marks=pytest.mark.skip(reason="no OpenCL device is visible"))
    if "device" in metafunc.fixturenames:
        metafunc.parametrize("device", devices or [absent], indirect=True)
    if "operator_device" in metafunc.fixturenames:
        pairs = [
            pytest.param((device, current), id=f"{device}-current_{current}")
            for device in devices
            for current in devices
        ]
        metafunc.parametrize("operator_device", pairs or [absent], indirect=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Skips a test with a parameter float64 or complex128 when the device refuses that type."""
    try:
        return (yield)
    except Exception as error:
        parameters = item.callspec.params.values() if hasattr(item, "callspec") else []
        types = {parameter for parameter in parameters if isinstance(parameter, torch.dtype)}
        if NO_DOUBLES in str(error) and not types.isdisjoint(DOUBLES):
            pytest.skip("the device has no float64")
        raise


@pytest.fixture
def device(request):
    """A device, which is current during the test."""
    with torch.ocl.device(request.param):
        yield request.param


@pytest.fixture
def operator_device(request):
    """The device of the tensors, while the same or another device is current."""
    tensors_on, current = request.param
    with torch.ocl.device(current):
        yield tensors_on
        assert torch.ocl.current_device() == torch.device(current).index


@pytest.fixture(params=["ocl", "cpu"])
def place(request):
    """Each device of ocl's default, and the CPU: the operators run there, too."""
    if request.param == "ocl" and not torch.ocl.is_available():
        pytest.skip("no OpenCL device is visible")
    return request.param


@pytest.fixture
def two_devices():
    if torch.ocl.device_count() < 2:
        pytest.skip("needs two OpenCL devices, as with `make test RUNTIME=both`")
    return "ocl:0", "ocl:1"


@pytest.fixture(autouse=True)
def fallback_policy(request, monkeypatch):
    allowed = request.node.get_closest_marker("fallback_allowed")
    monkeypatch.setenv("OCL_FALLBACK", "allow" if allowed else "error")


@pytest.fixture(autouse=True)
def seed():
    """A test sees the same numbers in every run, on the device too."""
    torch.manual_seed(0)


@pytest.fixture
def float64_on_the_cpu(device, monkeypatch):
    """If the device has no float64, PyTorch's own float64 computations run on the CPU: the
    reciprocal of a GradScaler's scale, and the tolerances of ranks."""
    if not torch.ocl.get_device_properties(device).has_fp64:
        monkeypatch.setenv("OCL_FALLBACK", "allow")


@pytest.fixture
def fresh_compiler(monkeypatch, tmp_path):
    """torch.compile without what earlier tests compiled, on one process."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    torch._dynamo.reset()
    with torch._inductor.config.patch(force_disable_caches=True, compile_threads=1):
        yield
    torch._dynamo.reset()
