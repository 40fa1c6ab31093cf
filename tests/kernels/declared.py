"""Names of the kernels in the sources of kernels/, and the families that have them."""

import pathlib
import re

KERNELS = pathlib.Path(__file__).resolve().parents[2] / "kernels"
FAMILIES = ("gpu", "cpu")
OTHER = {"gpu": "cpu", "cpu": "gpu"}
CPU_FOLDERS = {"channels_last"}
MACRO = re.compile(r"^ *#define (\w+)(?:[^\n]*\\\n)*[^\n]*__kernel", re.MULTILINE)
KERNEL = (
    r"^[^#/\n]*?\b(?:__kernel|{macros})\b\s*(?:__attribute__\S+\s*[^()]*\)\)\)\s*)?(?:void\s+)?"
)


def families_of(path):
    """ "gpu" or "cpu" where the path says so, else "any"."""
    words = {word for part in path.parts for word in re.split(r"[_.]", part)}
    named = [family for family in FAMILIES if family in words]
    return named[0] if named else "cpu" if CPU_FOLDERS & set(path.parts) else "any"


def declared():
    """{(kernel, "gpu", "cpu" or "any": where it must run)}; without those whose name is the macro
    KERNEL, which each operator defines. If one family has its own form of a kernel for any family,
    the kernel must run in the other family."""
    texts = {path.relative_to(KERNELS): path.read_text() for path in KERNELS.rglob("*.cl*")}
    macros = {name for text in texts.values() for name in MACRO.findall(text)}
    pattern = KERNEL.format(macros="|".join(sorted(macros))) + r"([a-z]\w*)\s*\("
    found = set()
    for path, text in texts.items():
        found |= {(name, families_of(path)) for name in re.findall(pattern, text, re.MULTILINE)}
    own = {(name, family) for name, family in found if family != "any"}
    without_own = {
        (name, family) for name, _ in found - own for family in FAMILIES if (name, family) in own
    }
    for name, family in without_own:
        found.discard((name, "any"))
        found.add((name, OTHER[family]))
    return found
