"""The folder in which PoCL keeps compiled kernels. PoCL runs whatever it finds there."""

import atexit
import os
import pathlib
import re
import shutil
import stat
import tempfile
import warnings
from multiprocessing import util

# The name contains the process that made the folder, and that deletes it.
_TEMPORARY = "torch_ocl_pocl_{}_"
_temporary_folders = {}  # keyed by process
# A path where no folder can be made. Otherwise PoCL would use /tmp/pocl, even if another user has
# made it.
_NOWHERE = "/dev/null/pocl"


def _listed_home() -> str:
    """The home folder in the system's list of users; empty where there is none."""
    import pwd

    try:
        return pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:
        return ""


def _others_can_change(folder: pathlib.Path, may_sticky: bool) -> bool:
    """Whether other users than root can change what is in the folder.

    This user's main group does not count, because many systems let it write to new folders. If
    `sticky` is allowed, neither do folders like /tmp, in which users can only replace their own
    files.
    """
    found = folder.stat()
    writers = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    # If a container does not know root, root's files have another owner's number.
    root = pathlib.Path("/").stat().st_uid
    if found.st_uid not in (0, root, os.geteuid()):
        return True
    if may_sticky and found.st_mode & stat.S_ISVTX:
        return False
    if found.st_gid == os.getegid():
        writers &= stat.S_IWOTH
    return writers != 0


def _is_private(cache: pathlib.Path) -> bool:
    """Whether PoCL can keep kernels in `cache`, and no other user can change them.

    Creates the folder, because in a folder like /tmp anybody else could create it.
    """
    try:
        cache.mkdir(mode=0o700, exist_ok=True)
        cache = cache.resolve()
        kernels = (cache / "pocl" / "kcache").resolve()
        path = [folder for folder in (kernels, *kernels.parents) if folder.exists()]
        return os.access(path[0], os.W_OK | os.X_OK) and not any(
            _others_can_change(folder, may_sticky=folder in cache.parents) for folder in path
        )
    except OSError:
        return False


def _is_inherited(folder: str) -> bool:
    """Whether it is a temporary folder of another process, which deletes it at its end."""
    owner = re.match(_TEMPORARY.format(r"(\d+)"), pathlib.PurePath(folder).name)
    return owner is not None and int(owner[1]) != os.getpid()


def _make_temporary_folder() -> None:
    """For this process: no other user can write there, and it is deleted at the end."""
    try:
        folder = tempfile.mkdtemp(prefix=_TEMPORARY.format(os.getpid()))
    except OSError as error:
        os.environ["POCL_CACHE_DIR"] = _NOWHERE
        warnings.warn(
            f"PoCL has no folder for its kernels, and will show no devices: {error.strerror}. Set "
            "POCL_CACHE_DIR, HOME or TMPDIR to a folder that this user can write to. Other OpenCL "
            "drivers need none",
            stacklevel=2,
        )
        return
    _temporary_folders[os.getpid()] = os.environ["POCL_CACHE_DIR"] = folder
    atexit.register(_delete_temporary_folder)


def _delete_temporary_folder() -> None:
    if folder := _temporary_folders.pop(os.getpid(), None):
        shutil.rmtree(folder, ignore_errors=True)


def _after_fork() -> None:
    if _is_inherited(os.environ.get("POCL_CACHE_DIR", "")):
        _make_temporary_folder()


def _at_start_of_process(_) -> None:
    """Processes of multiprocessing end without atexit."""
    util.Finalize(None, _delete_temporary_folder, exitpriority=0)


def keep_pocl_private() -> None:
    """Sets POCL_CACHE_DIR where PoCL would use a folder that others can write to, or no folder.

    PoCL takes $XDG_CACHE_HOME/pocl/kcache, else ~/.cache/pocl/kcache, else /tmp/pocl/kcache.
    """
    chosen = os.environ.get("POCL_CACHE_DIR")
    if chosen and chosen != _NOWHERE and not _is_inherited(chosen):
        return
    os.environ.pop("POCL_CACHE_DIR", None)
    homes = [os.environ.get("HOME", ""), _listed_home()]
    caches = [os.environ.get("XDG_CACHE_HOME", ""), *(home and f"{home}/.cache" for home in homes)]
    of_pocl = next(filter(None, caches[:2]), None)
    for cache in filter(os.path.isabs, caches):
        if _is_private(pathlib.Path(cache)):
            if cache != of_pocl:
                os.environ["POCL_CACHE_DIR"] = f"{cache}/pocl/kcache"
            return
    _make_temporary_folder()
    os.register_at_fork(after_in_child=_after_fork)
    util.register_after_fork(_at_start_of_process, _at_start_of_process)
