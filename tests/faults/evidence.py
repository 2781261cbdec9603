"""What a fault is expected to leave, and what was really seen.

Both sides are told in the same words by the same code, from facts; neither is a sentence that somebody wrote down.
"""

from collections.abc import Callable
from dataclasses import dataclass

from toy import ENGINE, eventually, processes_below

from rlguide.errors import RlguideError
from rlguide.parsing import parse_trl
from rlguide.records import RunRecord, State
from rlguide.run import Run


@dataclass(frozen=True)
class Expected:
    """What must be found once a fault has done its work."""

    state: State
    says: str = ""
    """Part of the reason that the reader is told."""
    steps: int = 2
    """Recorded steps, at least; whatever the engine wrote of its steps must be among them."""
    saved: str = ""
    """What must be there to go on with or to use: `checkpoint` or `weights`."""
    also: str = ""
    """What else the fault's own code looks at, in words."""

    def __str__(self) -> str:
        alive = "nothing alive" if self.state.is_over else "the same processes alive"
        parts = [f"{self.state}{self.says and f', {self.says!r}'}", alive, f"{self.steps} steps kept"]
        return "; ".join([*parts, *filter(None, [self.saved, self.also])])


class Fault:
    """One injected fault: what is expected of it, and what is seen."""

    def __init__(self, expected: Expected):
        self.expected = expected
        self._seen: list[str] = []

    @property
    def seen(self) -> str:
        return "; ".join(self._seen)

    def note(self, words: str) -> None:
        """Add something seen that the common facts do not hold."""
        self._seen.append(words)

    def check(self, run: Run, *, found: RunRecord | None = None) -> RunRecord:
        """Look at the run, note the facts, and hold them against what is expected.

        A run that is over must have no process left. One that is not must go on with the processes that it had, and
        is stopped afterwards. `found` is what a stop returned: it may know more than a look at the directory.
        """
        status = found or run.status
        before, reported = self._who(run, status), reported_steps(run)
        if not status.state.is_over:
            known = len(run.history)
            _await(lambda: len(steps := recorded_steps(run)) > known + 1 and reported <= steps)
            status = run.status
        else:
            _await(lambda: not processes_below(run.directory))
        alive, steps = self._who(run, status), recorded_steps(run)
        saved = saved_by(run)
        self.note(f"{status.state}{(status.reason and f', {status.reason!r}') or ''}")
        self.note(f"alive: {', '.join(sorted(alive)) or 'nothing'}")
        unrecorded = reported - steps
        self.note(f"{len(steps)} steps kept{f', {len(unrecorded)} more in the log of the engine' * bool(unrecorded)}")
        self.note(saved or "nothing saved")

        assert status.state is self.expected.state
        assert self.expected.says in (status.reason or "")
        assert alive == ({} if status.state.is_over else before)
        assert status.state.is_over or {"supervisor", "trainer"} <= alive.keys()
        assert not unrecorded or status.state is State.INTERRUPTED  # a resume finds them
        assert len(steps) >= self.expected.steps
        assert self.expected.saved in saved
        if not status.state.is_over:
            run.stop()
            _await(lambda: not processes_below(run.directory))  # another host's supervisor is not seen leaving
            assert processes_below(run.directory) == []
        return status

    def _who(self, run: Run, status: RunRecord) -> dict[str, int]:
        """Live processes of the run by role."""
        named = {one.identity.pid: one.name for one in status.components if one.identity}
        named |= {status.supervisor.pid: "supervisor"} if status.supervisor else {}
        return {named.get(p.pid, f"child {p.pid}"): p.pid for p in processes_below(run.directory)}


def _await(claim: Callable[[], object]) -> None:
    """Give it time; what is found afterwards is judged, and told, whether it came or not."""
    try:
        eventually(claim, within_s=10)
    except AssertionError:
        return


def recorded_steps(run: Run) -> set[int]:
    return {step.step for step in run.history.steps}


def reported_steps(run: Run) -> set[int]:
    """The steps that the engine wrote whole lines about, read here without the package's own reader of logs."""
    path = run.directory / ENGINE / "logs" / "metrics.jsonl"
    lines = path.read_text(errors="replace").split("\n")[:-1] if path.is_file() else []
    return {part["step"] for line in lines if (part := parse_trl(line)) is not None}


def saved_by(run: Run) -> str:
    """What the engine saved: complete weights, or a checkpoint with its step."""
    if (weights := run.weights) is not None:
        return f"weights of {weights.name.replace('_', ' ')}"
    checkpoint = run.directory / ENGINE / "checkpoints" / "last"
    return f"checkpoint of step {checkpoint.read_text()}" if checkpoint.is_file() else ""


def refusal(action: Callable[[], object]) -> RlguideError:
    """The error of ours that `action` ends in."""
    try:
        action()
    except RlguideError as error:
        return error
    raise AssertionError("it was not refused")
