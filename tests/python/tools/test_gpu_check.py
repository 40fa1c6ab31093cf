"""tools/gpu_check.py, which compiles dumped programs with the compilers of GPUs."""

import gpu_check
from stern import stern_output_of
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
        variables = {"OCL_DUMP_DIR": str(folder), "OCL_CACHE_DIR": "off"}
        tile = {"OCL_KERNEL_FAMILY": "gpu", "OCL_GEMM_TILE": "0"}
        output_of(code.replace("USE_GELU", str(use_gelu)), **variables, **tile)
        sources = [path.read_text() for path in gpu_check.distinct(folder)]
        tiles = [source for source in sources if "#define TM " in source]
        assert tiles and all(gpu_check.is_used(source, "gfx1030") for source in tiles)
        used.append(all(gpu_check.is_used(source, "skl") for source in tiles))
    assert used == [True, False]


def test_products_that_load_single_elements_and_add(tmp_path):
    """The largest tile is asked for, but its kernel would spill on Intel's GPUs."""
    code = """
        import torch
        start, a, b = torch.randn(3, 63, 63)
        for c in (start, start[0]):
            found = torch.addmm(*(t.to("ocl") for t in (c, a, b)))
            torch.testing.assert_close(found.cpu(), torch.addmm(c, a, b), rtol=1e-4, atol=1e-4)
    """
    variables = {"OCL_DUMP_DIR": str(tmp_path), "OCL_CACHE_DIR": "off"}
    stern_output_of("intel_gen9", code, OCL_GEMM_TILE="0", **variables)
    tiles = [source for path in tmp_path.glob("gemm_gpu*.cl") if (source := path.read_text())]
    assert tiles and all(gpu_check.is_used(source, "skl") for source in tiles)


def test_attention_is_compiled_as_it_is_built(tmp_path):
    """Of a device with many registers; for Intel's GPUs as a device with few builds it."""
    code = """
        import torch
        import torch.nn.functional as F
        for size, dropout in ((64, 0), (128, 0), (64, 0.5)):
            x = [torch.randn(1, 1, 8, size, device="ocl", requires_grad=True) for _ in range(3)]
            F.scaled_dot_product_attention(*x, None, dropout).sum().backward()
    """
    defines = {}
    for profile in ("nvidia_ampere", "intel_gen9"):
        folder = tmp_path / profile
        stern_output_of(profile, code, OCL_DUMP_DIR=str(folder), OCL_CACHE_DIR="off")
        programs = [path.read_text() for path in folder.glob("sdpa_gpu*.cl")]
        names = ("D", "RM", "QUADS", "FEW_REGISTERS", "KEYS_IN_ROWS", "FORWARD", "DROPOUT")
        defines[profile] = {
            tuple(gpu_check.number(rf"#define {name} (\d+)", text) for name in names)
            for text in (gpu_check.built_for(program, "skl") for program in programs)
        }
    few = defines["intel_gen9"]
    assert few and few <= defines["nvidia_ampere"], few - defines["nvidia_ampere"]
