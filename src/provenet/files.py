"""Files that are whole or not there, and reading only what is a file."""

from __future__ import annotations

import os
import re
import shutil
import stat
import tempfile
import time
from pathlib import Path
from platform import node
from zlib import crc32

_DAY = 86400.0
_OURS = re.compile(r"^\..+\.tmp-(\d+)-(\d+)-\w+$")  # .NAME.tmp-MACHINE-PROCESS-RANDOM


def write_atomically(path: Path, content: bytes) -> None:
    """All of ``content`` or nothing: a temporary file beside ``path``, flushed to disk, then renamed over it."""
    try:
        sweep(path.parent)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=_prefix(path.name))
    except OSError as error:
        raise _unwritable(path, error) from None
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)  # mkstemp's files are private; a model is an ordinary file
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    flush_directory(path.parent)


def temporary_folder(beside: Path) -> Path:
    """A new folder beside ``beside``, with a name that `sweep` knows."""
    sweep(beside.parent)
    return Path(tempfile.mkdtemp(dir=beside.parent, prefix=_prefix(beside.name)))


def sweep(folder: Path) -> None:
    """Remove what writers that were killed have left in ``folder``; those still at work keep theirs."""
    with os.scandir(folder) as entries:
        left = [entry for entry in entries if (found := _OURS.match(entry.name)) and _abandoned(entry, *found.groups())]
    for entry in left:
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path, ignore_errors=True)
        else:
            Path(entry.path).unlink(missing_ok=True)


def check_writable(target: Path) -> None:
    """OSError, with the reason, unless files can be written into the folder ``target``, there or yet to be made."""
    there = next(folder for folder in (target, *target.absolute().parents) if folder.exists())
    try:
        handle, probe = tempfile.mkstemp(dir=there, prefix=_prefix("probe"))
    except OSError as error:
        raise _unwritable(target, error) from None
    os.close(handle)
    Path(probe).unlink(missing_ok=True)


def _unwritable(target: Path, error: OSError) -> OSError:
    told = type(error)(f"{target}: nothing can be written there ({error.strerror}); choose another place.")
    told.errno = error.errno  # callers tell a full disk by it
    return told


def check_regular(path: Path, links: bool = True) -> int:
    """The size of an ordinary file, in bytes; OSError for devices, pipes and folders, and links if not ``links``."""
    try:
        found = path.stat() if links else path.lstat()
    except FileNotFoundError:
        raise FileNotFoundError(f"{path}: there is no such file.") from None
    if stat.S_ISLNK(found.st_mode):
        raise OSError(f"{path}: it is a link, which is not followed here; copy the file itself.")
    if not stat.S_ISREG(found.st_mode):
        raise OSError(f"{path}: it is {_kind(found.st_mode)}, not a file.")
    return found.st_size


def read_regular(path: Path, links: bool = True) -> bytes:
    """All bytes of an ordinary file; never more than it said it has."""
    size = check_regular(path, links)
    flags = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)
    handle = os.open(path, flags if links else flags | getattr(os, "O_NOFOLLOW", 0))
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):  # swapped since it was looked at
            raise OSError(f"{path}: it is no file.")
        return file.read(size)


def whole_lines(path: Path) -> list[str]:
    """Of a file that lines are added to, none where there is no file; a last one that was cut off, when who wrote it
    was killed, is removed."""
    if not path.exists():
        return []
    whole, _, rest = path.read_text(encoding="utf-8").rpartition("\n")
    if rest:
        path.write_text(whole + "\n" if whole else "", encoding="utf-8")
    return whole.splitlines()


def flush_directory(folder: Path) -> None:
    """Make a rename itself durable, where the system knows how."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _prefix(name: str) -> str:
    return f".{name}.tmp-{_machine()}-{os.getpid()}-"


def _machine() -> int:
    return crc32(node().encode())


def _abandoned(entry: os.DirEntry[str], machine: str, process: str) -> bool:
    """A day old, or by a process of this machine that is no more."""
    try:
        age = time.time() - entry.stat(follow_symlinks=False).st_mtime
    except OSError:
        return False
    return age > _DAY or (machine == str(_machine()) and not _runs(int(process)))


def _runs(process: int) -> bool:
    if os.name == "nt":  # there is no asking without ending it
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _kind(mode: int) -> str:
    for test, word in (
        (stat.S_ISDIR, "a folder"),
        (stat.S_ISFIFO, "a pipe"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISCHR, "a device"),
        (stat.S_ISBLK, "a device"),
    ):
        if test(mode):
            return word
    return "something else"
