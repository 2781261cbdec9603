"""What prime-rl logs at the run guide's release: parts of step records, failures, and the stage of a run. Pure.

Only what its logger wrote counts, a line that begins with the logger's own time and level, or one JSON object. A
completion that is printed may look like a metric and is none.
"""

import json
import math
import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import partial
from typing import Any

PREFIX = r"\s*(?:\[[A-Za-z]+\d+\]:)?\s*"
"""torchrun names the process before each line, for example `[trainer0]:`."""
LOGGED = re.compile(PREFIX + r"\d\d:\d\d:\d\d +(DEBUG|INFO|SUCCESS|WARNING|ERROR) (.*)", re.DOTALL)
JSON = re.compile(PREFIX + r"(\{.*)", re.DOTALL)
PLACE = re.compile(r" \[[\w.]+::\d+\]$")
"""At debug level a message ends with its place in the code."""
STEP = re.compile(r"Step (\d{1,9}) \| (.*)", re.DOTALL)
ENGINE_DEATH = re.compile(r"(\(\w+ pid=\d+\) )?(ERROR .*?)?[\w.]*\bEngineDeadError\b.*")
"""vLLM's own exception, in its log or at the end of a traceback."""
FAILURE = re.compile(r"(?:Error: )?(\w[^:]{0,99}) failed with exit code (-?\d{1,9})")

Fields = Mapping[str, tuple[str, str]]
"""Name in the log → field of `StepRecord`, and the unit behind the number."""
ORCHESTRATOR: Fields = {
    "Reward": ("reward", ""),
    "Time": ("sampling_s", "s"),
    "Seq. Length": ("sequence_tokens", " tokens/sample"),
    "Max. Off-Policy Level": ("off_policy_level", ""),
}
TRAINER: Fields = {
    "Loss": ("loss", ""),
    "Time": ("seconds", "s"),
    "Entropy": ("entropy", ""),
    "Mismatch KL": ("mismatch_kl", ""),
    "Grad. Norm": ("grad_norm", ""),
    "LR": ("lr", ""),
    "Throughput": ("tokens_per_s", " tokens/s"),
    "MFU": ("mfu", "%"),
    "Peak Mem.": ("peak_memory_gib", " GiB"),
}


def message_of(line: str) -> tuple[str, str] | None:
    """Level and message of a clean line that prime-rl's logger wrote, as text or as JSON; `None` for any other."""
    if found := LOGGED.fullmatch(line):
        message = found[2].rstrip()
        return found[1], PLACE.sub("", message) if message.endswith("]") else message
    found = JSON.fullmatch(line)
    return _json_message(found[1]) if found else None


def _json_message(line: str) -> tuple[str, str] | None:
    try:
        found = json.loads(line)
        level, message = found["level"], found["message"]
    except (ValueError, RecursionError, KeyError):
        return None
    return (level, message) if isinstance(level, str) and isinstance(message, str) else None


def _parse_step(line: str, *, fields: Fields, updates_done: int) -> dict[str, Any] | None:
    """The part of a step that one line tells. What is not printed, not finite or in another unit is left out.

    The first of `fields` makes the line: without it, it is another component's.
    """
    if "Step " not in line:  # nearly every line; the patterns below would take ten times as long to say so
        return None
    level, message = message_of(line) or ("", "")
    found = STEP.fullmatch(message) if level == "SUCCESS" else None
    told = dict(item.split(": ", 1) for item in found[2].split(" | ") if ": " in item) if found else {}
    if found is None or next(iter(fields)) not in told:
        return None
    step = int(found[1])
    part: dict[str, Any] = {"step": step, "completed_updates": step + updates_done}
    numbers = ((field, _number(told.get(name, ""), unit)) for name, (field, unit) in fields.items())
    return part | {field: number for field, number in numbers if number is not None}


def _number(text: str, unit: str) -> float | None:
    """The number before `unit`; `None` for anything else, also for one that is not finite."""
    try:
        value = float(text.removesuffix(unit)) if text.endswith(unit) else math.nan
    except ValueError:
        return None
    return value if math.isfinite(value) else None


parse_orchestrator = partial(_parse_step, fields=ORCHESTRATOR, updates_done=0)
"""Of a step that was sampled and scored; its update comes later, and the trainer tells of it."""
parse_trainer = partial(_parse_step, fields=TRAINER, updates_done=1)


def parse_failure(line: str) -> tuple[str, int] | None:
    """The component that failed, in lower case, and its exit code, when the launcher says so; negative: a signal."""
    level, message = message_of(line) or ("", "")
    found = FAILURE.fullmatch(message) if level == "ERROR" else None
    return (found[1].lower(), int(found[2])) if found else None


def parse_engine_death(line: str) -> tuple[str, None] | None:
    """The inference server, when it says that vLLM's engine process is dead: it answers errors, and ends later."""
    return ("inference", None) if ENGINE_DEATH.fullmatch(line) else None


# ------------------------------------------------------------------------------------------------------ the stages


class Stage(StrEnum):
    """Where a run of prime-rl is, by its logs."""

    BOOT = "boot"
    FIRST_STEP = "first step"
    STEPS = "steps"
    CHECKPOINT = "checkpoint"
    DONE = "done"


MILESTONES = (
    ("trainer", "RL trainer finished!", Stage.DONE),
    ("trainer", "Saving checkpoint", Stage.CHECKPOINT),
    ("trainer", "Writing final", Stage.CHECKPOINT),
    ("trainer", "Step ", Stage.STEPS),
    ("orchestrator", "Starting orchestrator loop", Stage.FIRST_STEP),
    ("orchestrator", "Step ", Stage.FIRST_STEP),
)
"""Component, how its message begins, and the stage that begins with it."""
NOT_REACHED = re.compile(r"Inference server was not reached after (\d+) seconds")
TOLD = {
    Stage.BOOT: "the inference server and the trainer are starting",
    Stage.FIRST_STEP: "the first step takes longest, because programs for the GPU are compiled",
    Stage.STEPS: "one step follows the other",
    Stage.CHECKPOINT: "the checkpoint and the weights are being saved",
    Stage.DONE: "the trainer has finished",
}


def find_stage(logs: Mapping[str, Iterable[str]]) -> tuple[Stage, str]:
    """The stage of a run by the last clean lines of its logs (component → lines), and one sentence about it.

    The trainer's last milestone counts, and the orchestrator's before the trainer has one. A process that died is not
    seen here: the run's state says so.
    """
    said = {name: [found[1] for line in lines if (found := message_of(line))] for name, lines in logs.items()}
    for component in ("trainer", "orchestrator"):
        for message in reversed(said.get(component, ())):
            for owner, start, stage in MILESTONES:
                if owner == component and message.startswith(start):
                    return stage, TOLD[stage]
    waits = [found[1] for message in said.get("orchestrator", ()) if (found := NOT_REACHED.match(message))]
    waited = f"; not reached for {waits[-1]} s so far, which is normal while it starts" if waits else ""
    return Stage.BOOT, TOLD[Stage.BOOT] + waited
