"""How long memory lives that a GPU or a reader still uses; on a device that checks it."""

import pytest
from stern import stern_output_of


def test_kernels_of_users_in_a_graph_keep_their_buffers():
    stern_output_of(
        "nvidia_ampere",
        """
        import torch

        library = torch.ocl.compile_kernel(
            "kernel void inc(global float *x) { x[get_global_id(0)] += 1; }")
        x = torch.zeros(4096, device="ocl")[1024:2048]  # not at the start of its buffer
        library.inc(x)
        graph = torch.ocl.Graph()
        with torch.ocl.graph(graph):
            library.inc(x)
        for _ in range(3):
            graph.replay()
        assert x.unique().tolist() == [4]
        """,
    )


def test_an_array_of_a_host_view_keeps_its_copy():
    stern_output_of(
        "apple_opencl12",
        """
        import torch

        x = torch.arange(1000.0, device="ocl")
        with torch.ocl.host_view(x) as array:
            kept = array
        torch.ocl.synchronize()
        others = [torch.empty(1000, pin_memory=True).fill_(-1) for _ in range(3)]
        assert kept.tolist() == list(range(1000))
        """,
    )


@pytest.mark.parametrize("profile", ["intel_gen9", "nvidia_ampere"])
def test_results_of_the_cpu_are_copied_back_without_autograd(profile):
    stern_output_of(
        profile,
        """
        import torch

        library = torch.library.Library("test", "DEF")
        library.define("fill(Tensor(a!) x) -> ()")

        def fill(x):
            with torch.no_grad():
                x.fill_(3)

        library.impl("fill", fill, "CPU")
        for gap in (1, 2):
            leaf = torch.zeros(4, gap, device="ocl", requires_grad=True)
            with torch.no_grad():
                view = leaf[:, 0]
            torch.ops.test.fill(leaf[:, 0])
            assert leaf.detach()[:, 0].tolist() == [3] * 4
        """,
        OCL_FALLBACK="allow",
    )
