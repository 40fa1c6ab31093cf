"""Runs a script as `python` does, and makes its libraries choose ocl (torch_ocl.integrations).

python -m torch_ocl.run script.py --its arguments
python -m torch_ocl.run -m package.module --its arguments
torchrun --nproc-per-node=2 -m torch_ocl.run script.py --its arguments

With --cuda before the script, the word "cuda" means ocl instead (docs/as_cuda.md): for scripts that
know only CUDA.

python -m torch_ocl.run --cuda script.py --its arguments
"""

import os
import pathlib
import runpy
import sys


def _prepare(word_is_cuda: bool) -> None:
    """Changes this process, and through the environment those that the script starts."""
    from torch_ocl import as_cuda, integrations
    from torch_ocl.integrations import unused

    if word_is_cuda:
        try:
            as_cuda.install()
        except RuntimeError as error:
            sys.exit(f"torch_ocl.run --cuda: {error}")
    else:
        os.environ["OCL_INTEGRATIONS"] = "1"
        integrations.enable()
    unused.warn_at_exit()


def main(arguments: list[str]) -> None:
    as_cuda = arguments[:1] == ["--cuda"]
    arguments = arguments[as_cuda:]
    if not arguments or arguments[0] in ("-h", "--help") or arguments == ["-m"]:
        print(__doc__)
        raise SystemExit(0 if arguments and arguments[0] != "-m" else 2)
    _prepare(as_cuda)
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        sys.path[0] = str(pathlib.Path(arguments[0]).resolve().parent)
        runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
