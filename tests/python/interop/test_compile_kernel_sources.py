"""torch.ocl.compile_kernel: how its sources are compiled, and when a compiled one is used again."""

import struct

import pytest
import torch
from support import output_of

from torch_ocl import _C


def test_sources_that_do_not_compile(device):
    with pytest.raises(
        RuntimeError, match=r"(?s)cannot build the source given to compile_kernel.*wrong_name"
    ):
        torch.ocl.compile_kernel("__kernel void f(__global int* x) { *x = wrong_name; }")
    with pytest.raises(TypeError, match="takes source and options as str, not bytes"):
        torch.ocl.compile_kernel(b"__kernel void f() {}")
    with pytest.raises(RuntimeError, match="cannot build"):
        torch.ocl.compile_kernel("__kernel void f() {}", "-no-such-option")
    assert "without kernels" in repr(torch.ocl.compile_kernel("int f(int x) { return x; }"))


def test_options(device):
    source = "__kernel void put(__global int* x) { *x = N; }"
    x = torch.zeros(1, dtype=torch.int32, device=device)
    for n in (3, 4):
        torch.ocl.compile_kernel(source, f"-DN={n}").put(x)
        assert x.item() == n


def test_programs_are_kept_on_disk(tmp_path):
    code = """
        import torch
        from torch_ocl import _C
        source = "__kernel __attribute__((reqd_work_group_size(2, 1, 1))) " \
                 "void put(__global const int* a, __global int* x, int y) { *x = y + a[0]; }"
        x = torch.zeros(2, dtype=torch.int32).to("ocl")
        one = torch.ones(2, dtype=torch.int32).to("ocl")
        torch.ocl.synchronize()
        before = _C.program_cache_stats()
        put = torch.ocl.compile_kernel(source).put
        put(one, x, 5)
        after = _C.program_cache_stats()
        print(put, x.tolist()[0], *(after[k] - before[k] for k in ("built", "loaded")))
        try:
            put(one, x, 5, group_size=1)
        except ValueError as error:
            print("refused")
    """
    signature = "__kernel void put(__global const int* a, __global int* x, int y)"
    first, second = (output_of(code, OCL_CACHE_DIR=str(tmp_path)) for _ in range(2))
    assert first == f"{signature} 6 1 0\nrefused"
    assert second == f"{signature} 6 0 1\nrefused"


def test_the_same_source_is_compiled_once(device):
    source = "__kernel void once(__global int* x) { *x = 17; }"
    x = torch.zeros(1, dtype=torch.int32, device=device)
    torch.ocl.compile_kernel(source).once(x)
    built = _C.program_cache_stats()
    torch.ocl.compile_kernel(source).once(x)
    assert _C.program_cache_stats() == built and x.item() == 17


def test_sources_with_includes_are_read_again(device, tmp_path):
    header = tmp_path / "value.h"
    x = torch.zeros(1, dtype=torch.int32, device=device)
    for value in (1, 2):
        header.write_text(f"#define VALUE {value}\n")
        source = '#include "value.h"\n__kernel void put(__global int* x) { *x = VALUE; }'
        torch.ocl.compile_kernel(source, f"-I {tmp_path}").put(x)
        assert x.item() == value


def test_types_of_users_that_end_in_digits(device):
    library = torch.ocl.compile_kernel(
        """
        typedef struct { int a, b; } int5;
        typedef int long99999999999999999999;
        __kernel void pointer(__global int5 *x) { x[get_global_id(0)].b = 1; }
        __kernel void value(__global int *x, int5 y) { x[get_global_id(0)] = y.a + y.b; }
        __kernel void number(__global int *x, long99999999999999999999 y) {}
        """
    )
    x = torch.zeros(4, dtype=torch.int32, device=device)
    library.pointer(x, threads=2)
    assert x.tolist() == [0, 1, 0, 1]
    library.value(x, struct.pack("ii", 1, 2))
    assert x.tolist() == [3] * 4
    for kernel, number in ((library.value, (1, 2, 3, 4, 5)), (library.number, 3)):
        with pytest.raises(TypeError, match="is no number: give its bytes"):
            kernel(x, number)


def test_views_for_pointers_of_any_type(device):
    library = torch.ocl.compile_kernel(
        """
        typedef struct { float v; } Pair;
        typedef float real;
        __kernel void bytes(__global void *x) {}
        __kernel void structs(__global Pair *x) {}
        __kernel void named(__global const real *x) {}
        """
    )
    x = torch.ones(2, 3, device=device)
    for kernel in (library.bytes, library.structs, library.named):
        with pytest.raises(ValueError, match="is not contiguous"):
            kernel(x.t(), threads=1)
        kernel(x, threads=1)
