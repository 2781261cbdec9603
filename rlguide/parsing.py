"""Turns lines that engines write into parts of step records, and into failures. Pure: text in, data out.

A dialect gives what one line says about one step, or `None` for any other line. Several sources may each know a
part of a step; every part names its `step` and its `completed_updates`.
"""

import json
from collections.abc import Callable
from typing import Any

from pydantic import ValidationError

from rlguide.dialects import parse_engine_death, parse_failure, parse_orchestrator, parse_trainer
from rlguide.records import Rollout, StepRecord

FIELDS = frozenset(StepRecord.model_fields) - {"attempt", "elapsed_s"}
"""What an engine may say of a step; the attempt and the clock are the supervisor's."""


def parse_trl(line: str) -> dict[str, Any] | None:
    """Our trl engine: one JSON object a line with fields of `StepRecord`. A value that is not finite is a gap."""
    try:
        found = json.loads(line)
        step = StepRecord.model_validate({key: found[key] for key in FIELDS & found.keys()})
    except (ValueError, RecursionError, AttributeError):  # no JSON, no object, or not of a step
        return None
    return step.model_dump(exclude_unset=True, exclude_none=True)


DIALECTS: dict[str, Callable[[str], dict[str, Any] | None]] = {
    "trl": parse_trl,
    "prime-rl-0.5 orchestrator": parse_orchestrator,
    "prime-rl-0.5 trainer": parse_trainer,
}
"""Name in a plan's `MetricSource` → parser of one line."""
ALARMS: dict[str, Callable[[str], tuple[str, int | None] | None]] = {
    "prime-rl-0.5 launcher": parse_failure,
    "prime-rl-0.5 inference": parse_engine_death,
}
"""The same for the `alarms` of a plan: the component that failed, as in the layout of logs, and its exit code; `None`
when it has lost a process of its own and lives on."""
HOLDING = {
    "prime-rl-0.5 orchestrator": b"Step ",
    "prime-rl-0.5 trainer": b"Step ",
    "prime-rl-0.5 launcher": b" failed with exit code ",
    "prime-rl-0.5 inference": b"EngineDeadError",
}
"""Dialect → bytes that every line it understands holds, so that a reader can pass over the others quickly."""


def parse_rollouts(text: str, step: int | None = None) -> tuple[Rollout, ...]:
    """The rollouts of a step, one JSON object a line; what is none, or still being written, is left out.

    `step` is for those of prime-rl, which do not name theirs.
    """
    whole, _, _ = text.rpartition("\n")
    return tuple(rollout for line in whole.split("\n") if (rollout := _parse_rollout(line, step)) is not None)


def _parse_rollout(line: str, step: int | None) -> Rollout | None:
    try:
        return Rollout.model_validate_json(line)
    except ValidationError:
        return _of_prime_rl(line, step)


def _of_prime_rl(line: str, step: int | None) -> Rollout | None:
    """A rollout as prime-rl writes it: prompt and completion are chats of one turn."""
    try:
        found = json.loads(line)
        text, completion = (found[chat][-1]["content"] for chat in ("prompt", "completion"))
        kept = {key: found.get(key) for key in ("reward", "advantage")}
        return Rollout(step=step, text=text, completion=completion, **kept)
    except (ValueError, LookupError, TypeError, RecursionError):  # ValueError: also pydantic's
        return None
