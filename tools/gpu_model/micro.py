"""Runs kernels of micro.cl, or of another file, in Oclgrind with the recorder; needs no device."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
KERNELS = HERE / "micro.cl"
SOURCES = HERE / "plugin"
HEADER = pathlib.Path("/usr/include/oclgrind/Plugin.h")


def missing():
    """The packages that must be installed to build the recorder, or None."""
    if not shutil.which("oclgrind-kernel"):
        return "Oclgrind is not installed: apt install oclgrind"
    if not HEADER.exists():
        return "Oclgrind's headers are not installed: apt install liboclgrind-dev"
    if not list(pathlib.Path("/usr/lib").glob("llvm-*/include/llvm/IR/Instructions.h")):
        return "LLVM's headers are not installed: apt install llvm-14-dev"
    return None


def build(folder):
    """Builds the recorder in the folder, if it is not there; returns its path."""
    quiet = {"check": True, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    try:
        subprocess.run(["cmake", "-S", SOURCES, "-B", folder, "-G", "Ninja"], **quiet)
        subprocess.run(["cmake", "--build", folder, "--parallel", "1"], **quiet)
    except subprocess.CalledProcessError as error:
        raise RuntimeError(f"cannot build {SOURCES}:\n{error.stdout}") from error
    return pathlib.Path(folder) / "libgpu_model.so"


def environment(plugin, log, groups=None, budget=None, whole=None):
    """Variables for a process whose launches are recorded in the file `log`. See plugin.cpp."""
    chosen = {"GROUPS": groups, "BUDGET": budget, "WHOLE": whole}
    inherited = {name: value for name, value in os.environ.items() if name != "OPENCL_LAYERS"}
    return {
        **inherited,
        "OCLGRIND_PLUGINS": str(plugin),
        # Optimizes as GPUs' compilers do; Oclgrind's default is small code.
        "OCLGRIND_BUILD_OPTIONS": "-O3",
        "GPU_MODEL_LOG": str(log),
        **{f"GPU_MODEL_{name}": str(value) for name, value in chosen.items() if value is not None},
    }


def read_log(path):
    """The launches of a log. Launches that did the same as an earlier one get its counts."""
    launches = []
    for line in pathlib.Path(path).read_text().splitlines():
        launch = json.loads(line)
        if "same_as" in launch:
            launch = {**launches[launch["same_as"]], **launch}
        if launch["broken"]:
            raise RuntimeError(f"the recorder does not understand {launch['kernel']}")
        launches.append(launch)
    return launches


def buffer(count, value=0):
    """An argument of run_kernel(): 4-byte integers or floats."""
    kind = "int" if isinstance(value, int) else "float"
    return f"<size={4 * count} {kind} fill={value}>"


def number(value):
    return f"<size=4 int>\n{value}"


def local_memory(size):
    return f"<size={size}>"


def run_kernel(plugin, kernel, global_size, local_size, arguments, file=KERNELS, **sampling):
    """The record of a launch of a kernel of the file. `arguments`: of buffer(), number(), ..."""
    sizes = [
        " ".join(map(str, (*size, *[1] * (3 - len(size))))) for size in (global_size, local_size)
    ]
    with tempfile.TemporaryDirectory() as folder:
        description = pathlib.Path(folder) / "kernel.sim"
        description.write_text("\n".join([str(file), kernel, *sizes, *arguments]) + "\n")
        log = pathlib.Path(folder) / "log.jsonl"
        done = subprocess.run(
            ["oclgrind-kernel", description],
            env=environment(plugin, log, **sampling),
            capture_output=True,
            text=True,
        )
        if done.returncode or done.stderr:
            raise RuntimeError(f"{kernel}: {done.stdout}{done.stderr}")
        [launch] = read_log(log)
        return launch
