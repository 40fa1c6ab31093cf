"""Memory of GPUs, on a device that plays some of them (docs/stern.md)."""

import pytest
from stern import changed_profile, stern_output_of

MIB = 1 << 20
# The memory of the tests' GPUs; a buffer may have a quarter of it.
SMALL = {
    "DEVICE_GLOBAL_MEM_SIZE": 256 * MIB,
    "DEVICE_MAX_MEM_ALLOC_SIZE": 64 * MIB,
    "free_memory": 224 * MIB,
}


def test_a_gpu_that_shares_the_hosts_memory_says_what_is_free_of_its_own(tmp_path):
    """On an APU, the system may have reserved a part of memory for the GPU."""
    stern_output_of(
        changed_profile(tmp_path, "amd_rdna3", DEVICE_HOST_UNIFIED_MEMORY=1, **SMALL),
        """
        import torch
        free, _ = torch.ocl.mem_get_info()
        assert free == 224 << 20, free
        held = torch.ones(60 << 20, dtype=torch.uint8, device="ocl")
        free, _ = torch.ocl.mem_get_info()
        assert free <= 164 << 20, free
        """,
    )


def test_gpus_do_not_use_host_memory_in_place(tmp_path):
    """A trial with a fill succeeds, but kernels work on a copy."""
    stern_output_of(
        changed_profile(tmp_path, "intel_gen9", fills_reach_host=1),
        """
        import torch
        try:
            torch.ocl.from_host(torch.zeros(4096))
        except ValueError as error:
            assert "cannot use the host's memory in place" in str(error), error
        else:
            raise AssertionError("no error")
        """,
    )


def test_copies_to_the_host_need_no_second_copy():
    stern_output_of(
        "nvidia_ampere",
        """
        import torch

        def copies(body):
            with torch.profiler.profile() as profile:
                result = body()
            return result, sum(event.name == "aten::copy_" for event in profile.events())

        x = torch.arange(24.0).view(2, 3, 4)
        y = x.to("ocl")
        parts = torch.zeros(3, 2, 3, 4)
        for body, expected in [
            (lambda: y.cpu(), x),
            (lambda: y.permute(2, 0, 1).cpu(), x.permute(2, 0, 1)),
            (lambda: parts[1].copy_(y), x),
        ]:
            result, count = copies(body)
            assert torch.equal(result, expected) and count == 1, count
        for body, expected in [
            (lambda: y.to("cpu", torch.float64), x.double()),
            (lambda: torch.zeros(4, 3, 2).permute(2, 1, 0).copy_(y), x),
            (lambda: torch.zeros(2, 3, 8)[..., ::2].copy_(y), x),
            (lambda: parts[2].copy_(y[:1].expand(2, 3, 4)), x[:1].expand(2, 3, 4)),
        ]:
            assert torch.equal(body(), expected)
        assert parts[0].eq(0).all()
        """,
    )


def test_drivers_may_grant_larger_buffers_than_they_say(tmp_path):
    code = """
        import torch
        x = torch.full((90 << 20,), 3, dtype=torch.uint8, device="ocl")
        assert x.min().item() == x.max().item() == 3
    """
    path = changed_profile(tmp_path, "nvidia_ampere", beyond_max_allocation=1, **SMALL)
    stern_output_of(path, code)


@pytest.mark.parametrize(
    "profile, grants, variables",
    [
        ("nvidia_ampere", 0, {}),
        ("nvidia_ampere", 1, {"OCL_MAX_BUFFER_MB": 64}),  # the user's limit
        ("intel_arc", 1, {}),  # kernels would compute wrong results
    ],
)
def test_a_buffer_that_is_too_large(tmp_path, profile, grants, variables):
    path = changed_profile(tmp_path, profile, beyond_max_allocation=grants, **SMALL)
    printed = stern_output_of(
        path,
        """
        import torch
        try:
            torch.zeros(90 << 20, dtype=torch.uint8, device="ocl")
        except torch.OutOfMemoryError as error:
            print(error)
        """,
        **variables,
    )
    assert "cannot allocate 90.00 MiB on ocl:0: the largest single buffer is 64.00 MiB" in printed
    assert "OCL_MAX_BUFFER_MB" in printed
