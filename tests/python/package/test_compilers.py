"""The options that compilers get in addition to a source, and their messages."""

import ctypes

import pytest
import torch
from support import run_python

from torch_ocl import _C

WITH_A_WARNING = "__kernel void put(__global float* x) { if (x[0]) ; x[0] = 1; }"


@pytest.fixture
def warnings_of_the_compiler(device):
    """Skips where the driver itself builds a program with a warning in spite of -Werror."""
    opencl = ctypes.CDLL("libOpenCL.so.1")
    opencl.clCreateProgramWithSource.restype = ctypes.c_void_p
    context, source = ctypes.c_void_p(torch.ocl.context()), ctypes.c_char_p(WITH_A_WARNING.encode())
    code = ctypes.c_int()
    program = ctypes.c_void_p(
        opencl.clCreateProgramWithSource(context, 1, ctypes.byref(source), None, ctypes.byref(code))
    )
    assert code.value == 0
    built = opencl.clBuildProgram(program, 0, None, b"-Werror", None, None) == 0
    opencl.clReleaseProgram(program)
    if built:
        # NVIDIA's has none, nor has PoCL's after a #line, which the stern device writes.
        pytest.skip("the driver's compiler has no warnings: it builds with -Werror")


@pytest.mark.parametrize(
    "directive",
    [
        '# include "value.h"',
        '#\tinclude "value.h"',
        '  #include "value.h"',
        '/* a\n comment */ # /* b */ include "value.h"',
        '#\\\n inc\\\nlude "value.h"',
        '#if 0\n don\'t\n#endif\n#include "value.h"',
    ],
)
def test_every_spelling_of_an_include_is_seen(device, tmp_path, directive):
    for value in (3, 4):
        (tmp_path / "value.h").write_text(f"#define VALUE {value}\n")
        source = f"{directive}\n__kernel void put(__global int* x) {{ *x = VALUE; }}"
        library = torch.ocl.compile_kernel(source, f"-I {tmp_path}")
        x = torch.zeros(1, dtype=torch.int32, device=device)
        library.put(x)
        assert x.item() == value


@pytest.mark.parametrize(
    "text",
    [
        '// #include "x.h"',
        '/*\n#include "x.h"\n*/',
        '// a \\\n#include "x.h"',
        '#define TEXT "\\\n#include <x.h>"',
        "#define QUOTE '\\''\n// #include",
    ],
)
def test_what_is_no_include_is_built_once(device, text):
    source = f"{text}\n__kernel void none(__global int* x) {{ *x = 1; }}"
    torch.ocl.compile_kernel(source)
    before = _C.program_cache_stats()
    torch.ocl.compile_kernel(source)
    assert _C.program_cache_stats() == before


CHATTY = """
    import torch
    source = "__kernel void put(__global float* x) { float y; if (x[0]) ; x[0] = y; }"
    torch.ocl.compile_kernel(source).put(torch.ones(1, device="ocl"))
    x = torch.randn(9, 9, device="ocl")
    (x @ x).softmax(-1).sum().item()
"""


def test_compilers_say_nothing_of_programs_that_build(device):
    quiet = run_python(CHATTY, OCL_CACHE_DIR="off", OCL_BUILD_LOG=None)
    assert (quiet.returncode, quiet.stderr) == (0, "")


def test_build_logs_are_shown_on_demand(warnings_of_the_compiler, tmp_path):
    for _ in range(2):  # also where the programs are stored
        told = run_python(CHATTY, OCL_CACHE_DIR=str(tmp_path), OCL_BUILD_LOG="1")
        assert told.returncode == 0, told.stderr
        assert "the source given to compile_kernel [" in told.stderr
        assert "if statement has empty body" in told.stderr


def test_warnings_can_be_errors(warnings_of_the_compiler):
    torch.ocl.compile_kernel(WITH_A_WARNING)
    with pytest.raises(RuntimeError, match="empty body"):
        torch.ocl.compile_kernel(WITH_A_WARNING, "-Werror")


def test_options_of_all_programs(device, tmp_path):
    """They are part of what programs are stored under, and a wrong one is named."""
    count = """
        import torch
        from torch_ocl import _C
        x = torch.ones(3, device="ocl").atanh().sum().item()
        print(_C.program_cache_stats()["built"] > 0)
    """
    cache = {"OCL_CACHE_DIR": str(tmp_path)}
    for options, built in ((None, "True"), ("-cl-opt-disable", "True"), (None, "False")):
        run = run_python(count, OCL_BUILD_OPTIONS=options, **cache)
        assert run.stdout.split() == [built], run.stderr
    wrong = run_python(count, OCL_BUILD_OPTIONS="-no-such-option")
    assert wrong.returncode != 0 and "-no-such-option" in wrong.stderr
