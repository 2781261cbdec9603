"""A run is a directory: launch one, find it again from any process, look at it, wait for it, stop it, go on with it.

Training itself lives in processes of its own under `rlguide.supervisor`; nothing here keeps it alive or ends with it.
Looking never signals and never writes.
"""

import time
from collections.abc import Callable
from pathlib import Path

from rlguide import ending
from rlguide.errors import Busy, ConfigError, RlguideError, RunOccupied, WaitTimeout, interrupted
from rlguide.family import KILL_LIMIT_S, ORPHAN_GRACE_S, marked
from rlguide.history import History
from rlguide.launching import begin_attempt, launching
from rlguide.parsing import parse_rollouts
from rlguide.paths import RunFiles, outputs_root
from rlguide.process import is_alive
from rlguide.records import Plan, Rollout, RunRecord, RunSummary, State
from rlguide.saved import newest_checkpoint, newest_weights
from rlguide.slot import locked
from rlguide.store import find_run, read_history, read_record, read_text, run_folders, sleep_until_written
from rlguide.tail import last_lines
from rlguide.view.text import deed

POLL_S = 0.3
STOP_MARGIN_S = 15.0
"""Seconds that a stop may take beyond the grace period, the orphans' grace and the kill: polls, writes, a slow disk."""
SILENCE_S = 20.0
"""A supervisor that wrote nothing for so long does not react; it writes `run.json` every 5 seconds."""
LEAVING_S = 5.0
"""How long a supervisor and its caretaker may take to be gone after the end of a run was written."""
watching: "Callable[[Run], Callable[[RunRecord, History], None]] | None" = None
"""Makes what `wait` tells about a run when it is not told whom to tell: in a notebook, a live display."""


def launch(plan: Plan) -> "Run":
    """Start the run that `plan` describes; returns at once, and the run goes on without this process.

    Where the same plan is already starting, running or has succeeded, nothing starts and the handle says so in its
    `notice`. Raises `RunOccupied` when the directory holds anything else, `LaunchError` when nothing could be started,
    `ConfigError` when the W&B key is another account's than expected, or nobody's.
    """
    files = RunFiles(plan.directory)
    with launching(files, plan):
        if files.record.exists():
            return _attach_or_refuse(Run(files.directory), plan)
        return Run(files.directory, notice=begin_attempt(files, plan))


def _attach_or_refuse(run: "Run", plan: Plan) -> "Run":
    status = run._look(launching_here=True)
    if status.plan.fingerprint != plan.fingerprint:
        hint = "choose another run_name, or remove that run with clean"
        raise RunOccupied(f"{status.name!r} holds a run of another plan", look=run.directory, hint=hint)
    if status.state.is_over and not status.state.is_success:
        why = f": {status.reason}" if status.reason else ""
        hint = "remove it with clean, or choose another run_name"
        hint = f"resume it from its last checkpoint, {hint}" if run.checkpoint else hint
        raise RunOccupied(f"run {status.name!r} {deed(status.state)}{why}", look=run.directory, hint=hint)
    found, done = deed(status.state, already=True), run.history.completed_updates
    run.notice = f"attached: this run {found}, {done} of {plan.max_steps} steps done"
    return run


def attach(run: "Run | str | Path") -> "Run":
    """The run in a folder, or of a name below the outputs folder; a handle is returned as it is.

    Raises `RunNotFound`, `RunDamaged`, or `ConfigError` for what can be no path.
    """
    if not isinstance(run, Run):
        run = Run(find_run(Path(run)))
        _ = run.record  # says now, not later, that it cannot be read
    return run


def list_runs(root: Path | None = None) -> list[RunSummary]:
    """All runs in the folder `root` (default: the outputs folder), the newest first."""
    summaries = [_summary(Run(folder)) for folder in run_folders(root or outputs_root())]
    return sorted(summaries, key=lambda summary: summary.created_at or "", reverse=True)


def _summary(run: "Run") -> RunSummary:
    try:
        status, history = run.status, run.history
    except RlguideError as error:  # one odd run must not hide the others
        return RunSummary(name=run.directory.name, directory=run.directory, state=None, problem=error.message)
    return RunSummary(
        name=status.name,
        directory=run.directory,
        state=status.state,
        problem=ending.origin(status),
        engine=status.plan.engine,
        created_at=status.created_at,
        age_s=ending.age_s(status),
        elapsed_s=status.elapsed_s,
        completed_updates=history.completed_updates,
        max_steps=status.plan.max_steps,
        reward_first=history.first.reward if history.first else None,
        reward_last=history.last.reward if history.last else None,
    )


class Run:
    """A handle on one run directory. Any number of handles, in any number of processes, may look at one run."""

    def __init__(self, directory: Path, *, notice: str | None = None):
        self.files = RunFiles(directory)
        self.notice = notice
        """What the reader should be told about how this handle was made, for example that the run was there."""

    @property
    def directory(self) -> Path:
        return self.files.directory

    def __repr__(self) -> str:
        return f"Run({str(self.directory)!r})"

    @property
    def argument(self) -> str:
        """What a command calls this run: its name below the outputs folder, its directory elsewhere."""
        return self.directory.name if self.directory.parent == outputs_root() else str(self.directory)

    # ---------------------------------------------------------------------------------------------------- looking

    @property
    def record(self) -> RunRecord:
        """`run.json` as it stands. Raises `RunNotFound` or `RunDamaged`."""
        return read_record(self.files)

    @property
    def status(self) -> RunRecord:
        """The record with the state as found at this look: `interrupted` when nobody supervises the run any more."""
        return self._look()

    def _look(self, *, launching_here: bool = False) -> RunRecord:
        record = self.record
        while not record.state.is_over and not self._is_supervised(record, launching_here):
            again = self.record
            if again == record:
                why = ending.why_interrupted(self.files, record)
                return record.model_copy(update={"state": State.INTERRUPTED, "reason": why})
            record = again  # written between the two looks: the supervisor signed in, or wrote the end
        told = [ending.origin_told(record), record.reason] if record.made_in else [record.reason]
        return record.model_copy(update={"reason": "; ".join(filter(None, told)) or None})

    @property
    def history(self) -> History:
        """The steps so far."""
        return read_history(self.files)

    @property
    def weights(self) -> Path | None:
        """Folder of the newest complete weights, `None` before there are any."""
        return newest_weights(self.directory, self.record.plan.layout)

    @property
    def checkpoint(self) -> Path | None:
        """Folder of the newest complete checkpoint, from which `resume` goes on; `None` before there is one."""
        return newest_checkpoint(self.directory, self.record.plan.layout)

    def tail(self, component: str, lines: int = 20) -> list[str]:
        """The last lines of a component's log; `supervisor` has one too. Raises `ConfigError` for another name."""
        plan = self.record.plan
        logs = {process.name: process.log for process in plan.processes} | plan.layout.logs
        logs["supervisor"] = self.files.supervisor_log
        if component not in logs:
            raise ConfigError(f"no component {component!r} in this run", hint=f"components: {', '.join(logs)}")
        return last_lines(self.directory / logs[component], lines)

    def rollouts(self, step: int) -> tuple[Rollout, ...]:
        """The rollouts of a step, by the engine's own number; empty when they are not there. Raises `RunDamaged`."""
        layout = self.record.plan.layout
        path = self.directory / layout.rollouts / f"step_{step}" / layout.rollouts_file
        return parse_rollouts(read_text(path), step)

    # ---------------------------------------------------------------------------------------------------- acting

    def wait(
        self, timeout_s: float | None = None, *, on_update: Callable[[RunRecord, History], None] | None = None
    ) -> RunRecord:
        """Block until the run is over; returns its record, whatever the end was. Interrupting the wait leaves the run.

        `on_update` is called with every look, several times a second. Raises `WaitTimeout` after `timeout_s` seconds.
        """
        try:
            return self._wait(timeout_s, on_update)
        except KeyboardInterrupt:
            raise interrupted(f"run {self.directory.name!r} goes on; `run.stop()` ends it") from None

    def _wait(self, timeout_s: float | None, on_update: Callable[[RunRecord, History], None] | None) -> RunRecord:
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        on_update = on_update or (watching and watching(self))
        while True:
            sleep = sleep_until_written(self.files)
            status = self.status
            if on_update is not None:
                on_update(status, self.history)
            if status.state.is_over:
                self._wait_until_left(status)
                return status
            if deadline is not None and time.monotonic() >= deadline:
                hint = "it goes on; wait again, or stop it"
                raise WaitTimeout(f"run {status.name!r} is still {status.state}", look=self.directory, hint=hint)
            sleep(POLL_S)

    def stop(self, *, silence_s: float = SILENCE_S) -> RunRecord:
        """End the run and everything that belongs to it; returns when nothing is left. Harmless when it is over.

        The engine gets its grace period to save; a second stop does not shorten it. Where the supervisor writes nothing
        for `silence_s` seconds, or takes longer than all limits together, stop ends the processes and says so.
        """
        if not (status := self.status).state.is_over:
            ending.request_stop(self.files, status)
            status = self._await_end(status, silence_s)
        if status.made_in or ending.is_settled(status):
            return status
        silent = None if status.state.is_over else ending.no_reaction(status)
        told = [sentence for sentence in (silent, ending.end_processes(self.files, status)) if sentence]
        found = self.status
        return found.model_copy(update={"reason": "; ".join(told)}) if told and not ending.is_settled(found) else found

    def _await_end(self, status: RunRecord, silence_s: float) -> RunRecord:
        """Wait until the run is over; returns it as it is when its supervisor falls silent or takes too long."""
        deadline = time.monotonic() + status.plan.grace_s + ORPHAN_GRACE_S + KILL_LIMIT_S + STOP_MARGIN_S
        tell = watching(self) if watching else None
        while time.monotonic() < deadline:
            try:
                return self._wait(silence_s, tell)
            except WaitTimeout:
                before, status = status, self.status
            if status == before:  # a supervisor that lives writes the time every few seconds
                break
        return status

    def resume(self) -> "Run":
        """Go on from the last complete checkpoint, as the next attempt of the same plan.

        Raises `RunOccupied` unless the run failed, was stopped or was interrupted, or while a process of it cannot be
        killed, and `ConfigError` as `launch` does.
        """
        _ = self.record
        with launching(self.files):
            status = self._look(launching_here=True)
            if not status.state.is_over or status.state.is_success:
                longer = "evaluate it; for more steps launch a run of another name"
                hint = longer if status.state.is_success else "watch it, or stop it first"
                raise RunOccupied(f"run {status.name!r} {deed(status.state)}", look=self.directory, hint=hint)
            if status.made_in:
                hint = "launch it anew under its new name"
                raise RunOccupied(f"this run was made in {status.made_in}", look=self.directory, hint=hint)
            if left := ending.end_processes(self.files, status):
                hint = "wait until it is gone, or restart the machine; then resume"
                raise RunOccupied(f"a process of the attempt before {left}", look=self.directory, hint=hint)
            self.notice = begin_attempt(self.files, status.plan, before=status)
        return self

    def clean(self) -> None:
        """Remove the directory of a run that is over, with everything in it; never outside the outputs folder.

        Raises `RunOccupied` when the run is not over, still has processes, or lies elsewhere.
        """
        root = outputs_root()
        if root not in self.directory.parents:
            raise RunOccupied(f"{self.directory} is not below the outputs folder {root}", look=root)
        _ = self.record
        with launching(self.files):
            status = self._look(launching_here=True)
            self._wait_until_left(status)
            if not status.state.is_over or ending.has_processes(status):
                raise RunOccupied(f"run {status.name!r} still has processes", look=self.directory, hint="stop it first")
            ending.remove(self.files)

    # -------------------------------------------------------------------------------------------------- underneath

    def _is_supervised(self, record: RunRecord, launching_here: bool) -> bool:
        if record.made_in:
            return False  # a copy: the processes belong to the original
        if record.supervisor is None:  # whoever launched it may be gone before the supervisor signs in
            return (not launching_here and self._is_being_launched()) or bool(record.mark and marked(record.mark))
        if ending.is_elsewhere(record):
            return ending.silent_s(self.files) < SILENCE_S
        return is_alive(record.supervisor)

    def _is_being_launched(self) -> bool:
        """Whoever launches a run holds its lock until the supervisor has signed in."""
        try:
            with locked(self.files.lock, wait_s=0):
                return False
        except Busy:
            return True
        except OSError:  # a directory that we may only read: nobody can launch there
            return False

    def _wait_until_left(self, status: RunRecord) -> None:
        deadline = time.monotonic() + (LEAVING_S if ending.is_settled(status) else 0)
        while ending.has_processes(status) and time.monotonic() < deadline:
            time.sleep(POLL_S / 10)
