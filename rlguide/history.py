"""The steps of a run, merged and in order. Pure: no files, no clock."""

from collections.abc import Iterable
from statistics import fmean
from typing import Any

from pydantic import ValidationError

from rlguide.records import StepRecord


class History:
    """The steps that made the policy what it is, one record a step, in the order of steps.

    Of several records of one step in one attempt the last counts. Where a later attempt begins, all steps of earlier
    attempts from there on were undone and are left out.
    """

    def __init__(self, records: Iterable[StepRecord] = ()):
        records = tuple(records)
        self.steps: tuple[StepRecord, ...] = _in_effect(records)
        self.recorded: frozenset[int] = frozenset(record.step for record in records)
        """Every step that was ever recorded, also those that a later attempt undid."""

    def __len__(self) -> int:
        return len(self.steps)

    @property
    def first(self) -> StepRecord | None:
        return self.steps[0] if self.steps else None

    @property
    def last(self) -> StepRecord | None:
        return self.steps[-1] if self.steps else None

    @property
    def completed_updates(self) -> int:
        """Weight updates done so far."""
        return self.last.completed_updates if self.last else 0

    @property
    def rewards(self) -> tuple[float | None, ...]:
        """Mean reward of each step; `None` where it is not known."""
        return tuple(step.reward for step in self.steps)

    def mean_reward(self, *, last: int) -> float | None:
        """Mean of the known rewards among the last `last` steps."""
        known = [reward for reward in self.rewards[-last:] if reward is not None]
        return fmean(known) if known else None


def _in_effect(records: Iterable[StepRecord]) -> tuple[StepRecord, ...]:
    attempts: dict[int, dict[int, StepRecord]] = {}
    for record in records:
        attempts.setdefault(record.attempt, {})[record.step] = record
    kept: dict[int, StepRecord] = {}
    for _, steps in sorted(attempts.items()):
        kept = {step: record for step, record in kept.items() if step < min(steps)} | steps
    return tuple(record for _, record in sorted(kept.items()))


def parse_steps(text: str) -> History:
    """The history in the text of `steps.jsonl`. A line that is not whole, as a killed writer leaves it, is skipped."""
    return History(record for line in text.split("\n") if (record := _parse_step(line)) is not None)


def _parse_step(line: str) -> StepRecord | None:
    try:
        return StepRecord.model_validate_json(line)
    except ValidationError:
        return None


class StepMerger:
    """Joins what several components say about the steps of one attempt.

    A step is given out once every component has told its part, or once a later step is complete; a part that comes
    later still gives the step out again.
    """

    def __init__(self, components: Iterable[str], *, attempt: int):
        self._components = frozenset(components)
        self._attempt = attempt
        self._parts: dict[int, dict[str, Any]] = {}
        self._told: dict[int, set[str]] = {}
        self._given: set[int] = set()

    def add(self, component: str, part: dict[str, Any], *, elapsed_s: float | None) -> list[StepRecord]:
        """Take one part, a dialect's result; returns the records that are ready now, in the order of steps."""
        step = part["step"]
        known = self._parts.setdefault(step, {"completed_updates": 0})
        if step in self._given and part.items() <= known.items():  # told again, by a log that was read anew
            return []
        updates = max(known["completed_updates"], part["completed_updates"])
        known.update(part, completed_updates=updates, elapsed_s=elapsed_s)
        told = self._told.setdefault(step, set())
        told.add(component)
        if step in self._given:
            return [self._give(step)]
        if told < self._components:
            return []
        return [self._give(other) for other in self._open() if other <= step]

    def flush(self) -> list[StepRecord]:
        """The steps that were not given out yet, for the end of a run."""
        return [self._give(step) for step in self._open()]

    def _open(self) -> list[int]:
        return sorted(self._parts.keys() - self._given)

    def _give(self, step: int) -> StepRecord:
        self._given.add(step)
        return StepRecord(attempt=self._attempt, **self._parts[step])
