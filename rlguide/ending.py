"""How a run ends without its supervisor, what is said of one that nobody supervises, and how its directory is removed.

`run.py` decides when.
"""

import os
import shutil
import time
from datetime import UTC, datetime
from pathlib import Path

import psutil

from rlguide.errors import LaunchError, RlguideError, RunOccupied
from rlguide.family import ORPHAN_GRACE_S, end_tree, left_over, marked
from rlguide.files import refusals_told
from rlguide.paths import RunFiles
from rlguide.process import MARK, boot_id, host, own_identity
from rlguide.records import ProcessIdentity, RunRecord, State
from rlguide.redact import redact_files
from rlguide.store import holds_run, read_record
from rlguide.tail import last_lines


def request_stop(files: RunFiles, status: RunRecord) -> None:
    """Ask the supervisor to end the run. Raises `LaunchError` when it cannot be asked."""
    with refusals_told("ask the supervisor to stop", files.directory, LaunchError):
        try:
            files.stop_request.touch()
        except OSError:  # a full disk: the supervisor listens to SIGTERM too
            supervisor = [one for one in _marked(status) if status.supervisor and one.pid == status.supervisor.pid]
            if not supervisor:
                raise
            supervisor[0].terminate()


def end_processes(files: RunFiles, status: RunRecord, *above: ProcessIdentity) -> str | None:
    """End the processes that carry the run's mark, and all below `above`; components get their grace to save.

    Among the marked are a supervisor that does not react and its caretaker; they go last, and their last duty is done:
    no secret stays in a file. Returns a sentence about those that cannot be killed, `None` when nothing is left.
    """
    components = [component.identity for component in status.components if component.identity]
    left = end_tree([*above, *components], grace_s=status.plan.grace_s, mark=status.mark)
    redact_files(files.engine, files.supervisor_log)
    return left_over(left)


def end_what_is_left(files: RunFiles) -> None:
    """End what is left of a run below this process, the caretaker of a supervisor that is gone."""
    try:
        end_processes(files, read_record(files), own_identity())
    except RlguideError:  # the record is gone, too, or cannot be read
        end_tree([own_identity()], grace_s=ORPHAN_GRACE_S, mark=os.environ.get(MARK))


def has_processes(status: RunRecord) -> bool:
    """True when something of the run is alive here; the processes of a copy are those of the original."""
    return not status.made_in and bool(_marked(status))


def _marked(status: RunRecord) -> set[psutil.Process]:
    return marked(status.mark) if status.mark else set()


def is_settled(status: RunRecord) -> bool:
    """True when the end of the run was written down: nothing of it is left then."""
    return status.state.is_over and status.state is not State.INTERRUPTED


def age_s(status: RunRecord) -> float | None:
    """Seconds since the launch, by the wall clock, which may have been set meanwhile; `None` when none is written."""
    try:
        return max(0.0, (datetime.now(UTC) - datetime.fromisoformat(status.created_at)).total_seconds())
    except (ValueError, TypeError):  # TypeError: without a zone
        return None


def why_interrupted(files: RunFiles, record: RunRecord) -> str:
    """Why nobody supervises a run that has no end, as far as its directory tells."""
    if record.made_in:
        return origin_told(record)
    if record.supervisor is None:
        return "the launch was cut off before the supervisor started"
    who = f"its supervisor (pid {record.supervisor.pid} on {record.supervisor.host})"
    if is_elsewhere(record):
        return f"{who} cannot be seen from here, and has written nothing for {silent_s(files):.0f} s"
    if record.supervisor.boot_id != boot_id():
        return f"this machine was restarted, and {who} with it"
    said = "".join(f"; its log ends with: {line[:200]}" for line in last_lines(files.supervisor_log, 1))
    return f"{who} is gone without writing an end{said}"


def is_elsewhere(record: RunRecord) -> bool:
    """True when another host supervises the run: its processes can neither be seen nor ended from here."""
    return record.supervisor is not None and record.supervisor.host != host()


def silent_s(files: RunFiles) -> float:
    """Seconds since the record was written; a supervisor that lives writes it every few seconds."""
    return abs(time.time() - files.record.stat().st_mtime)


def no_reaction(status: RunRecord) -> str:
    """What is said of a supervisor that did not end the run when it was asked to."""
    if is_elsewhere(status):
        return f"its supervisor on {status.supervisor.host} did not react, and its processes cannot be ended from here"
    return "its supervisor did not react; its processes were ended without it"


def origin(record: RunRecord) -> str | None:
    """Where a run came from that was not made in its directory; `None` for any other."""
    if record.made_in is None:
        return None
    return f"a copy of {record.made_in}" if holds_run(record.made_in) else f"moved here from {record.made_in}"


def origin_told(record: RunRecord) -> str:
    """The same as a sentence about a run that has one."""
    return f"this run {'is' if holds_run(record.made_in) else 'was'} {origin(record)}"


def remove(files: RunFiles) -> None:
    """Remove a run directory, the record last: what is half removed is still known as ours.

    Raises `RunOccupied` when something in it cannot be removed, and before anything is when it holds a mounted disk.
    """
    mounted = [str(folder) for folder in _folders(files.directory) if folder.is_mount()]
    if mounted:
        hint = "unmount it first: what is on it does not belong to the run"
        raise RunOccupied(f"the run directory holds a mounted disk: {mounted[0]}", look=files.directory, hint=hint)
    hint = "the record and what is left stay; fix that, then clean again"
    with refusals_told("remove all of the run directory", files.directory, RunOccupied, hint=hint):
        for entry in files.directory.iterdir():
            if entry != files.record:
                shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
        shutil.rmtree(files.directory)


def _folders(directory: Path) -> list[Path]:
    return [Path(parent, name) for parent, names, _ in os.walk(directory) for name in names]
