"""Follows a run in a terminal: progress until it is over, then what became of it, and how to go on."""

import shlex
import sys

import typer

from rlguide import progress
from rlguide.console import fitted
from rlguide.records import Plan, Record, RunRecord, StoppedBy
from rlguide.run import Run
from rlguide.view import text

INTERRUPTED = 130
"""By the shells' convention: 128 + SIGINT."""


def show(record: Record, plain: str, as_json: bool) -> None:
    print(record.model_dump_json(indent=2) if as_json else plain)


def show_plan(plan: Plan, as_json: bool) -> None:
    show(plan, fitted(text.plan_text(plan), sys.stdout), as_json)


def follow(started: Run, *, wait: bool, as_json: bool) -> None:
    """Wait for the end with progress, then show it. Ends the command with 1 when the run did not succeed."""
    if started.notice:
        print(started.notice, file=sys.stderr)
    record = _wait(started) if wait else started.status
    show(record, text.run_text(record, started.history.steps), as_json)
    if record.state.is_over and not record.state.is_success:
        _explain_end(started, record)
        raise typer.Exit(1)
    if not record.state.is_over:
        print(_how_to_go_on(started), file=sys.stderr)


def _wait(started: Run) -> RunRecord:
    try:
        with progress.shown() as advance:
            return started.wait(on_update=progress.of_run(advance))
    except KeyboardInterrupt:
        print(f"\nThe run goes on without this command.\n{_how_to_go_on(started)}", file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from None


def _how_to_go_on(started: Run) -> str:
    name = shlex.quote(started.argument)
    return f"see it: rlguide watch {name}\nend it: rlguide stop {name}"


def _explain_end(started: Run, record: RunRecord) -> None:
    component = record.failed_component or record.plan.processes[0].name
    lines = "\n".join(f"  {line}" for line in started.tail(component, 8))
    print(f"end of the {component}'s log:\n{lines}\nlook: {started.directory}", file=sys.stderr)
    name = shlex.quote(started.argument)
    repair = "give it more time" if record.stopped_by is StoppedBy.TIME_LIMIT else "fix what the log says"
    hint = f"no checkpoint was saved: {repair}, then rlguide clean {name}, and train anew"
    if started.checkpoint:
        hint = f"rlguide resume {name} goes on from the last checkpoint"
    if record.made_in:
        hint = f"go on where the run was made, in {record.made_in}, or launch it anew"
    print(f"hint: {hint}", file=sys.stderr)
