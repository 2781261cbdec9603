"""The files that rlguide itself writes in a run directory: `run.json`, `steps.jsonl` and the lock.

Every write leaves either the old or the new content, also when the writer is killed or the disk is full.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout
from pydantic import ValidationError

from rlguide.errors import Busy, RunDamaged, RunNotFound
from rlguide.history import History, parse_steps
from rlguide.paths import RunFiles
from rlguide.records import RunRecord, StepRecord


def write_atomically(path: Path, text: str) -> None:
    """Write `text` to `path` so that a reader sees the old content or the new, never a part. Raises `OSError`."""
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


def write_record(files: RunFiles, record: RunRecord) -> None:
    """Write `run.json`. Raises `OSError`."""
    write_atomically(files.record, record.model_dump_json(indent=2) + "\n")


def read_record(files: RunFiles) -> RunRecord:
    """Read `run.json`. Raises `RunNotFound` where there is none, `RunDamaged` when it cannot be understood."""
    try:
        return RunRecord.model_validate_json(files.record.read_bytes())
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


def read_history(files: RunFiles) -> History:
    """All steps recorded so far; empty where there are none."""
    try:
        return parse_steps(files.steps.read_text(encoding="utf-8", errors="replace"))
    except FileNotFoundError:
        return History()


class StepLog:
    """Appends to `steps.jsonl`; what cannot be written now is kept for the next time."""

    def __init__(self, path: Path):
        self._path = path
        self._waiting: list[StepRecord] = []
        self._whole_bytes = self._whole_lines()

    def add(self, record: StepRecord) -> None:
        self._waiting.append(record)

    def flush(self) -> None:
        """Write what waits. Raises `OSError`; nothing is lost then, and no half line stays."""
        if not self._waiting:
            return
        with self._path.open("ab") as handle:
            handle.truncate(self._whole_bytes)
            handle.write("".join(f"{step.model_dump_json(exclude_none=True)}\n" for step in self._waiting).encode())
            handle.flush()
            self._whole_bytes = handle.tell()
        self._waiting.clear()

    def _whole_lines(self) -> int:
        """Bytes up to the last newline: a writer that was killed may have left half a line behind it."""
        try:
            return self._path.read_bytes().rfind(b"\n") + 1
        except FileNotFoundError:
            return 0


@contextmanager
def locked(path: Path, *, wait_s: float) -> Iterator[None]:
    """Hold the lock file `path`. Raises `Busy` when another process holds it for longer than `wait_s` seconds."""
    try:
        with FileLock(path, timeout=wait_s):
            yield
    except Timeout as error:
        hint = "wait a moment and try again"
        raise Busy(f"another process works on {str(path.parent)!r}", look=path, hint=hint) from error
