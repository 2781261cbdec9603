"""Files at the edges: written whole or not at all, read only where they are files, and refusals put into words."""

import errno
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from rlguide.errors import RlguideError
from rlguide.paths import OUTPUTS_VARIABLE

NO_FILES = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}


def write_atomically(path: Path, text: str) -> None:
    """Write `text` to `path`: all or, on a full disk or when the writer is killed, nothing. Raises `OSError`."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("w", encoding="utf-8") as handle:
            handle.write(text)
            handle.flush()
            os.fsync(handle.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def open_file(path: Path, mode: str = "rb") -> BinaryIO:
    """Open a file for bytes. Raises `OSError`, also for what is no file: opening a pipe would wait for ever."""
    return open(path, mode, opener=_open)


def _open(name: str, flags: int) -> int:
    with suppress(FileNotFoundError):
        if kind := NO_FILES.get(stat.S_IFMT(Path(name).stat().st_mode)):
            raise OSError(errno.EINVAL, f"this is {kind}, not a file", name)
    return os.open(name, flags | os.O_NONBLOCK, mode=0o666)  # what became a pipe only now does not wait either


def read_file(path: Path) -> bytes:
    """The content of a file. Raises `OSError`, also for what is no file."""
    with open_file(path) as handle:
        return handle.read()


def read_text(path: Path) -> str:
    """The content of a text file. Raises as `read_file` does, and `ValueError` for one that is not UTF-8."""
    return read_file(path).decode()


def exists(path: Path) -> bool | None:
    """Whether it is there; `None` when that cannot be told now, as of a disk over a network that is briefly away."""
    try:
        return path.exists()
    except OSError:
        return None


def remove_file(path: Path) -> None:
    """Remove it where that is possible: not on a disk that turned read-only."""
    with suppress(OSError):
        path.unlink()


def free_bytes(folder: Path) -> float:
    """What still fits on the disk of a folder; infinite where that cannot be told."""
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return float("inf")


@contextmanager
def refusals_told(what: str, folder: Path, kind: type[RlguideError], *, hint: str | None = None) -> Iterator[None]:
    """Raises `kind` where the system refuses something in the block: "cannot `what`: …", with a way out."""
    try:
        yield
    except RlguideError:  # some are an `OSError` too, and are clear already
        raise
    except OSError as error:
        raise kind(f"cannot {what}: {error}", look=folder, hint=hint or way_out(error)) from None


def way_out(error: OSError) -> str:
    """What to do about a refusal of the system to write something."""
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return "the disk is full: free some space, then try again"
    if error.errno in {errno.EACCES, errno.EPERM, errno.EROFS}:
        return f"this may not be written: change that, or choose another outputs folder with {OUTPUTS_VARIABLE}"
    return f"look at that path, or choose another outputs folder with {OUTPUTS_VARIABLE}"
