"""Locks between processes; one lets a single torch process of ours run on a CPU, for two nearly stop each other."""

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from rlguide.errors import Busy, LaunchError
from rlguide.files import open_file, read_text, refusals_told

LOCK, HOLDER = "cpu.lock", "cpu.holder"
UNUSABLE = "remove what is in the way, or name another folder for temporary files with TMPDIR"


@contextmanager
def locked(path: Path, *, wait_s: float) -> Iterator[None]:
    """Hold the lock file `path`. Raises `Busy` when another process holds it for longer than `wait_s` seconds."""
    try:
        with FileLock(path, timeout=wait_s):
            yield
    except Timeout:
        hint = "wait a moment and try again"
        raise Busy(f"another process works on {str(path.parent)!r}", look=path, hint=hint) from None


@contextmanager
def cpu_slot(owner: str, *, wait_s: float = 0.0) -> Iterator[None]:
    """Hold this user's only CPU slot; it is free again when the holder ends, however it ends.

    `owner` says in a few words who holds it, for the others. Raises `Busy`, naming the holder, when the slot is
    still taken after `wait_s` seconds, and `LaunchError` when its lock cannot be used.
    """
    folder = _folder()
    lock, holder = FileLock(folder / LOCK), folder / HOLDER
    with refusals_told("use the lock of the CPU", folder, LaunchError, hint=UNUSABLE):
        folder.mkdir(mode=0o700, exist_ok=True)
        try:
            lock.acquire(timeout=wait_s)
        except Timeout:
            raise _busy(holder) from None
    try:
        with suppress(OSError):  # a full disk: the slot is held all the same
            holder.write_text(f"{owner} (pid {os.getpid()})", encoding="utf-8")
        yield
    finally:
        with suppress(OSError):
            holder.unlink()
        lock.release()


def require_free_cpu() -> None:
    """Raises `Busy` as `cpu_slot` would now, and `LaunchError`; makes no file, and holds nothing."""
    folder = _folder()
    with refusals_told("use the lock of the CPU", folder, LaunchError, hint=UNUSABLE):
        try:
            with open_file(folder / LOCK) as lock:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:  # no run has been here yet
            return
        except BlockingIOError:
            raise _busy(folder / HOLDER) from None


def _folder() -> Path:
    return Path(tempfile.gettempdir()) / f"rlguide-{os.getuid()}"


def _busy(holder: Path) -> Busy:
    name = "another process"
    with suppress(OSError, ValueError):
        name = read_text(holder) or name
    hint = "wait until it ends, or stop it if it is yours: two at once nearly stop each other on one processor"
    return Busy(f"the CPU is in use by {name}", look=holder, hint=hint)
