"""The life of one attempt, as its supervisor leads it: it starts the processes, watches them, and ends all of them.

It alone writes `run.json` and `steps.jsonl`. It is asked to stop by the file `stop-request` or by a signal.
"""

import logging
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rlguide.errors import RlguideError
from rlguide.family import end_tree, left_over
from rlguide.files import exists, free_bytes, open_file, remove_file
from rlguide.following import Follower
from rlguide.paths import RunFiles
from rlguide.process import identity_of, own_identity
from rlguide.records import ComponentStatus, RunRecord, State, StepRecord, StoppedBy
from rlguide.redact import redact_files
from rlguide.saved import resume_args
from rlguide.starting import reap_orphans, start, wake_on_signals
from rlguide.store import StepLog, read_history, read_record, write_record

POLL_S = 0.2
HEARTBEAT_S = 5.0
"""Longest time between two writes of `run.json`, which also repair it or catch up after a full disk."""
FAILURE_GRACE_S = 10.0
"""Grace for the siblings of a component that failed, and for whoever cleans up after it: nothing is left to save."""
LAST_WRITE_S = 30.0
"""How long the end of a run tries to get onto a full disk."""
RESERVE_BYTES = 2**17
"""Kept on the disk while a run lives, and given back when its end cannot be written: `run.json` takes far less."""

log = logging.getLogger("rlguide.supervisor")


@dataclass(frozen=True)
class Ending:
    """Why a run is over."""

    state: State
    reason: str | None = None
    stopped_by: StoppedBy | None = None
    failed_component: str | None = None


class Supervisor:
    """One attempt of a run; `children` of it were started already. `began` is the monotonic time of its beginning.

    Signals that ask it to end are put into `asked` by whoever hears them.
    """

    def __init__(
        self, files: RunFiles, children: dict[str, "subprocess.Popen[bytes]"], *, asked: list[int], began: float
    ):
        self._began = began
        self._asked = asked
        self._files = files
        self._record = read_record(files)
        self._plan = self._record.plan
        self._children = children
        self._follower = Follower(self._plan, attempt=self._record.attempt, complain=self._complain)
        self._steps = StepLog(files.steps)
        self._completed_updates = read_history(files).completed_updates
        self._complete_since: float | None = None
        self._written_at = 0.0
        self._complaint: str | None = None

    def run(self, refused: RlguideError | None = None) -> State:
        """Live through the attempt; returns how it ended, with nothing of it alive any more.

        `refused` says why it may not begin.
        """
        self._sleep = wake_on_signals()
        self._update(state=State.STARTING, supervisor=own_identity())
        with suppress(OSError), open_file(self._files.reserve, "wb") as reserve:  # a full disk: then there is none
            reserve.write(bytes(RESERVE_BYTES))
        ending = Ending(State.FAILED, f"{refused.message}; {refused.hint}") if refused else self._end(self._live())
        self._write_ending(ending)
        return ending.state

    def _live(self) -> Ending:
        try:
            if self._record.attempt > 1:
                self._catch_up()
            return self._start() or self._follow()
        except Exception as error:  # whatever goes wrong here, the processes must not be left alone
            log.exception("the supervisor failed")
            return Ending(State.FAILED, reason=f"the supervisor failed: {error!r}; see {self._files.supervisor_log}")

    def _is_displaced(self) -> bool:
        """True when the run directory is gone from its place, also when another is there; it is where we work."""
        try:
            return not self._files.directory.samefile(Path())
        except OSError:  # a disk over a network is away for a moment
            return exists(self._files.directory) is False

    def _is_replaced(self) -> bool:
        """True when another run is in our place: its record is not ours to write."""
        try:
            return self._is_displaced() and read_record(self._files).mark != self._record.mark
        except RlguideError:
            return False

    # ------------------------------------------------------------------------------------------ starting, following

    def _catch_up(self) -> None:
        """Record what the attempt before wrote after its supervisor was gone, and begin behind it."""
        known = read_history(self._files).recorded
        for step in self._follower.catch_up():
            if step.step not in known:
                self._steps.add(step)
                self._completed_updates = max(self._completed_updates, step.completed_updates)

    def _start(self) -> Ending | None:
        for index, process in enumerate(self._plan.processes):
            if index == 0 and self._record.attempt > 1:
                process = process.model_copy(update={"argv": process.argv + resume_args(self._plan)})
            try:
                if process.name not in self._children:
                    self._children[process.name] = start(process, self._files.directory)
            except OSError as error:
                reason = f"{process.name} could not be started: {error}"
                return Ending(State.FAILED, reason=reason, failed_component=process.name)
            pid = self._children[process.name].pid
            log.info("started %s, pid %d", process.name, pid)
            started = ComponentStatus(name=process.name, identity=identity_of(pid))
            self._update(components=(*self._record.components, started))
        return None

    def _follow(self) -> Ending:
        while True:
            exits = {name: code for name, child in self._children.items() if (code := child.poll()) is not None}
            self._look()  # after the poll: what an ended process wrote last is there now
            ending = self._asked_to_stop() or self._told_of_failure() or self._exited(exits) or self._stalled()
            if ending is not None:
                return ending
            self._sleep(POLL_S)

    def _look(self) -> None:
        """Take in new steps, write what is due, collect orphans."""
        for step in self._follower.steps(self._elapsed_s()):
            self._note_step(step)
        if self._is_complete() and self._complete_since is None:
            self._complete_since = time.monotonic()
        self._show_life()
        reap_orphans(self._children.values())

    def _note_step(self, step: StepRecord) -> None:
        self._steps.add(step)
        self._completed_updates = max(self._completed_updates, step.completed_updates)
        ready_s = self._record.ready_s if self._record.ready_s is not None else self._elapsed_s()
        self._update(state=State.RUNNING, ready_s=ready_s)

    # --------------------------------------------------------------------------------------------- reasons to end

    def _asked_to_stop(self) -> Ending | None:
        if exists(self._files.stop_request):
            return Ending(State.STOPPED, "stopped on request", StoppedBy.USER)
        if self._is_displaced():  # nobody could find or stop it any more
            return Ending(State.FAILED, "the run directory was removed or moved away")
        if self._asked:
            return Ending(State.STOPPED, f"the supervisor got {signal.Signals(self._asked[0]).name}", StoppedBy.SIGNAL)
        if self._elapsed_s() >= self._plan.time_limit_s:
            return Ending(State.STOPPED, f"time limit of {self._plan.time_limit_s:g} s reached", StoppedBy.TIME_LIMIT)
        return None

    def _done(self) -> str:
        return f"after {self._completed_updates} of {self._plan.max_steps} steps"

    def _exited(self, exits: dict[str, int]) -> Ending | None:
        """The first process that ended decides, one that failed before one that did not."""
        for name, code in sorted(exits.items(), key=lambda item: item[1] == 0):
            if code == 0 and self._is_complete():
                return Ending(State.SUCCEEDED)
            missing = "complete weights of the last step" if self._is_last_step_done() else "its last step"
            reason = self._how_it_ended(name, code) + (f", without {missing}" if code == 0 else "")
            return Ending(State.FAILED, reason, failed_component=name)
        return None

    def _told_of_failure(self) -> Ending | None:
        """A component that the engine started, and says that it failed: the engine may take minutes to clean up."""
        if (failure := self._follower.failure()) is None:
            return None
        name, code, component = failure
        return Ending(State.FAILED, self._how_it_ended(name, code), failed_component=component)

    def _how_it_ended(self, name: str, code: int | None) -> str:
        if code is None:
            return f"{name} lost a process of its own {self._done()}"
        told = -code in signal.valid_signals()  # what a log says may be any number
        how = f"signal {-code} ({signal.strsignal(-code)})" if told else f"exit code {code}"
        return f"{name} ended with {how} {self._done()}"

    def _stalled(self) -> Ending | None:
        """Everything is there, but a process does not exit: that must not take longer than the grace period."""
        if self._complete_since is None or time.monotonic() - self._complete_since < self._plan.grace_s:
            return None
        seconds = time.monotonic() - self._complete_since
        return Ending(State.SUCCEEDED, f"training complete, shutdown stalled {seconds:.0f} s and was ended")

    def _is_last_step_done(self) -> bool:
        return self._completed_updates >= self._plan.max_steps

    def _is_complete(self) -> bool:
        """The last step was reached and its weights are whole, where a recording has none. Exit 0 says neither."""
        layout = self._plan.layout
        marker = self._files.directory / layout.weights / f"step_{self._plan.max_steps}" / layout.weights_marker
        return self._is_last_step_done() and (self._plan.recording is not None or exists(marker) is True)

    # --------------------------------------------------------------------------------------------------- the end

    def _end(self, ending: Ending) -> Ending:
        """End everything that is still alive, and finish the reason with what was found."""
        log.info("ending: %s", ending.reason or ending.state)
        self._update(reason=ending.reason, stopped_by=ending.stopped_by, failed_component=ending.failed_component)
        failed = ending.state is State.FAILED
        grace_s = min(self._plan.grace_s, FAILURE_GRACE_S) if failed else self._plan.grace_s
        roots = [own_identity(), *(status.identity for status in self._record.components if status.identity)]
        left = end_tree(roots, grace_s=grace_s, mark=self._record.mark, at_once=failed, while_waiting=self._look_on)
        self._look_on(last=True)
        if ending.state is State.STOPPED and self._is_complete():
            ending = Ending(State.SUCCEEDED, "the last step was done when it was asked to stop")
        elif ending.state is State.STOPPED:  # counted now: steps may have been done while it was ending
            ending = replace(ending, reason=f"{ending.reason} {self._done()}")
        elif ending.state is State.FAILED and free_bytes(self._files.directory) < RESERVE_BYTES:
            ending = replace(ending, reason=f"{ending.reason}; the disk of the run directory is full")
        told = left_over(left)
        return replace(ending, reason=f"{ending.reason or ending.state}; {told}") if told else ending

    def _look_on(self, *, last: bool = False) -> None:
        try:
            self._look()
            for step in self._follower.unfinished() if last else ():
                self._note_step(step)
        except Exception:  # nothing that goes wrong in looking may keep the processes from being ended
            log.exception("a look failed while ending")

    def _write_ending(self, ending: Ending) -> None:
        redact_files(self._files.engine, self._files.supervisor_log, meanwhile=self._show_life)
        components = tuple(
            status.model_copy(update={"exit_code": self._children[status.name].poll()})
            for status in self._record.components
        )
        log.info("over: %s%s", ending.state, f", {ending.reason}" if ending.reason else "")
        deadline = time.monotonic() + LAST_WRITE_S
        last = {"components": components, **vars(ending)}
        while not self._update(**last) and exists(self._files.directory) is not False and time.monotonic() < deadline:
            remove_file(self._files.reserve)
            time.sleep(0.5)
        remove_file(self._files.reserve)

    # --------------------------------------------------------------------------------------------------- writing

    def _elapsed_s(self) -> float:
        return round(time.monotonic() - self._began, 3)

    def _update(self, **changes: Any) -> bool:
        """Change the record and write it. A full disk must not end the supervision: False, and tried again later."""
        self._record: RunRecord = self._record.model_copy(update={"elapsed_s": self._elapsed_s(), **changes})
        self._written_at = time.monotonic()
        try:
            if not self._is_replaced():
                try:
                    self._steps.flush()
                finally:  # the end of the run is worth more than its steps, which their log holds too
                    write_record(self._files, self._record)
        except OSError as error:
            self._complain(f"cannot write, trying again: {error}")
            return False
        return True

    def _show_life(self) -> None:
        if time.monotonic() - self._written_at >= HEARTBEAT_S:
            self._update()

    def _complain(self, complaint: str) -> None:
        if complaint != self._complaint:
            log.error("%s", complaint)
        self._complaint = complaint
