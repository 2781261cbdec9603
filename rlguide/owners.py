"""Who a process is that holds a GPU or a port: this Python, a run of ours by its name, a notebook, somebody else."""

import os
from contextlib import suppress
from pathlib import Path

import psutil

from rlguide.errors import RlguideError
from rlguide.paths import RunFiles, outputs_root
from rlguide.process import MARK, is_alive
from rlguide.records import GpuOwner, RunRecord
from rlguide.store import read_record, run_folders

NOT_VISIBLE = "not visible from this container"


def owner_of(pid: int | None) -> GpuOwner:
    """Who that process is, as far as it can be seen from here."""
    if pid == os.getpid():
        return GpuOwner(pid=pid, who="this Python itself: restart the kernel")
    try:
        process = psutil.Process(-1 if pid is None else pid)
        who = f"{process.name()} of {process.username()}"
    except (psutil.Error, ValueError, KeyError):  # KeyError: a user without a name
        return GpuOwner(who=NOT_VISIBLE)
    if ours := _ours(process):
        return GpuOwner(pid=pid, who=ours)
    with suppress(psutil.Error):
        if any("ipykernel" in word for word in process.cmdline()):
            return GpuOwner(pid=pid, who=f"a notebook's kernel of {process.username()}")
    return GpuOwner(pid=pid, who=who)


def _ours(process: psutil.Process) -> str | None:
    """The run, or the helper, of ours that a process belongs to: by its mark, or because a run started it."""
    mark, line = None, [process]
    with suppress(psutil.Error):
        mark = process.environ().get(MARK)
    with suppress(psutil.Error):
        line += process.parents()
    if mark and mark.startswith("helper-"):
        return "an evaluation or a try-out of rlguide"
    pids = {ancestor.pid for ancestor in line}
    found = sorted((run for run in _records(line) if _has(run, mark, pids)), key=lambda run: run.made_in is not None)
    if found:  # a copy of a run has its mark too, and comes last
        return f"the run {found[0].name!r} of rlguide"
    return None if mark is None else "a run of rlguide whose folder is not found from here"


def _has(record: RunRecord, mark: str | None, pids: set[int]) -> bool:
    if mark is not None:
        return record.mark == mark
    started = [*(component.identity for component in record.components), record.supervisor]
    return any(identity and identity.pid in pids and is_alive(identity) for identity in started)


def _records(line: list[psutil.Process]) -> list[RunRecord]:
    """Of the runs that a process may belong to: those in the outputs folder, and where it and its parents work."""
    folders = []
    for process in line:
        with suppress(psutil.Error, OSError):
            folders.append(process.cwd())
    with suppress(RlguideError):
        folders += run_folders(outputs_root())
    records = []
    for folder in dict.fromkeys(map(Path, folders)):
        with suppress(RlguideError):
            records.append(read_record(RunFiles(folder)))
    return records
