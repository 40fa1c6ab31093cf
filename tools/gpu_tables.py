"""The table of docs/gpu_kernels.md, from the results of gpu_check.py."""

import re

BEGIN, END = "<!-- table -->", "<!-- end of table -->"
SIZES = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2}


def define(source, name):
    found = re.search(rf"^#define {name} (\w+)", source, re.M)
    return found[1] if found else None


def title(source, kernel):
    """-> (what is computed, tile), e.g. ("gemm NT f32", "128x128, 8x8")"""
    element = re.search(r"#define ELEMENT_(\w+)", source)[1]
    layout = "".join("NT"[int(define(source, f"TRANS_{x}") or 0)] for x in "AB")
    vectors = " scalar loads" if define(source, "QUADS_A") == "0" else ""
    way = layout + vectors if kernel == "gemm" else ""
    if kernel == "conv_tiles":
        way = "forward" if define(source, "IN_ORDER") == "1" else "data gradient"
    tile = "{}x{}, {}x{}".format(*(define(source, name) for name in ("TM", "TN", "WM", "WN")))
    return f"{kernel} {way} {element}".replace("  ", " "), tile


def bytes_per_flop(source):
    """Bytes of global memory: each tile reads its rows and columns once."""
    m, n = int(define(source, "TM")), int(define(source, "TN"))
    size = SIZES.get(re.search(r"#define ELEMENT_(\w+)", source)[1], 4)
    return (m + n) * size / (2 * m * n)


def cell(kernel):
    """A kernel on one target: registers (or lanes) / occupancy / share of multiply-adds."""
    if not kernel:
        return "-"
    share = "-" if kernel.fma is None else f"{100 * kernel.fma:.0f} %"
    size = f"SIMD{kernel.lanes}" if kernel.lanes else str(kernel.registers or "-")
    parts = [size] + ([str(kernel.occupancy)] if kernel.occupancy else []) + [share]
    return " / ".join(parts) + (f" spills {kernel.spill}" if kernel.spill else "")


def table(results, targets):
    rows = {}
    for target in targets:
        for program, kernels in results[target].items():
            source = program.read_text()
            if define(source, "TM") is None:
                continue
            for kernel in kernels:
                row = rows.setdefault(title(source, kernel.name), {"source": source})
                row[target] = kernel
                row["local"] = row.get("local") or kernel.local
    yield ["kernel", "tile", "local bytes", "bytes/FLOP", *targets]
    yield ["---"] * (4 + len(targets))
    for (name, tile), row in sorted(rows.items(), key=lambda item: item[0]):
        figures = [str(row.get("local") or "-"), f"{bytes_per_flop(row['source']):.3f}"]
        yield [name, tile, *figures, *(cell(row.get(target)) for target in targets)]


def write_table(path, results, targets):
    """Replaces the part between the marks in the document."""
    lines = "\n".join("| " + " | ".join(row) + " |" for row in table(results, targets))
    before, rest = path.read_text().split(BEGIN)
    after = rest.split(END)[1]
    path.write_text(f"{before}{BEGIN}\n{lines}\n{END}{after}")
