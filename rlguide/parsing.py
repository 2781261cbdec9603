"""Turns lines that engines write into parts of step records. Pure: text in, data out.

A dialect gives what one line says about one step, or `None` for any other line. Several sources may each know a
part of a step; every part names its `step` and its `completed_updates`.
"""

import json
import math
from collections.abc import Callable
from typing import Any

from pydantic import ValidationError

from rlguide.records import Rollout, StepRecord

FIELDS = frozenset(StepRecord.model_fields) - {"attempt", "elapsed_s"}
"""What an engine may say of a step; the attempt and the clock are the supervisor's."""


def parse_trl(line: str) -> dict[str, Any] | None:
    """Our trl engine: one JSON object a line with fields of `StepRecord`. A value that is not finite is a gap."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    part = {key: value for key, value in found.items() if key in FIELDS and not _is_gap(value)}
    return part if _fits(part) else None


def _is_gap(value: Any) -> bool:
    return value is None or (isinstance(value, float) and not math.isfinite(value))


def _fits(part: dict[str, Any]) -> bool:
    try:
        StepRecord.model_validate(part)
    except ValidationError:
        return False
    return True


DIALECTS: dict[str, Callable[[str], dict[str, Any] | None]] = {"trl": parse_trl}
"""Name in a plan's `MetricSource` → parser of one line."""


def parse_rollouts(text: str) -> tuple[Rollout, ...]:
    """The rollouts of a step, one JSON object a line; what is none, or still being written, is left out."""
    whole, _, _ = text.rpartition("\n")
    return tuple(rollout for line in whole.split("\n") if (rollout := _parse_rollout(line)) is not None)


def _parse_rollout(line: str) -> Rollout | None:
    try:
        return Rollout.model_validate_json(line)
    except ValidationError:
        return None
