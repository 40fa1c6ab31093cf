"""Kernels of CPU devices for processors without AVX-512."""

import re

import pytest
import torch
from support import output_of

PROGRAM = """
    import torch, torch.nn.functional as F
    def results(device):
        torch.manual_seed(0)
        found = []
        def leaves(*shapes):
            return [torch.randn(shape).to(device).requires_grad_() for shape in shapes]
        def add(out, of):
            found.extend(t.detach().cpu() for t in (out, *torch.autograd.grad(out.sum(), of)))
        for rows, inner in ((40, 70), (40, 1024), (8, 70), (3, 70)):
            of = leaves((rows, inner), (inner, 50))
            add((of[0] @ of[1]).sin(), of)
        convolutions = (1, 16, 64, 3, 1), (1, 16, 20, 3, 2), (8, 16, 24, 3, 1), (8, 16, 8, 5, 2)
        few = (1, 4, 8, 3, 1), (1, 3, 9, 7, 2)
        for groups, channels, rows, size, stride in (*convolutions, *few):
            for layout in (torch.contiguous_format, torch.channels_last):
                of = leaves((2, channels, 30, 31), (rows, channels // groups, size, size))
                planes = of[0].contiguous(memory_format=layout)
                add(F.conv2d(planes, of[1], None, stride, 1, 1, groups).sin(), of)
        of = leaves(*[(2, 3, 50, 40)] * 3)
        add(F.scaled_dot_product_attention(*of).sin(), of)
        return found
    for actual, expected in zip(results("ocl"), results("cpu"), strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-3, atol=1e-3)
"""
SUMS = re.compile(r"#define (MR|NV|VW|WIDTH|WEIGHT_ROWS|WEIGHT_TAPS) (\d+)")


def test_tiles_fit_the_registers_of_avx2(tmp_path, device):
    """Intel's runtime compiles for the processor that a variable names."""
    properties = torch.ocl.get_device_properties(device)
    if properties.platform != "Intel(R) OpenCL" or properties.type != "cpu":
        pytest.skip("only Intel's runtime compiles for another processor")
    output_of(
        PROGRAM,
        CL_CONFIG_CPU_TARGET_ARCH="core-avx2",
        OCL_CACHE_DIR=tmp_path / "cache",
        OCL_DUMP_DIR=tmp_path / "sources",
        OCL_KERNEL_FAMILY="cpu",
    )
    tiled = set()
    for path in (tmp_path / "sources").iterdir():
        sizes = {name: int(number) for name, number in SUMS.findall(path.read_text())}
        lanes = sizes.get("VW") or sizes.get("WIDTH", 0)
        rows = sizes.get("MR") or sizes.get("WEIGHT_ROWS", 0)
        vectors = sizes.get("WEIGHT_TAPS") if "WEIGHT_ROWS" in sizes else sizes.get("NV", 1)
        kernel = path.name.rpartition("_")[0]
        if rows and "winograd" not in kernel:  # that kernel defines its own tile
            tiled.add(kernel)
            assert rows * vectors * lanes <= 12 * 8, (kernel, sizes)
    assert {"gemm_cpu", "conv_padded", "conv_channels_last", "sdpa_cpu"} <= tiled, tiled
