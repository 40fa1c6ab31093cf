"""Names of the kernels in the sources of kernels/."""

import pathlib
import re

KERNELS = pathlib.Path(__file__).resolve().parents[2] / "kernels"
MACRO = re.compile(r"^ *#define (\w+)(?:[^\n]*\\\n)*[^\n]*__kernel", re.MULTILINE)
KERNEL = (
    r"^[^#/\n]*?\b(?:__kernel|{macros})\b\s*(?:__attribute__\S+\s*[^()]*\)\)\)\s*)?(?:void\s+)?"
)


def declared():
    """{kernel: files with it}; not those whose name is the macro KERNEL, of which each operator
    makes one."""
    found = {}
    for path in sorted(KERNELS.rglob("*.cl*")):
        text = path.read_text()
        pattern = KERNEL.format(macros="|".join(MACRO.findall(text)) or "__kernel")
        for name in re.findall(pattern + r"([a-z]\w*)\s*\(", text, re.MULTILINE):
            found.setdefault(name, []).append(path.name)
    return found
