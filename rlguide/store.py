"""The files that rlguide itself writes in a run directory: `run.json` and `steps.jsonl`.

Every write leaves either the old or the new content, also when the writer is killed or the disk is full.
"""

import difflib
import time
from collections.abc import Callable
from pathlib import Path

from pydantic import BaseModel, ValidationError

from rlguide.errors import ConfigError, RunDamaged, RunNotFound
from rlguide.files import open_file, read_file, refusals_told, write_atomically
from rlguide.history import History, parse_steps
from rlguide.paths import OUTPUTS_RULE, RunFiles, absolute, outputs_root
from rlguide.records import SCHEMA_VERSION, RunRecord, StepRecord

GLANCE_S = 0.05


def write_record(files: RunFiles, record: RunRecord) -> None:
    """Write `run.json`. Raises `OSError`."""
    write_atomically(files.record, record.model_dump_json(indent=2) + "\n")


def read_record(files: RunFiles) -> RunRecord:
    """Read `run.json`. Raises `RunNotFound` where there is none, `RunDamaged` when it cannot be understood."""
    try:
        data = read_file(files.record)
        version = _Versioned.model_validate_json(data).schema_version
        if version == SCHEMA_VERSION:
            return _where_it_is(RunRecord.model_validate_json(data), files.directory)
        message = f"run.json is of version {version}, and this rlguide reads version {SCHEMA_VERSION}"
        hint = "use the rlguide that made the run, or choose another run_name"
        raise RunDamaged(message, look=files.record, hint=hint)
    except (FileNotFoundError, NotADirectoryError):
        hint = "`rlguide runs` lists the runs that are there"
        raise RunNotFound(f"no run at {str(files.directory)!r}", look=files.directory.parent, hint=hint) from None
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(str(part) for part in problem["loc"])
        message = f"run.json is damaged: {where + ': ' if where else ''}{problem['msg']}"
    except OSError as error:
        message = f"run.json cannot be read: {error}"
    hint = "logs, weights and steps.jsonl are still there; move the directory away or choose another run_name"
    raise RunDamaged(message, look=files.record, hint=hint)


def sleep_until_written(files: RunFiles) -> Callable[[float], None]:
    """A sleep that ends early when `run.json` was written since this call: a glance costs far less than a look."""
    before = _written(files)

    def sleep(limit_s: float) -> None:
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline and _written(files) == before:
            time.sleep(GLANCE_S)

    return sleep


def _written(files: RunFiles) -> tuple[int, int] | None:
    try:
        status = files.record.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


class _Versioned(BaseModel):
    """The part of `run.json` that every version has."""

    schema_version: int = SCHEMA_VERSION


def _where_it_is(record: RunRecord, directory: Path) -> RunRecord:
    """A run is called like its directory, also when that was copied or renamed.

    A recorded run that ships names its directory relative to itself: it is at home wherever it lies.
    """
    made_in = record.plan.directory
    plan = record.plan.model_copy(update={"directory": directory})
    moved = {"made_in": made_in} if made_in.is_absolute() and absolute(made_in) != directory else {}
    return record.model_copy(update={"name": directory.name, "plan": plan, **moved})


def read_history(files: RunFiles) -> History:
    """All steps recorded so far; empty where there are none. Raises `RunDamaged` when they cannot be read."""
    return parse_steps(read_text(files.steps))


def read_text(path: Path) -> str:
    """The text of a file of a run, empty where there is none. Raises `RunDamaged` when it cannot be read."""
    try:
        return read_file(path).decode("utf-8", errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:
        hint = "move that away; the run itself may be well"
        raise RunDamaged(f"{path.name} cannot be read: {error}", look=path, hint=hint) from None


def find_run(named: Path) -> Path:
    """The directory of the run that `named` means: a folder, or a name below the outputs folder.

    Raises `RunNotFound`, with the names that are close.
    """
    root, folder = outputs_root(), absolute(named)
    for candidate in (folder, root / named):
        if holds_run(candidate):
            return candidate
    names = [run.name for run in run_folders(root)]
    close = difflib.get_close_matches(named.name, names, n=3)
    hint = f"no run is there yet, `rlguide train` starts one; {OUTPUTS_RULE}"
    if names:
        meant = f"did you mean {' or '.join(map(repr, close))}? " if close else ""
        hint = f"{meant}`rlguide runs` lists the {len(names)} that are there"
    raise RunNotFound(f"no run at {str(named)[:200]!r}, and none of that name in {root}", look=root, hint=hint)


def run_folders(root: Path) -> list[Path]:
    """The folders in `root` that hold a run, by name. Raises `ConfigError` when `root` cannot be read."""
    with refusals_told("look into the outputs folder", root, ConfigError):
        return [folder for folder in sorted(root.iterdir()) if holds_run(folder)] if root.is_dir() else []


def holds_run(folder: Path) -> bool:
    """True when there is a `run.json`, whatever it is. False, no error, for what can be no folder."""
    try:
        (folder / "run.json").lstat()
    except PermissionError:  # reading it will say so
        return True
    except (OSError, ValueError):
        return False
    return True


class StepLog:
    """Appends to `steps.jsonl`. What cannot be written now is kept for the next time, and all for when it was cut."""

    def __init__(self, path: Path):
        self._path = path
        self._written = self._whole_lines()
        self._waiting = b""

    def add(self, record: StepRecord) -> None:
        self._waiting += f"{record.model_dump_json(exclude_none=True)}\n".encode()

    def flush(self) -> None:
        """Write what waits, and what was cut off meanwhile. Raises `OSError`; nothing is lost, no half line stays."""
        if not (self._written or self._waiting):
            return
        with open_file(self._path, "ab") as handle:
            if handle.tell() < len(self._written):
                handle.truncate(0)
                handle.write(self._written)
            handle.truncate(len(self._written))
            handle.write(self._waiting)
        self._written, self._waiting = self._written + self._waiting, b""

    def _whole_lines(self) -> bytes:
        """All up to the last newline: a writer that was killed may have left half a line behind it."""
        try:
            data = read_file(self._path)
        except FileNotFoundError:
            return b""
        return data[: data.rfind(b"\n") + 1]
