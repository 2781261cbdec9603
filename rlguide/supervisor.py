"""`python -m rlguide.supervisor DIRECTORY`: the process that accompanies every run, in a session of its own.

It is two: the supervisor, and its caretaker, which only waits, and ends what is left where the supervisor is killed.
The engine starts before the rest of the supervisor is loaded, which takes longer than all else that a launch does.
"""

import json
import logging
import os
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from rlguide.errors import Busy, LaunchError, RlguideError
from rlguide.files import read_file
from rlguide.paths import RunFiles
from rlguide.slot import cpu_slot, locked
from rlguide.starting import become_subreaper, heed_signals, start

SLOT_WAIT_S = 2.0
"""A launch of another run looks for a moment whether the processor is free."""
PREDECESSOR_S = 10.0
"""How long the supervisor of the attempt before may take to be gone."""
SUCCEEDED, ENDED, BROKEN = 0, 1, 2
"""Exit codes: the run succeeded; it ended otherwise; its end was not written, and processes may be left."""

log = logging.getLogger("rlguide.supervisor")


def main(directory: Path) -> int:
    """Supervise the run in `directory`. Returns 0 when it succeeded."""
    began = time.monotonic()
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(message)s")
    become_subreaper()
    files = RunFiles(directory)
    supervisor = os.fork()
    if supervisor == 0:
        os._exit(_supervise(files, began))
    return _take_care(supervisor, files)


def _take_care(supervisor: int, files: RunFiles) -> int:
    """Wait for the supervisor; where it is gone too early, end what it left: orphans of the run are children here."""
    heed_signals(lambda number: os.kill(supervisor, number))
    code = os.waitstatus_to_exitcode(os.waitpid(supervisor, 0)[1])
    heed_signals(lambda _: None)
    if code not in {SUCCEEDED, ENDED}:
        from rlguide.ending import end_what_is_left

        log.error("the supervisor ended with exit code %d; its caretaker ends what is left of the run", code)
        end_what_is_left(files)
    return code


def _supervise(files: RunFiles, began: float) -> int:
    become_subreaper()  # a child does not inherit that
    asked: list[int] = []
    heed_signals(asked.append)
    try:
        with ExitStack() as held:
            held.enter_context(locked(files.supervisor_lock, wait_s=PREDECESSOR_S))
            record = json.loads(read_file(files.record))
            refused = _hold_cpu(held, record, files) if record["plan"]["exclusive_cpu"] else None
            children: dict[str, subprocess.Popen[bytes]] = {}
            if refused is None and record["attempt"] == 1:  # a later one looks first at what the one before left
                children = _head_start(record, files.directory)
            from rlguide.supervision import Supervisor

            return SUCCEEDED if Supervisor(files, children, asked=asked, began=began).run(refused).is_success else ENDED
    except RlguideError as error:
        log.error("%s", error)
    except Exception:  # whatever it is, the caretaker must learn of it
        log.exception("the supervisor failed")
    return BROKEN


def _hold_cpu(held: ExitStack, record: dict[str, Any], files: RunFiles) -> RlguideError | None:
    """Hold the processor for this run. Returns why it cannot be held."""
    try:
        owner = f"the run {files.directory.name!r} in {files.directory}"
        held.enter_context(cpu_slot(owner, wait_s=SLOT_WAIT_S))
    except (Busy, LaunchError) as error:
        return error
    return None


def _head_start(record: dict[str, Any], directory: Path) -> dict[str, "subprocess.Popen[bytes]"]:
    """The first process of the plan by name; none when it cannot be started, which is then tried and told later."""
    process = SimpleNamespace(**record["plan"]["processes"][0])
    with suppress(OSError):
        return {process.name: start(process, directory)}
    return {}


if __name__ == "__main__":
    os._exit(main(Path(sys.argv[1])))  # nothing is left to do, and taking an interpreter down takes longer than that
