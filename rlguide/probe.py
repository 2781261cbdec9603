"""What this machine offers: processor cores, memory and GPUs. Looks only; judging is `checks`' business."""

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil

from rlguide.gpus import find_gpus
from rlguide.records import Machine

GIB = 2**30
NO_LIMIT = 2**60
"""What version 1 of control groups says for no limit is more."""


def machine(*, cgroups: Path = Path("/sys/fs/cgroup"), membership: Path = Path("/proc/self/cgroup")) -> Machine:
    """What a run may use here. `cgroups` and `membership` say where Linux keeps its limits; other systems have none."""
    folders = list(_limit_folders(cgroups, membership))
    memory_bytes = _memory_bytes(folders)
    return Machine(
        cores=_cores(folders),
        memory_gib=None if memory_bytes is None else round(memory_bytes / GIB, 2),
        **find_gpus()._asdict(),
    )


def _cores(folders: list[Path]) -> int:
    """Whole cores: the affinity mask (where the system has one) and every quota above this process count."""
    allowed = len(os.sched_getaffinity(0)) if sys.platform == "linux" else psutil.cpu_count() or 1
    quotas = [quota for folder in folders if (quota := _quota_cores(folder)) is not None]
    return max(1, int(min([allowed, *quotas])))


def _quota_cores(folder: Path) -> float | None:
    words = _words(folder / "cpu.max") or _words(folder / "cpu.cfs_quota_us") + _words(folder / "cpu.cfs_period_us")
    if len(words) != 2 or not all(word.isdecimal() for word in words) or int(words[1]) == 0:
        return None  # `max`, -1 or no such file: no quota here
    return int(words[0]) / int(words[1])


def _memory_bytes(folders: list[Path]) -> int | None:
    """Bytes for new programs: what the system has left, and what every memory limit above this process leaves."""
    left = [room for folder in folders if (room := _room_bytes(folder)) is not None]
    with suppress(OSError):  # where the system hides /proc
        left.append(psutil.virtual_memory().available)
    return min(left, default=None)


def _room_bytes(folder: Path) -> int | None:
    for limit_name, used_name, cache_name in (
        ("memory.max", "memory.current", "inactive_file"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        limit = _words(folder / limit_name)
        if limit and limit[0].isdecimal() and int(limit[0]) < NO_LIMIT:
            words = _words(folder / "memory.stat")
            # File cache counts as used, yet the kernel gives it up before it refuses memory.
            given_up = _number(words[words.index(cache_name) + 1 :] if cache_name in words else [])
            return max(0, int(limit[0]) - _number(_words(folder / used_name)) + given_up)
    return None


def _number(words: list[str]) -> int:
    """The first word, 0 where that is none."""
    return int(words[0]) if words and words[0].isdecimal() else 0


def _limit_folders(cgroups: Path, membership: Path) -> Iterator[Path]:
    """Folders with the limits of this process, its own control group first; version 1 has one tree a controller.

    In a container the path of the membership file may not exist inside the mount; the root then holds the limits.
    psutil knows no control groups, so these two places are read directly.
    """
    lines = (line.split(":", 2) for line in _text(membership).splitlines() if line.count(":") >= 2)
    for _, controllers, path in lines:
        tree = cgroups / controllers if controllers else cgroups
        if not controllers or {"cpu", "memory"} & set(controllers.split(",")):
            own = tree / path.lstrip("/")
            yield own
            yield from (folder for folder in own.parents if folder.is_relative_to(tree))


def _words(path: Path) -> list[str]:
    return _text(path).split()


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError):  # not in this version of control groups, or hidden from this container; no text
        return ""
