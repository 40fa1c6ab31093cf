"""Times of devices that have few or none, on a device that plays them (docs/stern.md)."""

from stern import changed_profile, stern_output_of

CODE = """
    import torch

    x = torch.zeros(1000, device="ocl")
    start, end = (torch.ocl.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(20):
        x.add_(1)
    end.record()
    end.synchronize()

    def elapsed():
        try:
            return start.elapsed_time(end)
        except RuntimeError as error:
            return str(error)

    def profiled():
        with torch.profiler.profile() as profile:
            x.mul_(2)
            torch.ocl.synchronize()
        assert x[0].item() == 40
        return next(each for each in profile.key_averages() if each.key == "aten::mul_")
"""


def test_markers_without_times(tmp_path):
    profile = changed_profile(tmp_path, "nvidia_ampere", marker_times=0)
    checks = """
    assert elapsed() > 0, elapsed()
    assert profiled().self_device_time_total > 0
    """
    stern_output_of(profile, CODE + checks)


def test_commands_without_times(tmp_path):
    """The difference would be 0, without an error."""
    profile = changed_profile(tmp_path, "nvidia_ampere", marker_times=0, command_times=0)
    checks = """
    assert "tells no time of an event" in elapsed(), elapsed()
    """
    stern_output_of(profile, CODE + checks)


def test_queues_without_times(tmp_path):
    profile = changed_profile(tmp_path, "smallest", DEVICE_QUEUE_PROPERTIES=0)
    checks = """
    assert "measures no times" in elapsed(), elapsed()
    assert torch.ocl.queue()
    assert profiled().count == 1
    """
    stern_output_of(profile, CODE + checks)
