"""The folders in which drivers keep compiled kernels."""

import atexit
import os
import pathlib
import shutil
import tempfile


def _home() -> pathlib.Path | None:
    import pwd

    try:
        home = pathlib.Path(pwd.getpwuid(os.geteuid()).pw_dir)
    except KeyError:
        return None
    return home if home.is_absolute() and os.access(home, os.W_OK) else None


def keep_pocl_out_of_tmp() -> None:
    """Without these variables PoCL runs files from /tmp/pocl, a folder that any user can create."""
    if os.name == "nt" or any(
        os.environ.get(name) for name in ("POCL_CACHE_DIR", "XDG_CACHE_HOME", "HOME")
    ):
        return
    if home := _home():
        os.environ["POCL_CACHE_DIR"] = str(home / ".cache" / "pocl" / "kcache")
        return
    # A folder for this process: no other user can write there, and it is deleted at the end.
    folder, owner = tempfile.mkdtemp(prefix="torch_ocl_pocl_"), os.getpid()
    os.environ["POCL_CACHE_DIR"] = folder
    atexit.register(lambda: os.getpid() == owner and shutil.rmtree(folder, ignore_errors=True))
