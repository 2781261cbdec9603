"""Helper programs that live for one `with` block or one answer: started here, and gone afterwards.

Runs of the training engine are not started here: they outlive the process that starts them.
"""

import atexit
import os
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from typing import IO, NamedTuple

import psutil

from rlguide.environ import inherited
from rlguide.errors import EngineMissing
from rlguide.family import all_pids, end_tree, marked
from rlguide.paths import PACKAGE, install_command
from rlguide.process import MARK, identity_of
from rlguide.records import Process
from rlguide.redact import redact_file, redacted
from rlguide.starting import end_with_parent, start

GRACE_S = 5.0
"""Seconds between the request to end and the kill: a helper has nothing to save."""
KILLED_S = 1.0
"""Seconds for a killed program to be gone; one inside a driver's call may never be."""
ANSWER_BYTES = 2**20


def program(name: str) -> tuple[str, ...]:
    """Command of a console script of this very Python, whatever is on PATH. Raises `EngineMissing`.

    By its entry point: with `pip install --user`, or in a virtual environment that sees the system's packages, the
    script itself is in a folder of its own.
    """
    if not entry_points(group="console_scripts", name=name):
        hint = f"install with: {install_command()}"
        raise EngineMissing(f"the program {name!r} is not installed", look=sys.executable, hint=hint)
    return sys.executable, "-P", str(PACKAGE / "programs" / "console_script.py"), name


@contextmanager
def running(
    argv: Sequence[str], log: Path, *, env: Mapping[str, str] | None = None
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a program with its output in `log` and its working directory beside it.

    When the block ends, however it ends, so do the program and everything it started, in other sessions too; its log
    then holds no secret.
    """
    mark = f"helper-{uuid.uuid4().hex}"
    planned = Process(name=log.stem, argv=tuple(argv), env={**(env or {}), MARK: mark}, log=Path(log.name))
    log.unlink(missing_ok=True)  # a log of an earlier attempt would be read as this one's
    child = start(planned, log.parent)
    identity = identity_of(child.pid)
    try:
        yield child
    finally:
        end_tree([identity] if identity else [], grace_s=GRACE_S, mark=mark, while_waiting=child.poll)
        child.poll()
        redact_file(log)


class Answer(NamedTuple):
    """What a program said."""

    code: int | None
    """Exit code, negative for a signal; `None` when it did not end in time."""
    out: str
    err: str

    @property
    def said(self) -> str:
        """In one line, for a reader: some programs tell their errors on standard output."""
        return redacted(" ".join((self.err.strip() or self.out.strip()).split()))[:200]


def answer_of(
    argv: Sequence[str | Path], *, limit_s: float, env: Mapping[str, str] | None = None, folder: Path | None = None
) -> Answer:
    """What a short program answers within `limit_s` seconds, with `env` besides what it inherits, working in `folder`
    or here. Raises `OSError` when it cannot be started, or not answer.

    Whatever it started is killed with it, and both also when this process ends first, as far as that can be told of a
    program that was killed itself; one that cannot be killed is left behind.
    Files take its output: after a kill, a pipe would be waited for as long as any descendant holds it.
    """
    mark, others = f"helper-{uuid.uuid4().hex}", all_pids()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env=inherited() | (env or {}) | {MARK: mark},
            cwd=folder,
            start_new_session=True,
            preexec_fn=end_with_parent(signal.SIGKILL),
        )
        kill = atexit.register(partial(_kill, child, mark, others))
        try:
            code = child.wait(limit_s)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            kill()
            atexit.unregister(kill)
        return Answer(code, *(_content(file) for file in (out, err)))


def _kill(child: "subprocess.Popen[bytes]", mark: str, others: Collection[int]) -> None:
    """Kill a program, its process group, and those of its descendants that left it; `others` were there before."""
    with suppress(ProcessLookupError, PermissionError):  # nobody is left; macOS says so in the other words
        os.killpg(child.pid, signal.SIGKILL)
    for process in marked(mark, but=others):
        with suppress(psutil.Error):
            process.kill()
    with suppress(subprocess.TimeoutExpired):
        child.wait(KILLED_S)


def _content(file: IO[bytes]) -> str:
    """What a program wrote. Raises `OSError` when the disk was full: what is there may be cut, or nothing."""
    file.seek(0)
    content = file.read(ANSWER_BYTES).decode(errors="replace")
    try:
        os.pwrite(file.fileno(), b"\n", os.fstat(file.fileno()).st_size)
    except OSError as error:
        told = f"nothing more can be written to {tempfile.gettempdir()} ({error.strerror})"
        raise OSError(error.errno, told) from None
    return content
