"""Runs a command with one OpenCL runtime visible, whatever else the system has.

usage: with_runtime.py pocl|intel|intel-avx2|both|rusticl|oclgrind|stern COMMAND...
       with_runtime.py --write        only writes .runtimes/NAME/*.icd for the runtimes found here

intel-avx2 is Intel's runtime, and PyTorch's CPU path, on a processor without AVX-512.
stern is PoCL with a layer that behaves as a GPU; STERN_PROFILE says which (docs/stern.md). With
STERN_RUNTIME=intel it is Intel's runtime with the layer, which compiles several times faster. Under
oclgrind, the command fails when a kernel reads or writes out of bounds or has a data race.
"""

import importlib.metadata
import os
import pathlib
import subprocess
import sys
import threading

ROOT = pathlib.Path(__file__).resolve().parents[1]
RUNTIMES = ROOT / ".runtimes"
STERN_LAYER = ROOT / "build" / "libstern_layer.so"
LIBRARIES = [pathlib.Path(name) for name in ("/usr/lib", "/usr/lib64", "/usr/local/lib")]
INSTALL = {
    "pocl": "apt install pocl-opencl-icd",
    "intel": "make intel-runtime",
    "intel-avx2": "make intel-runtime",
    "rusticl": "apt install mesa-opencl-icd",
    "oclgrind": "apt install oclgrind",
    "stern": "make build, and apt install pocl-opencl-icd or make intel-runtime",
}

# The variables that disable AVX-512 in Intel's runtime, PyTorch's kernels, oneDNN and MKL.
AVX2 = {
    "CL_CONFIG_CPU_TARGET_ARCH": "core-avx2",
    "ATEN_CPU_CAPABILITY": "avx2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
}


def intel_library():
    try:
        files = importlib.metadata.files("intel-opencl-rt")
    except importlib.metadata.PackageNotFoundError:
        return None
    found = [file.locate().resolve() for file in files if file.name == "libintelocl.so"]
    return str(found[0]) if found else None


def system_library(name):
    """The library that a system package registered; removed packages may leave the .icd file."""
    icd = pathlib.Path("/etc/OpenCL/vendors") / f"{name}.icd"
    library = icd.read_text().strip() if icd.exists() else None
    if library and any(any(folder.glob(f"**/{library}*")) for folder in LIBRARIES):
        return library
    return None


def stern_uses_intel():
    chosen = os.environ.get("STERN_RUNTIME", "pocl")
    if chosen not in ("pocl", "intel"):
        sys.exit(f"STERN_RUNTIME is {chosen}, and can be pocl or intel")
    return chosen == "intel"


def runtime_of_stern():
    return intel_library() if stern_uses_intel() else system_library("pocl")


def libraries():
    """{runtime: its library, or None where it is not installed}"""
    oclgrind = pathlib.Path("/usr/lib/oclgrind/liboclgrind-rt-icd.so")
    return {
        "pocl": system_library("pocl"),
        "intel": intel_library(),
        "intel-avx2": intel_library(),
        "rusticl": system_library("rusticl"),
        "oclgrind": str(oclgrind) if oclgrind.exists() else None,
        "stern": runtime_of_stern() if STERN_LAYER.exists() else None,
    }


def write_folders(found):
    groups = {name: [name] for name in found} | {"both": ["pocl", "intel"]}
    for group, names in groups.items():
        if not all(found[name] for name in names):
            continue
        folder = RUNTIMES / group
        folder.mkdir(parents=True, exist_ok=True)
        for name in names:
            icd = folder / f"{name}.icd"
            text = found[name] + "\n"
            if not icd.exists() or icd.read_text() != text:
                icd.write_text(text)


def environment(runtime, found):
    visible = "intel" if runtime == "stern" and stern_uses_intel() else runtime
    result = {**os.environ, "OCL_ICD_VENDORS": str(RUNTIMES / visible)}
    result.pop("OCL_ICD_FILENAMES", None)  # Khronos's loader would add these drivers
    result.setdefault("OCL_AUTOLOAD", "1")  # even if PyTorch has a GPU of its own
    # Not for stern, because the loader next to Intel's runtime does not support layers.
    if runtime in ("intel", "intel-avx2", "both"):
        folders = [str(pathlib.Path(found["intel"]).parent), os.environ.get("LD_LIBRARY_PATH")]
        result["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, folders))
    if runtime == "intel-avx2":
        result.update(AVX2)
    if runtime == "rusticl":
        result["RUSTICL_ENABLE"] = "llvmpipe"
    if runtime == "oclgrind":
        # Oclgrind checks the bounds of buffers, so each tensor gets its own buffer.
        result.setdefault("OCL_MEMORY_CACHING", "0")
    if runtime == "stern":
        result["OPENCL_LAYERS"] = str(STERN_LAYER)
        # Each profile has its own cache, because programs for one profile are wrong for another.
        profile = pathlib.Path(result.setdefault("STERN_PROFILE", "smallest")).stem
        order = result.get("STERN_ORDER", "forward")
        order += result.get("STERN_SEED", "0") if order == "random" else ""
        name = f"{profile}_{order}" + ("_intel" if stern_uses_intel() else "")
        cache = RUNTIMES / "stern_cache" / name
        result.setdefault("OCL_CACHE_DIR", str(cache))
        # PoCL's compiler then takes half the time. Other runtimes test optimized code.
        result.setdefault("OCL_BUILD_OPTIONS", "-cl-opt-disable")
    return result


def run_oclgrind(command, variables):
    """All processes of the command report into one pipe, which they open in /proc."""
    read_end, write_end = os.pipe()
    variables["OCLGRIND_DATA_RACES"] = "1"
    variables["OCLGRIND_LOG"] = f"/proc/{os.getpid()}/fd/{write_end}"
    reports = []

    def collect():
        for line in os.fdopen(read_end):
            reports.append(line)
            sys.stderr.write(line)

    reader = threading.Thread(target=collect)
    reader.start()
    code = subprocess.call(command, env=variables)
    os.close(write_end)
    reader.join()
    if any(line.strip() for line in reports):
        print("oclgrind found errors in kernels, see above", file=sys.stderr)
        return code or 1
    return code


def main():
    found = libraries()
    write_folders(found)
    if sys.argv[1:] == ["--write"]:
        return
    if len(sys.argv) < 3 or sys.argv[1] not in [*INSTALL, "both"]:
        sys.exit(__doc__)
    runtime, command = sys.argv[1], sys.argv[2:]
    for name in ["pocl", "intel"] if runtime == "both" else [runtime]:
        if not found[name]:
            sys.exit(f"The OpenCL runtime {name} is not installed: {INSTALL[name]}")
    variables = environment(runtime, found)
    if runtime == "oclgrind":
        sys.exit(run_oclgrind(command, variables))
    os.execvpe(command[0], command, variables)


main()
