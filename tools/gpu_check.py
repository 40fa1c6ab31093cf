"""Compiles kernels with GPU compilers, without the GPUs, and prints their costs: registers, spills.

usage: gpu_check.py PROGRAMS [--compilers FOLDER] [--targets gfx803,sm_75,skl] [--units]
                    [--json FILE] [--markdown FILE]

PROGRAMS is a folder of specialised programs, as OCL_DUMP_DIR writes them; --compilers the folder
that gpu_compilers.sh has filled. Exits with 1 when a program does not compile, or when a kernel of
those that the time goes into (HOT) spills registers to memory. A target whose compiler is missing
is reported as absent, never as passed.

AMD: vector registers, scratch bytes, waves per SIMD. NVIDIA: registers, spill bytes, and the warps
that registers and local memory leave room for. Intel: what the compiler warns of having spilled.
Where there is a loop with multiply-adds: their share of its instructions (gpu_assembly.py), of
NVIDIA by nvdisasm, or, where that is missing, from PTX, which ptxas still makes shorter.

A program with a matrix unit, which gpu_units.py makes, is compiled for the targets that have it,
and must have its instructions.

--json writes all of it; --markdown puts a table of the programs with tiles (the define TM) between
the marks of a document.
"""

import argparse
import collections
import concurrent.futures
import dataclasses
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from gpu_assembly import fma_share, lanes
from gpu_tables import write_table

AMD = {"gfx803": "polaris10"}  # target: its name in libclc, if that differs
AMD |= {x: x for x in ("gfx900", "gfx1030", "gfx1100", "gfx1200", "gfx90a", "gfx942")}
NVIDIA = ["sm_75", "sm_86", "sm_90"]  # Turing, Ampere, Hopper
INTEL = ["skl", "dg2"]  # Gen9, Arc
DEFAULT = ["gfx803", "gfx1030", "gfx1100", *NVIDIA, *INTEL]
# The matrix units of targets (docs/matrix_units.md), and their instructions. Only programs with
# units are compiled for targets that are not in DEFAULT.
UNITS = {"sm_75": "sm_75", "sm_86": "sm_80", "sm_90": "sm_80", "gfx1100": "gfx11"}
UNITS |= {"gfx1200": "gfx12", "gfx90a": "gfx90a", "gfx942": "gfx942"}
OF_UNIT = re.compile(r"\bv_(?:wmma|mfma)_\w+|\bmma\.sync\.\S+")
# Features that some programs need and some targets lack: the compiler's message for each.
LACKS = {
    "float64": (["dg2"], r"cl_khr_fp64|\bdouble\d*\b|convert_double"),
}
HOT = re.compile(r"(conv|gemm|gemv|norm|packed_linear|reduce|sdpa|softmax)")
# NVIDIA's compiler accepts `asm`; clang needs an option for it.
CLANG = ["clang-19", "-x", "cl", "-cl-std=CL1.2", "-O3", "-nogpulib", "-w", "-fgnu-keywords"]
NVIDIA_ATOMICS = pathlib.Path(__file__).parent / "nvidia_atomics.clh"
NVIDIA_REGISTERS, NVIDIA_WARPS = 65536, {"sm_75": 32, "sm_86": 48, "sm_90": 64}
NVIDIA_LOCAL = {"sm_75": 65536, "sm_86": 102400, "sm_90": 233472}


@dataclasses.dataclass
class Kernel:
    name: str
    spill: int
    registers: int | None = None
    occupancy: int | None = None  # waves of a SIMD, warps of a multiprocessor
    local: int | None = None  # bytes
    fma: float | None = None  # share of multiply-adds in the hottest loop
    lanes: int | None = None  # work-items of an instruction, where the compiler chooses


class CompileError(Exception):
    pass


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    output = done.stdout + done.stderr
    if done.returncode:
        raise CompileError(output.strip())
    return output


def lacked(error, target):
    """The feature that the program needs and the target lacks; None if the program itself is
    wrong."""
    for name, (targets, pattern) in LACKS.items():
        if target in targets and re.search(pattern, error):
            return name


def built_for(source, target):
    """The program for the target: with the matrix unit instead of its emulation, and with the
    defines of sdpa.cpp for Quirk::kFewRegisters, which Intel's GPUs have."""
    source = source.replace("#define UNIT_EMULATED 1", "#define UNIT_EMULATED 0")
    d, dv, rows = (number(rf"#define {x} (\d+)", source) for x in ("D", "DV", "RM"))
    if target not in INTEL or not (d and dv and rows):
        return source
    dropout, bias = (f"#define {x}" in source for x in ("DROPOUT", "HAS_BIAS"))
    sums = max(d, dv) * (2 if "#define KEYS_IN_ROWS" in source else 1)
    rows = 4 if sums <= 128 and min(d, dv) >= 32 and not dropout else 2
    source = re.sub(r"#define RM \d+", f"#define RM {rows}", source, count=1)
    if dropout or bias or max(d, dv) > 128:
        source = source.replace("#define QUADS 1", "#define QUADS 0", 1)
    return "#define FEW_REGISTERS 1\n" + source


def unit_of(source):
    """The matrix unit of the program, or None."""
    found = re.search(r"#define UNIT_((?:sm|gfx|intel)\w+) 1", source)
    return found[1] if found else None


def check_unit(source, assembly):
    """Raises CompileError if a program with a matrix unit has none of its instructions."""
    if unit_of(source) and not OF_UNIT.search(assembly):
        raise CompileError("there is no instruction of the matrix unit")


def is_used(source, target):
    """Whether the program is for the target. Programs with a matrix unit are for targets that have
    it. Intel's GPUs do not get the tiles that gemm_gpu.cpp excludes by Quirk::kFewRegisters."""
    if unit := unit_of(source):
        return UNITS.get(target) == unit
    if target in UNITS and target not in DEFAULT:
        return False
    names = ("TM", "TN", "TK", "WM", "WN")
    m, n, k, item_m, item_n = (number(rf"#define {x} (\d+)", source) for x in names)
    if target not in INTEL or not m:
        return True
    few_sums, items = item_m * item_n <= 32, m // item_m * (n // item_n)
    convolution = "#define WEIGHT_TILES" in source
    costly = "#define ACTIVATION_IS_COSTLY" in source
    by_element = re.search(r"#define QUADS_[AB] 0", source)
    adds = by_element and re.search(r"#define HAS_(C|RESIDUAL) 1", source)
    holds_more = convolution or adds
    return max(m, n) * k <= 8 * items and not costly and (few_sums or not holds_more)


def trips(source):
    """Iterations of a tile's innermost loop."""
    depth, unroll = (number(rf"#define {name} (\d+)", source) for name in ("TK", "UNROLL"))
    return depth // unroll if depth and unroll else 1


def linked(library):
    return ["-Xclang", "-mlink-builtin-bitcode", "-Xclang", str(library)]


def number(pattern, text):
    found = re.search(pattern, text)
    return int(found[1]) if found else None


class Compilers:
    def __init__(self, folder):
        unpacked = folder / "usr/lib/clc"
        self.clc = unpacked if unpacked.is_dir() else pathlib.Path("/usr/lib/clc")
        pip = folder / "ptxas/nvidia/cuda_nvcc/bin/ptxas"
        self.ptxas = shutil.which("ptxas") or (str(pip) if pip.exists() else None)
        fetched = folder / "nvdisasm"
        self.nvdisasm = shutil.which("nvdisasm") or (str(fetched) if fetched.exists() else None)
        # ocloc looks for a name that only the development package of libiga has.
        paths = [str(folder / "iga"), os.environ.get("LD_LIBRARY_PATH", "")]
        self.intel_environment = {**os.environ, "LD_LIBRARY_PATH": ":".join(filter(None, paths))}

    def library(self, target):
        return self.clc / (
            f"{AMD[target]}-amdgcn-mesa-mesa3d.bc" if target in AMD else "nvptx64--nvidiacl.bc"
        )

    def makes_ptx(self):
        return bool(shutil.which("clang-19") and self.library("sm_80").exists())

    def has(self, target):
        if target in INTEL:
            return shutil.which("ocloc") is not None
        clang = shutil.which("clang-19") and self.library(target).exists()
        return bool(clang and (target in AMD or self.ptxas))

    def compile(self, program, target):
        """-> [Kernel]; raises CompileError."""
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder, program.name)
            source.write_text(built_for(program.read_text(), target))
            if target in AMD:
                return self.amd(source, target, f"{folder}/kernel.s")
            if target in NVIDIA:
                return self.nvidia(source, target, f"{folder}/kernel.ptx")
            return self.intel(source, target, folder)

    def amd(self, source, target, output):
        library = linked(self.library(target))
        machine = ["-target", "amdgcn-mesa-mesa3d", f"-mcpu={target}"]
        run([*CLANG, *machine, *library, "-S", str(source), "-o", output])
        text = pathlib.Path(output).read_text()
        check_unit(source.read_text(), text)
        kernels = []
        for name in re.findall(r"^\s*\.amdgpu_hsa_kernel (\w+)", text, re.M):
            body = text.split(f"\n{name}:", 1)[1]
            code = body.split("\n.Lfunc_end", 1)[0]
            kernels.append(
                Kernel(
                    name,
                    spill=number(r"; ScratchSize: (\d+)", body),
                    registers=number(r"; NumVgprs: (\d+)", body),
                    occupancy=number(r"; Occupancy: (\d+)", body),
                    local=number(r"; LDSByteSize: (\d+)", body),
                    fma=fma_share(code, "amd", trips(source.read_text())),
                )
            )
        return kernels

    def make_ptx(self, source, target, output, options=()):
        library = linked(self.library(target))
        machine = ["-target", "nvptx64-nvidia-nvcl", "-Xclang", "-target-cpu", "-Xclang", target]
        # libclc has none of these for NVIDIA.
        machine += ["-Dget_global_offset(d)=0", "-Dget_work_dim()=3"]
        machine += ["-include", str(NVIDIA_ATOMICS)]
        atomics = "+cl_khr_int64_base_atomics,+cl_khr_int64_extended_atomics"
        machine += ["-Xclang", f"-cl-ext={atomics}"]
        run([*CLANG, *options, *machine, *library, "-S", str(source), "-o", str(output)])

    def nvidia(self, source, target, output):
        self.make_ptx(source, target, output)
        binary = f"{output}.cubin"
        log = run([self.ptxas, "-v", "-arch", target, output, "-o", binary])
        ptx = pathlib.Path(output).read_text()
        check_unit(source.read_text(), ptx)
        sass = run([self.nvdisasm, binary]) if self.nvdisasm else None
        kernels = []
        for part in log.split("Compiling entry function '")[1:]:
            name = part.split("'", 1)[0]
            registers, local = (
                number(r"Used (\d+) registers", part),
                number(r"(\d+) bytes smem", part),
            )
            kind, text = ("sass", sass) if sass else ("ptx", ptx)
            mark = f".section\t.text.{name}," if sass else f".entry {name}("
            code = text.split(mark, 1)[1].split(".section\t" if sass else ".entry ", 1)[0]
            kernels.append(
                Kernel(
                    name,
                    spill=number(r"(\d+) bytes spill stores", part),
                    registers=registers,
                    occupancy=nvidia_warps(target, registers, local or 0, ptx.split(mark, 1)[-1]),
                    local=local or 0,
                    fma=fma_share(code, kind, trips(source.read_text())),
                )
            )
        return kernels

    def intel(self, source, target, folder):
        options = ["-options", "-cl-std=CL1.2", "-out_dir", folder]
        log = run(["ocloc", "compile", "-file", str(source), "-device", target, *options])
        if "Build succeeded" not in log:
            raise CompileError(log.strip())
        # Reads names from the binary, because they are macros in some sources; finds spills in
        # warnings.
        spills = dict(re.findall(r"kernel (\w+).*?spilled around (\d+)", log))
        kernels = [Kernel(name, int(size)) for name, size in spills.items()]
        return kernels + [
            Kernel(name, 0, fma=share, lanes=width)
            for name, share, width in self.disassembled(source, target, folder)
            if name not in spills
        ] or [Kernel("", 0)]

    def disassembled(self, source, target, folder):
        """-> (kernel, share of multiply-adds, work-items of an instruction)"""
        binary = next(pathlib.Path(folder).glob("*.bin"))
        command = ["ocloc", "disasm", "-file", str(binary), "-device", target, "-dump"]
        subprocess.run(
            [*command, f"{folder}/dump"], env=self.intel_environment, capture_output=True
        )
        for path in pathlib.Path(folder, "dump").glob("*.asm"):
            name = re.sub(r"^\.text\.|_KernelHeap$", "", path.stem)
            text = path.read_text()
            yield name, fma_share(text, "intel", trips(source.read_text())), lanes(text)


def nvidia_warps(target, registers, local, ptx):
    """The warps that fit on a multiprocessor; whole work-groups if their size is fixed."""
    granted = max(8, (registers + 7) // 8 * 8)
    warps = min(NVIDIA_WARPS[target], NVIDIA_REGISTERS // (granted * 32))
    size = re.match(r"[^{]*\.reqntid (\d+)(?:, (\d+))?", ptx)
    if not size:
        return warps
    group = max(1, int(size[1]) * int(size[2] or 1) // 32)
    groups = warps // group
    return min(groups, NVIDIA_LOCAL[target] // local if local else groups) * group


def distinct(folder):
    """Programs, without duplicates that differ only in line numbers and kernel names."""
    programs = {}
    for path in sorted(folder.glob("*.cl")):
        text = re.sub(r"^#(line .*|define KERNEL .*)$", "", path.read_text(), flags=re.M)
        programs.setdefault(hashlib.sha1(text.encode()).hexdigest(), path)
    return list(programs.values())


def worst(kernels, key, choose):
    known = [kernel for _, kernel in kernels if getattr(kernel, key) is not None]
    if not known:
        return "-"
    kernel = choose(known, key=lambda kernel: getattr(kernel, key))
    value = getattr(kernel, key)
    return f"{value} {kernel.name}" if value or key != "spill" else "0"


def family(program):
    return program.stem.rsplit("_", 1)[0]


def print_table(results, targets):
    row = "{:8} {:>8} {:>7}  {:36} {:36} {}"
    print(
        row.format("target", "programs", "kernels", "most registers", "lowest occupancy", "spill")
    )
    for target in targets:
        mine = results[target]
        kernels = [(program, kernel) for program in mine for kernel in mine[program]]
        print(
            row.format(
                target,
                len(mine),
                len(kernels) if target not in INTEL else "-",
                worst(kernels, "registers", max),
                worst(kernels, "occupancy", min),
                worst(kernels, "spill", max),
            )
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("programs", type=pathlib.Path)
    parser.add_argument("--compilers", type=pathlib.Path, default=pathlib.Path("build/compilers"))
    parser.add_argument("--targets", default=",".join(DEFAULT))
    parser.add_argument("--units", action="store_true", help="all targets with matrix units, too")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--markdown", type=pathlib.Path)
    arguments = parser.parse_args()

    compilers = Compilers(arguments.compilers)
    wanted = arguments.targets.split(",")
    wanted += [target for target in UNITS if arguments.units and target not in wanted]
    targets = [target for target in wanted if compilers.has(target)]
    programs = distinct(arguments.programs)
    if not programs or not targets:
        sys.exit(f"gpu check: {len(programs)} programs, {len(targets)} compilers: nothing to check")

    results, errors, lacking = collections.defaultdict(dict), [], collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        jobs = {
            pool.submit(compilers.compile, program, target): (program, target)
            for program in programs
            for target in targets
            if is_used(program.read_text(), target)
        }
        for job in concurrent.futures.as_completed(jobs):
            program, target = jobs[job]
            try:
                results[target][program] = job.result()
            except CompileError as error:
                if missing := lacked(str(error), target):
                    lacking[target, missing] += 1
                else:
                    errors.append(f"{program} does not compile for {target}:\n{str(error)[-800:]}")

    print_table(results, targets)
    spilling = collections.defaultdict(list)
    for target in targets:
        for program, kernels in results[target].items():
            for kernel in kernels:
                if kernel.spill:
                    spilling[family(program), kernel.name].append(f"{target} {kernel.spill}")
    hot = [key for key in spilling if HOT.search(key[0])]
    for (file, kernel), where in sorted(spilling.items()):
        mark = "HOT " if (file, kernel) in hot else ""
        print(f"{mark}spills: {kernel} of {file}.cl: {', '.join(where)}")
    print(*errors, sep="\n", end="\n" if errors else "")
    if not compilers.nvdisasm and set(targets) & set(NVIDIA):
        print("no nvdisasm: NVIDIA's shares of multiply-adds are counted in PTX")
    for (target, missing), count in sorted(lacking.items()):
        print(f"{target} lacks {missing}: {count} programs not compiled")
    absent = [target for target in wanted if target not in targets]
    if absent:
        print("no compiler here for:", ", ".join(absent))
    if arguments.json:
        table = {
            target: {
                p.name: [dataclasses.asdict(k) for k in kernels] for p, kernels in mine.items()
            }
            for target, mine in results.items()
        }
        arguments.json.write_text(json.dumps(table, indent=1))
    if arguments.markdown:
        write_table(arguments.markdown, results, targets)
    print(
        f"gpu check: {len(programs)} programs, {len(targets)} targets, "
        f"{len(errors)} do not compile, {len(spilling)} kernels spill, {len(hot)} of them hot"
    )
    sys.exit(bool(errors or hot))


if __name__ == "__main__":
    main()
