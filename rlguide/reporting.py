"""Writes the report of a run: collects what its directory knows, has it drawn as one page, and starts nothing."""

import json
from importlib.util import find_spec
from pathlib import Path

from rlguide.config import load_config
from rlguide.display import file_map
from rlguide.errors import EvaluationError
from rlguide.evaluation import kept_evaluation
from rlguide.files import write_atomically
from rlguide.measurements import Comparison, Evaluation
from rlguide.origin import provenance
from rlguide.paths import TINY_POLICY
from rlguide.records import RunRecord
from rlguide.redact import redacted
from rlguide.run import Run, attach
from rlguide.statistics import compare
from rlguide.view.html import Markup
from rlguide.view.page import Contents, report_page

LOG_LINES = 12


def report(run: Run | Path | str) -> Path:
    """Write `report.html` into a run's directory, from what is there, and return its path. Measures nothing anew.

    `run` is a handle, a run directory, or a run's name. Works for every run, also one that failed or was never
    evaluated. Raises `RunNotFound` or `RunDamaged`.
    """
    run = attach(run)
    write_atomically(run.files.report, redacted(report_page(_contents(run))))
    return run.files.report


def _contents(run: Run) -> Contents:
    status = run.status
    configured = run.files.config.is_file() and not status.plan.recording  # a recording was configured elsewhere
    config = load_config(run.files.config) if configured else None
    evaluations = tuple(found for which in ("warm start", "trained policy") if (found := kept_evaluation(run, which)))
    curve, floors = _curve(run, status)
    return Contents(
        record=status,
        history=run.history,
        embedded=status.plan.policy == str(TINY_POLICY),
        comparison=_comparison(evaluations),
        evaluations=evaluations,
        curve=curve,
        floors=floors,
        config=config,
        provenance=provenance(status.plan),
        files=file_map(run).html,
        notebooks=_notebooks(run),
        log=_log(run, status),
    )


def _comparison(evaluations: tuple[Evaluation, ...]) -> Comparison | None:
    try:
        return compare(*evaluations) if len(evaluations) == 2 else None
    except EvaluationError:  # measured with different settings: shown one by one
        return None


def _curve(run: Run, status: RunRecord) -> tuple[Markup | None, tuple[tuple[str, float], ...]]:
    """The picture of the curve, where matplotlib is installed, and the rewards that need no learning."""
    history = run.history
    if find_spec("matplotlib") is None or not len(history):
        return None, ()
    from rlguide.view.plots import RewardPlot, floors

    needless = floors(run.rollouts(history.first.step)) if history.first.completed_updates <= 1 else ()
    return RewardPlot().html(status, history.steps, floors=needless), needless


def _log(run: Run, status: RunRecord) -> tuple[str, ...]:
    failed = status.state.is_over and not status.state.is_success
    component = status.failed_component or status.plan.processes[0].name
    return tuple(run.tail(component, LOG_LINES)) if failed else ()


def _notebooks(run: Run) -> list[tuple[str, float | None]]:
    found = sorted(run.files.notebooks.glob("*.ipynb"))
    return [(str(path.relative_to(run.directory)), _seconds(path)) for path in found]


def _seconds(notebook: Path) -> float | None:
    """Seconds that papermill took for an executed notebook; `None` when it was cut off."""
    try:
        return json.loads(notebook.read_text(encoding="utf-8"))["metadata"]["papermill"]["duration"]
    except (ValueError, KeyError):  # half written, or not executed by papermill
        return None
