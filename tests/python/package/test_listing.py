"""The listing of devices, tested with a device that behaves as GPU drivers do (docs/stern.md)."""

import pytest
from stern import changed_profile, on_stern

COUNT = "import torch; print(torch.ocl.device_count(), torch.ones(3, device='ocl').sum().item())"


@pytest.fixture
def changed(tmp_path):
    return lambda profile="nvidia_ampere", **values: changed_profile(tmp_path, profile, **values)


def test_a_gpu_with_two_drivers_is_one_device(changed):
    path = changed(duplicate_platform=1)
    assert "1 3.0" in on_stern(path, "-c", COUNT)
    assert "2 3.0" in on_stern(path, "-c", COUNT, OCL_ALL_DEVICES=1)
    info = on_stern(path, "-m", "torch_ocl.info")
    assert "not used" in info and "the platform NVIDIA CUDA has the same GPU" in info


def test_the_newer_driver_of_a_gpu_is_used(changed):
    show = "import torch; print(torch.ocl.get_device_properties(0).driver_version)"
    for other, used in (("525.99", "525.125.06"), ("530.1", "530.1")):
        path = changed(duplicate_platform=1, duplicate_driver=other)
        assert on_stern(path, "-c", show).split() == [used]
        assert "1 3.0" in on_stern(path, "-c", COUNT)


def test_devices_without_long_integers(changed):
    path = changed("smallest", DEVICE_EXTENSIONS="cl_khr_byte_addressable_store")
    assert "it has no 64-bit integers" in on_stern(path, "-m", "torch_ocl.info")
    assert "1 3.0" in on_stern(path, "-c", COUNT, OCL_ALL_DEVICES=1)


@pytest.mark.parametrize("all_devices", [0, 1])
def test_a_device_of_opencl_1_1(all_devices):
    """Its driver does not even have the calls that keep a device alive."""
    info = on_stern("amd_polaris_clover", "-m", "torch_ocl.info", OCL_ALL_DEVICES=all_devices)
    assert "No OpenCL device" in info and "Radeon RX 560" in info
    assert "it has OpenCL 1.1 Mesa 18.2.0-devel, but 1.2 is needed" in info


def test_a_driver_that_fails(changed):
    info = on_stern(changed(failing_query="DEVICE_VENDOR"), "-m", "torch_ocl.info")
    assert "No OpenCL device was found" in info or "No OpenCL device found" in info
    assert "NVIDIA GeForce RTX 3060 Laptop GPU" in info and "clGetDeviceInfo" in info


def test_a_query_that_a_driver_need_not_know(changed):
    """The extension is not named, and the other query is deprecated."""
    failing = "DEVICE_DOUBLE_FP_CONFIG DEVICE_HOST_UNIFIED_MEMORY DEVICE_QUEUE_PROPERTIES"
    assert "1 3.0" in on_stern(changed("smallest", failing_query=failing), "-c", COUNT)
