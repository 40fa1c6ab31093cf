"""Compiles programs to PTX by clang, with libclc; the results are kept in a folder."""

import hashlib
import os
import pathlib
import re
import shlex
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
import gpu_check
from ptx import Module, Unsupported

# Inlines all functions, because the interpreter only has kernels.
INLINE = ["-Dinline=inline __attribute__((always_inline))", "-mllvm", "-inline-threshold=100000"]
# The matrix units of a target; other units belong to other vendors' GPUs.
UNITS = {"sm_75": {"sm_75"}, "sm_80": {"sm_75", "sm_80"}}


class OtherUnit(Exception):
    """The program is for a matrix unit that the target does not have."""


class Programs:
    def __init__(self, compilers, cache):
        self.compilers, self.cache = gpu_check.Compilers(compilers), cache
        self.fixed = [*INLINE, *gpu_check.CLANG, gpu_check.NVIDIA_ATOMICS.read_text()]
        self.last_key, self.last = None, {}
        cache.mkdir(parents=True, exist_ok=True)

    def missing(self):
        """The reason why nothing can be compiled, or None."""
        if not self.compilers.makes_ptx():
            return "clang-19 or libclc-19 is missing: tools/gpu_compilers.sh gets them"

    def compiled(self, source, options, target):
        """The PTX of a program. Raises Unsupported."""
        source = source.replace("#define UNIT_EMULATED 1", "#define UNIT_EMULATED 0")
        unit = gpu_check.unit_of(source)
        if unit and unit not in UNITS[target]:
            raise OtherUnit
        kept = [
            o
            for o in shlex.split(options)
            if o.startswith(("-D", "-cl-fp32", "-cl-fast", "-cl-mad"))
        ]
        key = hashlib.sha1("\0".join([source, target, *kept, *self.fixed]).encode()).hexdigest()
        path = self.cache / f"{key}.{target}.ptx"
        if not path.exists():
            program = self.cache / f"{key}.{target}.{os.getpid()}.cl"
            program.write_text(source)
            unfinished = path.with_suffix(f".{os.getpid()}")
            try:
                self.compilers.make_ptx(program, target, unfinished, [*kept, *INLINE])
            except gpu_check.CompileError as error:
                text = re.search(r"error: .*", str(error))
                raise Unsupported(f"does not compile: {text[0] if text else error}") from error
            finally:
                program.unlink()
            unfinished.rename(path)
        return path.read_text()

    def kernel(self, source, options, target, name):
        """A kernel of a program. Raises Unsupported."""
        key = source, options, target
        if key != self.last_key:  # launches of a program follow each other
            self.last_key, self.last = key, Module(self.compiled(*key)).kernels
        return self.last[name]
