"""Writes the tables of docs/as_cuda.md: what each name of torch.cuda becomes.

usage: python tools/as_cuda_names.py docs/as_cuda.md
"""

import pathlib
import sys

from torch_ocl.as_cuda import answers, cuda_module, names

BEGIN, END = "<!-- tables -->\n", "<!-- end of tables -->"


def _list(text: str) -> str:
    return ", ".join(f"`{name}`" for name in sorted(text.split()))


def _first_line(name: str) -> str:
    """The first line of the answer's docstring."""
    text = getattr(answers, name.rsplit(".", 1)[-1]).__doc__ or ""
    return text.split("\n")[0].rstrip(".")


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def tables() -> str:
    """The tables in Markdown."""
    renamed = [f"`{ours}` for `{name}`" for name, ours in names.RENAMED.items()]
    rows = [_row("names of torch.cuda", "answer"), _row("---", "---")]
    rows.append(
        _row(
            _list(" ".join(cuda_module.shared())),
            "`torch.ocl`'s function or class of the same name",
        )
    )
    rows.append(_row(_list(" ".join(names.RENAMED)), f"`torch.ocl`'s {', '.join(renamed)}"))
    rows += [_row(f"`{name}`", _first_line(name)) for name in names.OWN.split()]
    rows += [_row(_list(group), f"PyTorch's own: {why}") for group, why in names.KEPT.items()]
    rows += [
        _row(_list(group), f"refused: ocl is a device {w}") for group, w in names.REFUSED.items()
    ]
    return "\n".join(rows) + "\n"


def main():
    page = pathlib.Path(sys.argv[1])
    head, rest = page.read_text().split(BEGIN)
    page.write_text(head + BEGIN + tables() + END + rest.split(END)[1])


if __name__ == "__main__":
    main()
