"""Checks of disks: what a run, its downloads and its packages will write, against what fits."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from rlguide.asking import Finding
from rlguide.paths import OUTPUTS_VARIABLE, outputs_root
from rlguide.probe import GIB
from rlguide.records import Status

FEWEST_FILES = 1000
"""A run makes some hundred files; a disk can have room, and none for another file."""
FIX = "free some space, or use a folder on another disk"


class Room(NamedTuple):
    """What will be written into one folder."""

    check: str
    """Its id."""
    title: str
    folder: Callable[[], Path]
    """Found when it is looked at: it may not be there to be found."""
    gib: float
    least_gib: float | None = None
    """With less, it cannot work; unset, `gib`."""
    fix: str = FIX
    why_none: str = "nothing is written there"
    """Said where nothing will be written."""

    @property
    def wanted(self) -> str:
        return f"{self.gib:g} GiB free" if self.gib else "none"

    @property
    def needed_gib(self) -> float:
        return self.gib if self.least_gib is None else self.least_gib


def look_at_room(room: Room, rooms: Sequence[Room]) -> Finding:
    """Whether all that `rooms` want of this room's disk fits, and can be written."""
    if not room.gib:
        return Finding(Status.PASS, room.why_none)
    try:
        folder = room.folder()
    except OSError as error:  # no folder for temporary files is usable, or the working directory was removed
        return Finding(Status.FAIL, f"no folder for that: {error.strerror}", room.fix)
    place = nearest(folder)
    if not is_writable(place):
        return Finding(Status.FAIL, f"{folder} (not writable)", room.fix)
    disk = os.statvfs(place)
    sharing = [other for other in rooms if other is room or (other.gib and _is_on(other, place))]
    free_gib, wanted_gib = disk.f_bavail * disk.f_frsize / GIB, sum(other.gib for other in sharing)
    seen = f"{free_gib:.1f} GiB free at {folder}"
    if disk.f_files and disk.f_favail < FEWEST_FILES:
        return Finding(Status.FAIL, f"{seen}, but room for {disk.f_favail} more files only", room.fix)
    if free_gib >= wanted_gib:
        return Finding(Status.PASS, seen)
    if len(sharing) > 1:
        others = ", ".join(other.title for other in sharing if other is not room)
        seen += f"; {wanted_gib:g} GiB are wanted there together with {others}"
    needed_gib = sum(other.needed_gib for other in sharing)
    return Finding(Status.WARN if free_gib >= needed_gib else Status.FAIL, seen, room.fix)


def _is_on(room: Room, place: Path) -> bool:
    """True for what will be written on the disk of `place`; False also where that cannot be told."""
    try:
        return nearest(room.folder()).stat().st_dev == place.stat().st_dev
    except (OSError, ValueError):  # our own error for what cannot be a path is one of them
        return False


def look_at_outputs() -> Finding:
    fix = f"set {OUTPUTS_VARIABLE} to a folder that you may write to"
    try:
        root = outputs_root()
    except OSError as error:  # the working directory was removed
        return Finding(Status.FAIL, f"the working directory is gone: {error.strerror}", f"cd to another; or {fix}")
    there = nearest(root)
    usable = is_writable(there) and os.statvfs(there).f_blocks > 0  # /proc and the like hold no files
    return Finding(Status.PASS if usable else Status.FAIL, f"{root} ({'' if usable else 'not '}writable)", fix)


def nearest(path: Path) -> Path:
    """`path`, or the folder above it that exists."""
    return next((folder for folder in (path, *path.parents) if folder.exists()), path)


def is_writable(folder: Path) -> bool:
    """True for a folder in which this process may make files, as far as the system tells."""
    return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)
