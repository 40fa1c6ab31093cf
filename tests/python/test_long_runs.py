"""What a process holds does not grow."""

import torch
import torch._functorch.config
import torch._inductor.config
from torch._inductor.utils import clear_caches

from torch_ocl import _C


def test_a_function_that_is_compiled_again_has_its_kernels(device, fresh_compiler):
    """What a kernel's first launch makes lasts as long as the process."""
    x, counts = torch.ones(4, 16, device=device), []
    no_caches = {"force_disable_caches": False, "fx_graph_cache": False}
    with (
        torch._inductor.config.patch(no_caches),
        torch._functorch.config.patch(enable_autograd_cache=False),
    ):
        for _ in range(3):
            torch._dynamo.reset()
            clear_caches()
            assert torch.compile(lambda x: (x.sin() * 2).sum(), fullgraph=True)(x) > 0
            counts.append(_C.kernel_objects())
    assert counts[0] == counts[1] == counts[2]
