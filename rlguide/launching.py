"""How an attempt of a run begins: its directory is filled and its supervisor started. `run.py` decides whether."""

import os
import subprocess
import sys
import threading
import time
import tomllib
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from rlguide import engines
from rlguide.accounts import account_note, with_account
from rlguide.config import RunConfig, save_config
from rlguide.errors import LaunchError, RunOccupied
from rlguide.files import open_file, refusals_told, write_atomically
from rlguide.paths import RunFiles
from rlguide.process import MARK
from rlguide.records import Plan, RunRecord, State
from rlguide.saved import remove_half_checkpoints
from rlguide.slot import cpu_slot, locked
from rlguide.store import read_record, write_record
from rlguide.tail import last_lines

SIGN_IN_S = 30.0
"""Longest time for a supervisor to sign in; it takes under a second on a machine that is not overloaded."""
POLL_S = 0.02
SLOT_WAIT_S = 1.0
"""Another launch looks for a moment only."""


@contextmanager
def launching(files: RunFiles, plan: Plan | None = None) -> Iterator[None]:
    """The right to begin or remove this run; one process at a time has it. Makes the directory.

    Raises `Busy`, `LaunchError` when the directory cannot be written, and `RunOccupied` when it holds something else
    than what `plan` needs; nothing is left in it then.
    """
    with refusals_told("write the run directory", files.directory, LaunchError):
        files.directory.mkdir(parents=True, exist_ok=True)
        if plan is not None:
            _refuse_foreign_content(files, plan)
        with locked(files.lock, wait_s=SIGN_IN_S + 5):
            yield


def _refuse_foreign_content(files: RunFiles, plan: Plan) -> None:
    """Raise `RunOccupied` when the directory holds no run, but anything that a cut off launch does not leave there."""
    written = (files.config, files.evaluations, files.supervisor_log, files.lock, files.notebooks, files.report)
    ours = {path.name for path in (*written, files.earlier)}
    ours |= {name.split("/")[0] for name in plan.files}
    names = {path.name for path in files.directory.iterdir()}
    foreign = sorted(name for name in names - ours if not name.startswith("."))  # .DS_Store, .ipynb_checkpoints
    if foreign and not files.record.exists():  # looked for last: a launch may be under way
        raise RunOccupied(
            f"the directory holds no run, but other things: {', '.join(foreign[:5])}",
            look=files.directory,
            hint="choose another run_name",
        )


def begin_attempt(files: RunFiles, plan: Plan, *, before: RunRecord | None = None) -> str | None:
    """Fill the directory, start the supervisor and wait until it has signed in. `before` is the attempt before.

    `run.json` comes last: a launch that is cut off earlier leaves no run. Raises `Busy` while another process has the
    processor that the run needs, `EngineMissing` when what would start cannot be imported, `ConfigError` when the plan
    may not report to the W&B account here, `LaunchError`, or `OSError`. Returns what the reader should know: about the
    account, and about a configuration that was there.
    """
    if plan.exclusive_cpu:
        with cpu_slot(f"a launch in {files.directory}", wait_s=SLOT_WAIT_S):
            pass  # now, not as a run that failed at once; the supervisor takes it for good
    engines.find_engine(plan.engine).require_ready(plan)
    plan = with_account(plan)
    told = [account_note(plan)]
    for name, text in plan.files.items():
        path = files.directory / name
        if path == files.config:  # where readers write, too
            kept = save_config(RunConfig.model_validate(tomllib.loads(text)), files)
            told.append(kept and f"What config.toml held before, other values, is kept as {kept}.")
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text)
    files.stop_request.unlink(missing_ok=True)
    if before:
        remove_half_checkpoints(files.directory, plan.layout)
    record = RunRecord(
        name=files.directory.name,
        plan=plan,
        state=State.PLANNED,
        attempt=before.attempt + 1 if before else 1,
        mark=(before and before.mark) or uuid.uuid4().hex,
        created_at=before.created_at if before else datetime.now().astimezone().isoformat(timespec="seconds"),
    )
    write_record(files, record)
    _await_sign_in(files, _start_supervisor(files, record))
    return "\n".join(filter(None, told)) or None


def _start_supervisor(files: RunFiles, record: RunRecord) -> "subprocess.Popen[bytes]":
    # -P: a file in some folder that is called like a module must not be imported in its place.
    argv = (sys.executable, "-P", "-m", "rlguide.supervisor", str(files.directory))
    with open_file(files.supervisor_log, "ab") as output:
        child = subprocess.Popen(
            argv,
            cwd=files.directory,
            env=os.environ | {MARK: str(record.mark)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    threading.Thread(target=child.wait, daemon=True).start()  # so that it does not stay a zombie when it ends
    return child


def _await_sign_in(files: RunFiles, child: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + SIGN_IN_S
    while read_record(files).supervisor is None:
        if child.poll() is not None:
            if read_record(files).supervisor:  # between the two looks it signed in, and a short run was over
                return
            told = "\n".join(last_lines(files.supervisor_log, 5))
            raise LaunchError(f"the supervisor ended at once:\n{told}", look=files.supervisor_log)
        if time.monotonic() >= deadline:
            child.terminate()
            raise LaunchError(f"the supervisor did not start within {SIGN_IN_S:g} s", look=files.supervisor_log)
        time.sleep(POLL_S)
