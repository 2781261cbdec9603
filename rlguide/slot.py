"""Locks between processes; one lets a single torch process of ours run on a CPU, for two nearly stop each other."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from rlguide.errors import Busy, LaunchError
from rlguide.files import refusals_told


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
    folder = Path(tempfile.gettempdir()) / f"rlguide-{os.getuid()}"
    lock, holder = FileLock(folder / "cpu.lock"), folder / "cpu.holder"
    hint = "remove what is in the way, or name another folder for temporary files with TMPDIR"
    with refusals_told("use the lock of the CPU", folder, LaunchError, hint=hint):
        folder.mkdir(mode=0o700, exist_ok=True)
        _acquire(lock, holder, wait_s)
    try:
        with suppress(OSError):  # a full disk: the slot is held all the same
            holder.write_text(f"{owner} (pid {os.getpid()})", encoding="utf-8")
        yield
    finally:
        with suppress(OSError):
            holder.unlink()
        lock.release()


def _acquire(lock: FileLock, holder: Path, wait_s: float) -> None:
    try:
        lock.acquire(timeout=wait_s)
    except Timeout:
        hint = "wait until it ends, or stop it if it is yours: two at once nearly stop each other on one processor"
        raise Busy(f"the CPU is in use by {_name(holder)}", look=holder, hint=hint) from None


def _name(holder: Path) -> str:
    try:
        return holder.read_text(encoding="utf-8") or "another process"
    except OSError:
        return "another process"
