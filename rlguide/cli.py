"""The command line: each command parses its arguments, makes one call, and prints what came back.

Results go to standard output, progress and errors to standard error. Exit codes: 0 well, 1 not well, 2 cannot be done
or was not understood, 130 interrupted.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Annotated

import typer

from rlguide import (
    checks,
    console,
    engines,
    evaluation,
    headless,
    progress,
    reporting,
    run,
    setting_up,
    terminal,
    tryout,
)
from rlguide.config import load_config, write_config
from rlguide.console import CANNOT, changes_asked, fitted
from rlguide.errors import ConfigError, RlguideError
from rlguide.origin import provenance
from rlguide.paths import OUTPUTS_RULE, outputs_root
from rlguide.records import Status
from rlguide.view import results, text
from rlguide.windows import open_windows

app = typer.Typer(
    name="rlguide",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command()(setting_up.install)
app.command()(setting_up.sync)

Source = Annotated[str, typer.Argument(help="A preset (tiny, guide), a TOML file, a run directory or a run's name.")]
Changes = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a key; repeatable.")]
RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="A run's name or directory.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]
Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Stay until the run is over, or return at once.")]
Version = Annotated[
    bool, typer.Option("--version", is_eager=True, callback=console.tell_version, help="Print the version.")
]


def main() -> None:
    """Run the command line; an error of ours is printed without a traceback."""
    console.guarded(app)


@app.callback()
def _named(
    version: Version = False,
) -> None:
    """Fine-tune a small language model with reinforcement learning, step by step."""


@app.command()
def doctor(
    source: Annotated[str | None, typer.Argument(help="A configuration; unset, the preset of the engine.")] = None,
    engine: Annotated[str, typer.Option(help="Engine to check the machine for.")] = "auto",
    only: Annotated[list[str] | None, typer.Option(metavar="CHECK", help="Only this check; repeatable.")] = None,
    wandb_mode: Annotated[str | None, typer.Option(help="online: ask W&B whose key is here.")] = None,
    network: Annotated[bool, typer.Option("--network", help="Ask the Hub, W&B, GitHub and others.")] = False,
    everything: Annotated[bool, typer.Option("--all", help="Show also what is well.")] = False,
    to_paste: Annotated[bool, typer.Option("--report", help="Print a block to paste, without secrets.")] = False,
    as_json: AsJson = False,
) -> None:
    """Check this machine and say what to fix.

    Exit codes: 0 it runs here, 1 it runs with doubts, 2 it cannot run yet.
    """
    if as_json and to_paste:
        raise typer.BadParameter("leave --json or --report out")
    try:
        asked = load_config(source or checks.preset_for(engine), {"wandb_mode": wandb_mode})
        with nullcontext() if as_json else progress.waiting("looking at this machine …"):
            report = checks.check_machine(engine, config=asked, only=only or (), network=network)
    except ConfigError as error:
        if source in engines.ENGINES:
            raise typer.BadParameter(f"{source} is an engine: rlguide doctor --engine {source}") from None
        raise error
    plain = fitted(text.report_text(report, everything=everything), sys.stdout)
    terminal.show(report, console.pasteable(text.pasted_text(report, provenance())) if to_paste else plain, as_json)
    raise typer.Exit({Status.FAIL: CANNOT, Status.WARN: 1}.get(report.status, 0))


@app.command()
def config(
    source: Source = "tiny",
    changes: Changes = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write to this file.")] = None,
    difference: Annotated[bool, typer.Option("--diff", help="Show only what differs from the preset.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Say whether it is valid, and nothing else.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show, check or write a configuration."""
    found = load_config(source, changes_asked(changes))
    if output:
        write_config(found, output, over=load_config(source))
        print(f"written: {output.resolve()}")
    elif check:
        print(f"valid: {source}")
    elif difference:
        print(text.difference_text(found.difference(), base=f"preset {found.preset}"))
    else:
        print(found.model_dump_json(indent=2) if as_json else found.to_toml().rstrip())


@app.command()
def train(
    source: Source = "tiny",
    changes: Changes = None,
    run_name: Annotated[str | None, typer.Option(help="Folder of the run below the outputs folder.")] = None,
    max_steps: Annotated[int | None, typer.Option(help="Training steps.")] = None,
    seed: Annotated[int | None, typer.Option(help="Decides prompts and samples.")] = None,
    engine: Annotated[str | None, typer.Option(help="Training framework: auto, trl, prime-rl or replay.")] = None,
    time_limit_s: Annotated[float | None, typer.Option(help="Time limit, seconds.")] = None,
    wandb_mode: Annotated[str | None, typer.Option(help="off, offline or online.")] = None,
    output_dir: Annotated[str | None, typer.Option(metavar="DIR", help="The run directory, instead of a name.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would start, and start nothing.")] = False,
    evaluate: Annotated[bool, typer.Option("--evaluate", help="Then measure the policy, before and after.")] = False,
    wait: Wait = True,
    as_json: AsJson = False,
) -> None:
    """Train a policy and follow it to the end."""
    if evaluate and not wait:
        raise typer.BadParameter("--evaluate needs the end of the run: leave --no-wait out")
    if output_dir == "":
        raise typer.BadParameter("give a folder, or leave it out", param_hint="--output-dir")
    options = {"run_name": run_name, "max_steps": max_steps, "seed": seed, "engine": engine}
    options |= {"time_limit_s": time_limit_s, "wandb_mode": wandb_mode}
    asked = load_config(source, changes_asked(changes, **options))
    directory = Path(output_dir) if output_dir else None
    try:
        plan = engines.plan(asked, directory)
    except RlguideError:
        if dry_run:  # shown as it would be where all that it needs is there; the error says what is missing here
            terminal.show_plan(engines.plan(asked, directory, elsewhere=True), as_json)
        raise
    if dry_run:
        terminal.show_plan(plan, as_json)
        return
    print(fitted(text.plan_text(plan), sys.stderr), file=sys.stderr)
    started = run.launch(plan)
    terminal.follow(started, wait=wait, as_json=as_json and not evaluate)
    if evaluate:
        _evaluate(started, as_json=as_json)


@app.command()
def watch(
    name: RunArgument,
    in_tmux: Annotated[bool, typer.Option("--tmux", help="Put its logs into tmux instead, one pane each.")] = False,
    as_json: AsJson = False,
) -> None:
    """Follow a run until it is over.

    Leaving (Ctrl-C) does not end the run.
    """
    attached = run.attach(name)
    if in_tmux:
        logs = attached.record.plan.layout.logs.items()
        print(open_windows(attached.directory.name, {name: attached.directory / log for name, log in logs}))
    else:
        terminal.follow(attached, wait=True, as_json=as_json)


@app.command()
def runs(as_json: AsJson = False) -> None:
    """List all runs, the newest first."""
    found = run.list_runs()
    if as_json:
        print(json.dumps([summary.model_dump(mode="json") for summary in found], indent=2))
    else:
        print(text.runs_text(found, root=outputs_root(), hint=OUTPUTS_RULE))


@app.command()
def stop(name: RunArgument, as_json: AsJson = False) -> None:
    """Stop a run; what it has saved stays."""
    attached = run.attach(name)
    record = attached.stop()
    terminal.show(record, text.run_text(record, attached.history.steps), as_json)


@app.command()
def resume(name: RunArgument, wait: Wait = True, as_json: AsJson = False) -> None:
    """Go on from a run's last checkpoint.

    For a run that failed, was stopped or was interrupted.
    """
    terminal.follow(run.attach(name).resume(), wait=wait, as_json=as_json)


@app.command()
def clean(
    name: RunArgument,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Remove a run that is over, weights included."""
    attached = run.attach(name)
    if not yes:
        console.confirmed(f"Remove {attached.directory} and everything in it?")
    attached.clean()
    print(f"removed: {attached.directory}")


@app.command()
def evaluate(name: RunArgument, as_json: AsJson = False) -> None:
    """Measure a policy before and after training.

    On held-out texts, with the sampling that the run's configuration states.
    """
    _evaluate(run.attach(name), as_json=as_json)


@app.command("try")
def try_text(
    sentence: Annotated[str, typer.Argument(metavar="TEXT", help="The text to reverse.")],
    name: Annotated[str, typer.Option("--run", help="A run's name or directory.")] = "reverse-text",
    samples: Annotated[int, typer.Option(min=0, help="Completions to draw besides the most likely one.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Reverse one text, before and after training."""
    trial = tryout.try_text(run.attach(name), sentence, samples=samples)
    terminal.show(trial, results.trial_text(trial), as_json)


@app.command()
def report(name: RunArgument) -> None:
    """Write a run's report, one HTML page."""
    print(f"report: {reporting.report(name)}")


@app.command()
def tutorial(
    values: Annotated[list[str] | None, typer.Argument(metavar="VALUE", hidden=True, help="Of -p.")] = None,
    names: Annotated[list[str] | None, typer.Option("-p", metavar="NAME VALUE", help="Set a parameter.")] = None,
    texts: Annotated[list[str] | None, typer.Option("-y", metavar="YAML", help="Set parameters.")] = None,
    files: Annotated[list[Path] | None, typer.Option("-f", metavar="FILE", help="Set them from YAML.")] = None,
    engine: Annotated[str | None, typer.Option(help="Training framework: auto, trl, prime-rl or replay.")] = None,
    run_name: Annotated[str | None, typer.Option(help="Folder of the run below the outputs folder.")] = None,
    notebooks: Annotated[Path | None, typer.Option(help="Folder of other numbered notebooks.")] = None,
) -> None:
    """Execute all notebooks, then write a report."""
    if len(names or ()) != len(values or ()):
        raise typer.BadParameter("give every -p a NAME and a VALUE", param_hint="-p")
    pairs, named = zip(names or (), values or (), strict=True), {"engine": engine, "run_name": run_name}
    asked = headless.collect_parameters(pairs, texts=texts or (), files=files or (), named=named)
    with _going_on(), progress.shown() as advance:
        made = headless.tutorial(asked, notebooks=notebooks, on_progress=advance)
    print(f"report: {made.report}\n{results.result_line(made.comparison)}")


@app.command(
    "warm-start",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
)
def warm_start(context: typer.Context) -> None:
    """Make the tiny policy's warm start anew."""
    # -P: a file in the working directory that is called like a module must not be imported in its place.
    program = [sys.executable, "-P", "-m", "rlguide.programs.warm_start", *context.args]
    raise typer.Exit(subprocess.run(program, check=False).returncode)


# ------------------------------------------------------------------------------------------------------ underneath


@contextmanager
def _going_on() -> Iterator[None]:
    """Says, when the block is interrupted, which trainings go on."""
    try:
        yield
    except KeyboardInterrupt:
        print("", *filter(None, headless.training_state(outputs_root())), sep="\n", file=sys.stderr)
        raise typer.Exit(terminal.INTERRUPTED) from None


def _evaluate(started: run.Run, *, as_json: bool) -> None:
    with progress.shown() as advance:
        comparison = evaluation.evaluate(started, on_progress=advance)
    examples, table = results.examples_text(comparison), results.comparison_text(comparison)
    plain = f"{examples}\n\n{table}\n\n{results.result_line(comparison)}"
    terminal.show(comparison, plain, as_json)
