"""Checks of disks: what a run, its downloads and its packages will write, against what fits."""

import os
import resource
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from rlguide.asking import Finding
from rlguide.errors import ConfigError
from rlguide.paths import OUTPUTS_VARIABLE, absolute, outputs_root
from rlguide.probe import GIB
from rlguide.records import Status

FEWEST_FILES = 1000
"""A run makes some hundred files; a disk can have room, and none for another file."""
LARGEST_GIB = 0.05
"""The largest file of the tiny policy, the state of its optimizer, has 6 MB."""
FIX = "free some space, or use a folder on another disk"


class Room(NamedTuple):
    """What will be written into one folder."""

    check: str
    """Its id."""
    title: str
    folder: Callable[[], Path]
    """Found when it is looked at: it may not be there to be found."""
    gib: Callable[[], float]
    """Found likewise."""
    least_gib: float | None = None
    """With less, it cannot work; unset, `gib`."""
    fix: str = FIX
    why_none: str = "nothing is written there"
    """Said where nothing will be written."""


def look_at_room(room: Room, rooms: Sequence[Room]) -> Finding:
    """Whether all that `rooms` want of this room's disk fits, and can be written."""
    if not room.gib():
        return Finding(Status.PASS, room.why_none)
    try:
        folder, place = find_place(room.folder)
    except ConfigError as error:
        return Finding(Status.FAIL, error.message, error.hint or room.fix)
    disk = os.statvfs(place)
    sharing = {other: gib for other in rooms if (gib := other.gib()) and (other is room or _is_on(other, place))}
    free_gib, wanted_gib = disk.f_bavail * disk.f_frsize / GIB, sum(sharing.values())
    seen = f"{free_gib:.1f} GiB free at {folder}"
    if disk.f_files and disk.f_favail < FEWEST_FILES:
        return Finding(Status.FAIL, f"{seen}, but room for {disk.f_favail} more files only", room.fix)
    if free_gib >= wanted_gib:
        return Finding(Status.PASS, seen)
    others = ", ".join(other.title for other in sharing if other is not room)
    seen += f"; {wanted_gib:.1f} GiB are wanted there" + (f" together with {others}" if others else "")
    needed_gib = sum(gib if other.least_gib is None else other.least_gib for other, gib in sharing.items())
    return Finding(Status.WARN if free_gib >= needed_gib else Status.FAIL, seen, room.fix)


def _is_on(room: Room, place: Path) -> bool:
    """True for what will be written on the disk of `place`; False also where that cannot be told."""
    try:
        return find_place(room.folder)[1].stat().st_dev == place.stat().st_dev
    except (OSError, ConfigError):
        return False


def look_at_outputs() -> Finding:
    """Whether runs can be made in the outputs folder."""
    limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    if limit != resource.RLIM_INFINITY and limit < LARGEST_GIB * GIB:
        return Finding(Status.FAIL, f"a file may have {limit / 1e6:.1f} MB", "raise that limit: ulimit -f unlimited")
    try:
        return Finding(Status.PASS, f"{find_place(outputs_root)[0]} (writable)")
    except ConfigError as error:
        fix = f"set {OUTPUTS_VARIABLE} to a folder that you may write to"
        return Finding(Status.FAIL, error.message, error.hint or fix)


def find_place(find: Callable[[], Path]) -> tuple[Path, Path]:
    """A folder, with links followed, and what is there of it: itself, or the folder above it in which it can be made.

    Raises `ConfigError` where this process can make no files, as far as the system tells.
    """
    try:
        folder = absolute(find())
        place = next(place for place in (folder, *folder.parents) if _is_there(place))
        writable = place.is_dir() and os.access(place, os.W_OK | os.X_OK)
        writable = writable and os.statvfs(place).f_blocks > 0  # /proc and the like hold no files
    except OSError as error:  # too long a name, no look allowed; the working directory, or every temporary one, is gone
        raise ConfigError(f"{error.filename or 'no folder'}: {error.strerror}") from None
    if not writable:
        raise ConfigError(f"{folder} (not writable)")
    return folder, place


def _is_there(path: Path) -> bool:
    """Raises `OSError` for what could not be made, either."""
    with suppress(FileNotFoundError):
        return bool(path.stat())
    return False
