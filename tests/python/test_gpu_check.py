"""tools/gpu_check.py, which compiles dumped programs with the compilers of GPUs."""

import gpu_check
from support import output_of


def test_programs_that_intels_gpus_do_not_take(tmp_path):
    """The defines that it reads are those of the programs."""
    code = """
        import torch
        a, b = (torch.ones(128, 128, device="ocl") for _ in range(2))
        torch._addmm_activation(a[0], a, b, use_gelu=USE_GELU)
        print(torch.ocl.get_device_properties(0).kernel_family)
    """
    used = []
    for use_gelu in (False, True):
        folder = tmp_path / str(use_gelu)
        variables = {"OCL_DUMP_DIR": str(folder), "OCL_CACHE_DIR": "off", "OCL_CLBLAST": "0"}
        tile = {"OCL_KERNEL_FAMILY": "gpu", "OCL_GEMM_TILE": "0"}
        output_of(code.replace("USE_GELU", str(use_gelu)), **variables, **tile)
        sources = [path.read_text() for path in gpu_check.distinct(folder)]
        tiles = [source for source in sources if "#define TM " in source]
        assert tiles and all(gpu_check.is_used(source, "gfx1030") for source in tiles)
        used.append(all(gpu_check.is_used(source, "skl") for source in tiles))
    assert used == [True, False]
