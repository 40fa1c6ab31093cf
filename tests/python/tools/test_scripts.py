"""Programs of tests/ and tools/ find the modules that they import, without pytest's path."""

from support import ROOT, output_of

# Reasons why a program is not imported.
LEFT_OUT = {
    "kernels/codegen/generate.py": "reads its arguments when it is imported; the build runs it",
    "tests/bench/diffusion.py": "needs diffusers, which make bench installs",
}
IMPORT_EACH = """
    import os, pathlib, runpy, sys
    import torch._inductor.compile_fx, torch.testing._internal.common_methods_invocations  # once
    path = [folder for folder in sys.path if folder]
    failed = 0
    for script in os.environ["PROGRAMS"].split():
        child = os.fork()
        if not child:
            sys.path[:], sys.argv[:] = [os.path.dirname(script), *path], [script]
            try:
                runpy.run_path(script, run_name="not main")
            except BaseException as error:
                print(f"{script}: {error!r}", flush=True)
                os._exit(1)
            os._exit(0)
        failed += os.waitpid(child, 0)[1] != 0
    print(failed, "failed")
"""


def is_program(file):
    is_test = file.name.startswith("test_")
    return not is_test and 'if __name__ == "__main__"' in file.read_text()


def test_programs_find_their_modules():
    folders = [ROOT / "kernels/codegen", ROOT / "tests", ROOT / "tools"]
    files = filter(is_program, (file for folder in folders for file in folder.rglob("*.py")))
    names = {str(file.relative_to(ROOT)) for file in files}
    assert set(LEFT_OUT) < names
    paths = [str(ROOT / name) for name in sorted(names - set(LEFT_OUT))]
    assert output_of(IMPORT_EACH, PROGRAMS="\n".join(paths)) == "0 failed"
