"""Memory and several streams, on the stern device: commands of other streams run early or late."""

import pytest
from stern import stern_output_of


def test_other_streams_see_what_a_blocking_copy_wrote():
    """OpenCL lets a blocking write return before it has run."""
    stern_output_of(
        "nvidia_ampere",
        """
        import torch

        side = torch.ocl.Stream()
        for i in range(20):
            host = torch.full((2, 3, 4, 5), float(i))
            copies = [
                host.to("ocl"),
                host.to(memory_format=torch.channels_last).to("ocl"),
                torch.empty(5, 4, 3, 2, device="ocl").permute(3, 2, 1, 0).copy_(host),
            ]
            with torch.ocl.stream(side):
                for x in copies:
                    assert (x + 1).cpu().eq(i + 1).all(), i
        """,
    )


BEGIN = """
    import torch

    side = torch.ocl.Stream()
    busy = torch.ones(300, 300, device="ocl")
    for i in range(20):
        x = torch.full((4096,), float(i), device="ocl")
        side.wait_stream(torch.ocl.current_stream())
"""
COPIES = {
    "lazy clone": """
        y = torch._lazy_clone(x)
        with torch.ocl.stream(side):
            busy = busy @ busy
            y.add_(1)
        del x
        torch.full_like(y, 99)
        torch.ocl.current_stream().synchronize()
        side.synchronize()
        assert y.cpu().eq(i + 1).all(), i
    """,
    "resize": """
        with torch.ocl.stream(side):
            busy = busy @ busy
            x.resize_(8192)
        torch.full_like(x[:4096], 99)
        torch.ocl.current_stream().synchronize()
        side.synchronize()
        assert x[:4096].cpu().eq(i).all(), i
    """,
    "a part of pinned memory": """
        pinned = torch.full((4096,), float(i)).pin_memory()
        part = torch.from_numpy(pinned.numpy()[1024:])
        busy = busy @ busy
        x[:3072].copy_(part, non_blocking=True)
        del pinned, part
        torch.full((4096,), 99.0).pin_memory()
        assert x[:3072].cpu().eq(i).all(), i
    """,
}


@pytest.mark.parametrize("copy", COPIES)
def test_memory_that_a_copy_reads_is_not_used_again(copy):
    stern_output_of("nvidia_ampere", BEGIN + COPIES[copy])
