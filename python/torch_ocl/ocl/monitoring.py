"""Functions for values that OpenCL does not provide; the system's tools measure them."""


def _unknown(what: str):
    raise NotImplementedError(
        f"OpenCL does not report {what}: ask the tool of the device's vendor (nvidia-smi, "
        "rocm-smi, xpu-smi, intel_gpu_top)"
    )


def utilization(device=None) -> int:
    """Raises NotImplementedError."""
    _unknown("how busy a device is")


def memory_usage(device=None) -> int:
    """Raises NotImplementedError."""
    _unknown("how busy a device's memory is")


def device_memory_used(device=None) -> int:
    """Raises NotImplementedError; memory_reserved() is what this process uses."""
    _unknown("how much memory all processes use; torch.ocl.memory_reserved() is this process's")


def temperature(device=None) -> int:
    """Raises NotImplementedError."""
    _unknown("a device's temperature")


def power_draw(device=None) -> int:
    """Raises NotImplementedError."""
    _unknown("the power that a device draws")


def clock_rate(device=None) -> int:
    """Raises NotImplementedError."""
    _unknown("the present clock rate of a device")


def list_gpu_processes(device=None) -> str:
    """Raises NotImplementedError."""
    _unknown("which processes use a device")
