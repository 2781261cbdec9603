"""Plain-text forms of the records: for terminals, logs, and notebooks without a display. Returns text, prints nothing.

Every function takes records and knows nothing of engines or processes.
"""

import shlex
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from pydantic import BaseModel

from rlguide.records import (
    Check,
    MachineReport,
    Plan,
    Provenance,
    RunRecord,
    RunSummary,
    State,
    Status,
    StepRecord,
    StoppedBy,
)
from rlguide.view.written import ABSENT, component_name, duration, gpu_names, moment, moments, number, sparkline, table

STATES = {
    State.PLANNED: "planned, not started",
    State.STARTING: "starting, no training step yet",
    State.RUNNING: "running",
    State.SUCCEEDED: "succeeded: the last step was reached and the weights are complete",
    State.FAILED: "failed",
    State.STOPPED: "stopped before its last step",
    State.INTERRUPTED: "interrupted: its supervisor is gone",
}
MARKS = {"pass": "✓", "warn": "!", "fail": "✗", "skip": "–"}
"""Outcome of a check → a sign that says it at a glance; never alone."""
FIX = "      fix: "
UNITS = ((86_400, "day"), (3600, "h"), (60, "min"), (1, "s"))
PLAYED = "played to its end"
STOPPED = {StoppedBy.USER: "by the user", StoppedBy.TIME_LIMIT: "by the time limit", StoppedBy.SIGNAL: "by a signal"}


def deed(state: State, *, already: bool = False) -> str:
    """What a run in this state does or did, as words to go after its name: "is running", "has failed"."""
    verb = "was" if state in {State.STOPPED, State.INTERRUPTED} else "has" if state.is_over else "is"
    return f"{verb}{' already' * already} {state}"


# ------------------------------------------------------------------------------------------------ plan and machine


def plan_text(plan: Plan) -> str:
    """What a launch would start."""
    return "\n".join([table(plan_rows(plan)), *plan.notes])


def plan_rows(plan: Plan) -> list[tuple[str, object]]:
    """What a launch would start, by name."""
    processor = f"the processor, {plan.threads} threads" if plan.threads else "the processor"
    where = gpu_names(plan.gpus) if plan.gpus else processor
    rows: list[tuple[str, object]] = [("a recording of", plan.recording)] if plan.recording else []
    rows += [
        ("engine", f"{plan.engine} ({plan.release}), {plan.precision}, attention {plan.attention}"),
        ("runs on", where),
        ("policy", plan.policy),
        ("steps", f"{plan.max_steps}, {plan.batch_size} rollouts each"),
        *([] if plan.changes is None else [("changed from the preset", ", ".join(plan.changes) or "nothing")]),
        ("expected time", "unknown" if plan.estimate_s is None else f"about {duration(plan.estimate_s)}"),
        ("time limit", duration(plan.time_limit_s)),
        ("run directory", plan.directory),
        *((f"port of the {component_name(name)}", port) for name, port in plan.ports.items()),
    ]
    for process in plan.processes:
        rows += [(f"{process.name} starts", shlex.join(process.argv)), (f"{process.name} log", process.log)]
    return rows


def report_text(report: MachineReport, *, everything: bool = False) -> str:
    """The verdict, and what is wrong or doubtful with its fix; with `everything`, all checks."""
    shown = report.checks if everything else remarkable(report)
    following = [*(check.fix for check in shown[1:]), None]
    checks = (check_text(check, fix=check.fix != after) for check, after in zip(shown, following, strict=False))
    lines = [report.verdict, *checks]
    if well := len(report.checks) - len(shown):
        untried = sum(check.status is Status.SKIP for check in report.checks if check not in shown)
        total = "1 check" if len(report.checks) == 1 else f"{len(report.checks)} checks"
        found = f"{well - untried} of {total} found nothing wrong" if well > untried else ""
        left_out = f"{untried} {'was' if untried == 1 else 'were'} not needed or not tried" if untried else ""
        lines.append(f"{', '.join(filter(None, (found, left_out)))}; the doctor shows them with `--all`.")
    return "\n".join(lines)


def remarkable(report: MachineReport) -> list[Check]:
    """Checks that found something wrong or doubtful, in their order."""
    return [check for check in report.checks if check.status in {Status.FAIL, Status.WARN}]


def pasted_text(report: MachineReport, made: Provenance) -> str:
    """A block for a question to others: every check, and on what it was made."""
    commit = f", commit {made.commit[:10]}{' with changes' if made.modified else ''}" if made.commit else ""
    packages = ", ".join(f"{name} {version}" for name, version in made.packages.items())
    memory = "memory unknown" if made.memory_gib is None else f"{made.memory_gib:.1f} GiB available"
    head = [
        f"rlguide doctor, engine {report.engine}, {made.made_at}",
        f"{made.system}; {made.processor}; {made.cores} cores; {memory}",
        f"Python {made.python}{commit}; {packages}",
    ]
    return "\n".join(["```text", *head, report_text(report, everything=True), "```"])


def check_text(check: Check, *, fix: bool) -> str:
    """One check in one line, and with `fix` what to do in another."""
    line = f"{check.status:4}  {check.title}: {check.seen}"
    if check.status is not Status.PASS:
        line += f" (wanted: {check.wanted})"
    return f"{line}\n{FIX}{check.fix}" if fix and check.fix else line


def difference_text(rows: Sequence[tuple[str, Any, Any]], *, base: str) -> str:
    """What differs from `base`, one key a line."""
    if not rows:
        return f"no difference from {base}"
    return table(rows, head=("key", base, "here"))


# --------------------------------------------------------------------------------------------------------- runs


def run_text(record: RunRecord, steps: Sequence[StepRecord] | None = None) -> str:
    """Where a run stands, in words, with its last steps; a record alone knows none, and says nothing of them."""
    lines = [f"run {record.name}: {state_text(record)}", f"directory: {record.plan.directory}"]
    if record.reason:
        lines.append(record.reason)
    progress = "" if steps is None else f"{progress_text(record, steps)}, "
    lines.append(f"{progress}{duration(record.elapsed_s)} of at most {duration(record.plan.time_limit_s)}")
    return "\n".join([*lines, steps_text(steps)] if steps else lines)


def state_text(record: RunRecord) -> str:
    """The state of a run in plain words."""
    words = STATES[record.state]
    if record.stopped_by:
        words = words.replace("stopped", f"stopped {STOPPED[record.stopped_by]}")
    if not record.plan.recording:
        return words
    return f"a recording of {record.plan.recording}: {PLAYED if record.state.is_success else words}"


def progress_text(record: RunRecord, steps: Sequence[StepRecord]) -> str:
    """How many steps are done, the latest reward, and how much longer the others will take."""
    done = steps[-1].completed_updates if steps else 0
    reward = f", reward {number(steps[-1].reward)}" if steps else ""
    return f"{done} of {record.plan.max_steps} steps{reward}{left_text(record, steps)}"


def left_text(record: RunRecord, steps: Sequence[StepRecord]) -> str:
    """How much longer a run will train, as its last steps took; the first one is no measure, and a recording none."""
    seconds = [step.seconds for step in steps[1:][-3:] if step.seconds is not None]
    if record.state.is_over or record.plan.recording or not seconds:
        return ""
    return f", about {duration(fmean(seconds) * (record.plan.max_steps - steps[-1].completed_updates))} left"


def steps_text(steps: Sequence[StepRecord], *, last: int = 5) -> str:
    """The reward curve in one line and the last steps in a table."""
    rows = [
        (s.step, number(s.reward), number(s.right_form), number(s.completion_tokens, 1), number(s.seconds, 1))
        for s in steps[-last:]
    ]
    curve = f"reward 0–1: {sparkline([step.reward for step in steps])}"
    return f"{curve}\n{table(rows, head=('step', 'reward', 'right form', 'tokens', 'seconds'))}"


def runs_text(runs: Sequence[RunSummary], *, root: object, hint: str) -> str:
    """All runs, one line each; where there are none in `root`, a `hint`."""
    if not runs:
        return f"no runs in {root}\nhint: {hint}"
    rows, head = runs_table(runs)
    return table(rows, head=head)


def runs_table(runs: Sequence[RunSummary]) -> tuple[list[tuple[object, ...]], tuple[str, ...]]:
    """One row a run, and the head above; what is odd about a run gets a column only when there is something."""
    zone, launched = moments([run.created_at for run in runs])
    rows = [
        (
            run.name,
            run.state or "unreadable",
            f"{run.completed_updates} of {run.max_steps}" if run.max_steps else ABSENT,
            f"{number(run.reward_first)} → {number(run.reward_last)}",
            duration(run.elapsed_s),
            ago(run.age_s),
            time,
            run.problem or ("a recording" if run.engine == "replay" else ""),
        )
        for run, time in zip(runs, launched, strict=True)
    ]
    head = ("run", "state", "steps", "reward", "time", "age", f"launched ({zone})", "note")
    return (rows, head) if any(row[-1] for row in rows) else ([row[:-1] for row in rows], head[:-1])


def ago(age_s: float | None) -> str:
    """How long ago something was, in the largest unit that it fills: `3 min ago`, `2 days ago`."""
    if age_s is None:
        return ABSENT
    seconds, unit = next(((size, unit) for size, unit in UNITS if age_s >= size), UNITS[-1])
    count = int(age_s / seconds)
    return f"{count} {unit}{'s' * (count != 1 and unit == 'day')} ago"


# ---------------------------------------------------------------------------------------------------- any record


def record_text(record: BaseModel) -> str:
    """Any record, one field a line."""
    return table(record_rows(record))


def record_rows(record: BaseModel) -> list[tuple[str, object]]:
    """The fields of any record, by name."""
    return [_field(name, value) for name, value in record]


def _field(name: str, value: Any) -> tuple[str, object]:
    if name.endswith("_at"):
        return name.replace("_", " "), moment(value)
    if name.endswith("_s") and not name.endswith("_per_s"):
        return name.removesuffix("_s").replace("_", " "), duration(value)
    return name.replace("_gib", " (GiB)").replace("_", " "), _flat(value)


def _flat(value: object) -> object:
    if isinstance(value, dict):
        return ", ".join(f"{key} {item}" for key, item in value.items()) or None
    return (", ".join(map(str, value)) or None) if isinstance(value, list | tuple) else value
