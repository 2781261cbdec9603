"""What notebooks show: live views, pictures, tables and the form, and the rich forms of all records.

A front door: it looks at runs and hands records to `rlguide.view`, which knows nothing of runs. matplotlib and
ipywidgets are loaded when something needs them.
"""

import shlex
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlguide import evaluation, measurements, probe, records
from rlguide import run as operations
from rlguide.config import RunConfig, Section, load_config, save_config
from rlguide.dialects import find_stage
from rlguide.engines import plan
from rlguide.environment.reward import extract_answer
from rlguide.errors import ConfigError, RlguideError
from rlguide.history import History
from rlguide.paths import RunFiles, outputs_root
from rlguide.records import Rollout, RunRecord
from rlguide.run import Run, attach
from rlguide.view import html, results, text
from rlguide.view.elements import Markup, View, join, notes, page, table, tag
from rlguide.view.letters import letters_text
from rlguide.view.written import NOT_THERE, component_name, number

if TYPE_CHECKING:
    from rlguide.view.form import Form
    from rlguide.view.live import LiveRun

LOG_LINES = 15
"""Last lines of each log below a live view."""
STAGE_LINES = 100
"""Last lines of a log that tell the stage; a step takes some ten."""

_live: dict[Path, "LiveRun"] = {}
_followers: dict[Path, threading.Thread] = {}


# ----------------------------------------------------------------------------------------------------- live views


def monitor(run: Run | Path | str) -> None:
    """Show a run and keep the output up to date until the run is over; returns at once, and the last picture stays.

    Shows where the run stands, the reward curve, the metrics of the last steps and the ends of the logs.
    """
    run = attach(run)
    live = _shown(run)
    follower = _followers.get(run.directory)
    if not (follower and follower.is_alive()):
        follower = threading.Thread(target=_follow, args=(run, live), daemon=True, name=f"monitor {run.directory.name}")
        _followers[run.directory] = follower
        follower.start()


def _follow(run: Run, live: "LiveRun") -> None:
    try:
        run.wait(on_update=live.update)
    except RlguideError as error:  # removed meanwhile, or damaged
        live.say(f"no longer followed: {error}")


def _shown(run: Run) -> "LiveRun":
    """The live view of a run, with a new output in this cell."""
    from rlguide.view.live import LiveRun

    if run.directory not in _live:
        _live[run.directory] = LiveRun(
            lambda: (run.status, run.history),
            logs=partial(_logs, run),
            first_rollouts=partial(_first_rollouts, run),
            stage=partial(stage_of, run),
        )
    live = _live[run.directory]
    live.show()
    return live


def _logs(run: Run) -> dict[str, list[str]]:
    names = dict.fromkeys([process.name for process in run.record.plan.processes])
    names |= dict.fromkeys([*run.record.plan.layout.logs, "supervisor"])
    return {name: run.tail(name, LOG_LINES) for name in names}


def stage_of(run: Run) -> str | None:
    """What a run of several components is at, by the ends of its logs; `None` for an engine in one piece."""
    sources = run.record.plan.metrics
    if len(sources) == 1:
        return None
    return ": ".join(find_stage({source.component: run.tail(source.component, STAGE_LINES) for source in sources}))


def _first_rollouts(run: Run, history: History) -> tuple[Rollout, ...]:
    """The rollouts of the warm start: of a first step before which no update was done."""
    first = history.first
    return run.rollouts(first.step) if first and first.completed_updates <= 1 else ()


def _watching(run: Run) -> Callable[[RunRecord, History], None]:
    """What a wait shows: the run, or one line where `monitor` shows the run on this page already."""
    if run.directory not in _followers:
        return _shown(run).update
    from rlguide.progress import of_run

    above, line = _live[run.directory].update, of_run(_progress())

    def update(record: RunRecord, history: History) -> None:
        above(record, history)
        line(record, history)

    return update


# ------------------------------------------------------------------------------------------- pictures and tables


def plot_reward(run: Run | Path | str) -> View:
    """The reward by training step, with the share of answers in the right form, the run guide's curve for its shape,
    and what the warm start gets without learning."""
    from rlguide.view.plots import RewardPlot, floors

    run = attach(run)
    record, history = run.status, run.history
    curve = RewardPlot().html(record, history.steps, floors=floors(_first_rollouts(run, history)))
    return View(curve, text.run_text(record, history.steps))


def rollouts(run: Run | Path | str, step: int) -> View:
    """The rollouts of a training step, by text, with the letters that count marked."""
    run = attach(run)
    found = run.rollouts(step)
    if not found:
        there = [record.step for record in run.history.steps if run.rollouts(record.step)]
        told = f"No rollouts of step {step}; steps that have some: {', '.join(map(str, there)) or 'none yet'}."
        return View(notes([told]), told)
    rows = [(number(r.reward), r.completion.strip(), r.text) for r in found]
    return View(html.rollouts_html(found), text.table(rows, head=("reward", "completion", "text")))


def compare_letters(answer: str, text: str) -> View:
    """An answer to `text` letter by letter: which letters the reward counts, and how similar it is as a number.

    `answer` may stand in the tags of a completion.
    """
    inner = extract_answer(answer)
    answer = answer if inner is None else inner
    return View(html.comparing_html(answer, text), letters_text(answer, text))


def file_map(run: Run | Path | str) -> View:
    """The files of a run: what each is, and whether it is there."""
    run = attach(run)
    files, layout = run.files, run.record.plan.layout
    entries = [
        (files.record, "what runs or ran: plan, state, how it ended"),
        (files.config, "what was asked for; the form and the parameters end up here"),
        (files.engine_config, "the same in the engine's own words, made at launch"),
        (files.steps, "one line of metrics a training step"),
        (files.evaluations, "measurements before and after, with every sample"),
        (files.supervisor_log, "launch, signals and end"),
        *((run.directory / path, f"log of the {component_name(name)}") for name, path in layout.logs.items()),
        (run.directory / layout.rollouts, "every completion of every step, with its reward"),
        (run.directory / layout.checkpoints, "training states to go on from"),
        (run.directory / layout.weights, f"the trained policy; complete once {layout.weights_marker} is there"),
    ]
    rows = [(str(path.relative_to(run.directory)), told, _size(path)) for path, told in entries]
    return _table(rows, f"Files of this run, below {run.directory}", ("file or folder", "what it is", "size"))


def _size(path: Path) -> str:
    if not path.exists():
        return NOT_THERE
    files = [path] if path.is_file() else [inner for inner in path.rglob("*") if inner.is_file()]
    size = sum(file.stat().st_size for file in files)
    told = f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{size / 1e3:.1f} kB"
    return told if path.is_file() else f"{told} in {len(files)} file{'s' * (len(files) != 1)}"


def quick_reference(run: Run | Path | str) -> View:
    """What can be done with a run: in a notebook, and in a terminal."""
    run = attach(run)
    name, first = shlex.quote(run.argument), run.record.plan.processes[0]
    rows = [
        ("find it again", f'run = rlguide.attach("{run.argument}")', "rlguide runs"),
        ("watch it", "rlguide.monitor(run)", f"rlguide watch {name}"),
        ("read a log", f'run.tail("{first.name}")', f"tail -f {shlex.quote(str(run.directory / first.log))}"),
        ("wait for its end", "run.wait()", f"rlguide watch {name}"),
        ("stop it", "run.stop()", f"rlguide stop {name}"),
        ("see why it failed", "run.status", f"rlguide watch {name}"),
        ("go on after a stop or a failure", "run.resume()", f"rlguide resume {name}"),
        ("measure it, before and after", "rlguide.evaluate(run)", f"rlguide evaluate {name}"),
        ("try a text", 'rlguide.try_text(run, "A sentence")', f'rlguide try "A sentence" --run {name}'),
        ("remove it", "run.clean()", f"rlguide clean {name}"),
    ]
    drawn = [(to, tag("code", here), tag("code", there)) for to, here, there in rows]
    return _table(rows, f"What to do with the run {name}", ("to", "in a notebook", "in a terminal"), drawn=drawn)


def _table(
    rows: Sequence[Sequence[str]], caption: str, head: Sequence[str], *, drawn: Sequence[Sequence[str]] | None = None
) -> View:
    return View(table(drawn or rows, caption=caption, head=head), f"{caption}\n{text.table(rows, head=head)}")


# ------------------------------------------------------------------------------------------------------- the form


def edit(config: RunConfig) -> "Form":
    """A form for the settings that a beginner changes. Every valid state of it is saved as the run's `config.toml`,
    the first one included, so that the next notebook finds it; its `config` is the latest valid one.

    A run that was launched keeps its configuration: changes are then shown and not saved.
    """
    from rlguide.view.form import Form

    return Form(config, save=_save, estimate=partial(_estimate_s, machine=probe.machine()))


def _estimate_s(config: RunConfig, machine: records.Machine) -> float | None:
    try:
        return plan(config, machine=machine).estimate_s
    except RlguideError:  # it cannot run here, and the plan will say so
        return None


def _save(asked: RunConfig, before: RunConfig) -> str:
    files = RunFiles(outputs_root() / asked.run_name)
    if files.record.exists():
        try:
            same = load_config(files.config) == asked
        except ConfigError:
            same = False
        if same:
            return f"this is what the run {asked.run_name} was launched with"
        return (
            f"not saved: the run {asked.run_name} was launched with other values. Choose another run_name, or clean it."
        )
    try:
        files.directory.mkdir(parents=True, exist_ok=True)
        kept = save_config(asked, files, before=before)
    except OSError as error:
        return f"not saved: {error}"
    return f"saved as {files.config}{f'; what it held, other values, is kept as {kept}' if kept else ''}"


# ------------------------------------------------------------------------------------------------- rich displays


FORMS: dict[type, tuple[Callable[[Any], Markup], Callable[[Any], str]]] = {
    records.Record: (html.record_html, text.record_text),
    Section: (html.record_html, text.record_text),
    records.Plan: (html.plan_html, text.plan_text),
    records.MachineReport: (html.report_html, text.report_text),
    records.RunRecord: (html.run_html, text.run_text),
    measurements.Evaluation: (html.evaluation_html, results.evaluation_text),
    measurements.Comparison: (html.comparison_html, results.comparison_text),
    measurements.Trial: (html.trial_html, results.trial_text),
    RunConfig: (html.config_html, RunConfig.to_toml),
    Run: (
        lambda run: join(notes([run.notice]), html.run_html(run.status, run.history.steps)),
        lambda run: "\n".join(filter(None, [run.notice, text.run_text(run.status, run.history.steps)])),
    ),
}
"""Type → its HTML form and its plain-text form; a subclass has its base's."""


def register(shell: Any) -> None:
    """Give our types their rich forms in an IPython shell; in a kernel, waiting and measuring show how far they are."""
    formatters = shell.display_formatter.formatters
    for kind, (as_html, as_text) in FORMS.items():
        formatters["text/html"].for_type(kind, lambda thing, form=as_html: page(form(thing)))
        formatters["text/plain"].for_type(kind, lambda thing, printer, _, form=as_text: printer.text(form(thing)))
    formatters["text/html"].for_type(list, _list_html)
    if hasattr(shell, "kernel"):
        operations.watching = _watching
        evaluation.showing = _progress


def _list_html(things: list) -> str | None:
    """A list of runs as a table; any other list stays text."""
    if not things or not all(isinstance(thing, records.RunSummary) for thing in things):
        return None
    rows, head = text.runs_table(things)
    return page(table(rows, caption="Runs, the newest first", head=head))


def _progress() -> evaluation.Progress:
    from rlguide.view.live import LiveProgress

    return LiveProgress()
