"""Helper programs that live for one `with` block: found in this installation, started, and gone afterwards.

Runs of the training engine are not started here: they outlive the process that starts them.
"""

import subprocess
import sys
import sysconfig
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from rlguide.errors import EngineMissing
from rlguide.process import MARK, end_tree, identity_of, start
from rlguide.records import Process
from rlguide.redact import redact_file

GRACE_S = 5.0
"""Seconds between the request to end and the kill: a helper has nothing to save."""
TAIL_LINES = 15


def program(name: str) -> tuple[str, str]:
    """Command of a console script of this very installation, whatever is on PATH. Raises `EngineMissing`."""
    script = Path(sysconfig.get_path("scripts")) / name
    if not script.is_file():
        hint = f"install with: {sys.executable} -m pip install 'rlguide[local]'"
        raise EngineMissing(f"the program {name!r} is not installed", look=script.parent, hint=hint)
    return sys.executable, str(script)


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
