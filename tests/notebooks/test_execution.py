"""The notebooks really run: the whole series with two training steps, again when it is finished, and from elsewhere."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import papermill
import pytest
from nbformat import NotebookNode
from pages import PAGES, answers, outputs_in
from papermill.exceptions import PapermillExecutionError

import rlguide
from rlguide.config import load_config, write_config
from rlguide.paths import RunFiles

pytestmark = pytest.mark.training
QUICK = {"run_name": "quick", "max_steps": 2}
SMALL_EVALUATION = {
    "run_name": "quick",
    "evaluation.num_tasks": 4,
    "evaluation.rollouts_per_task": 2,
    "evaluation.max_tokens": 64,
}
CELL_LIMIT_S = 240
Series = dict[str, NotebookNode]


@pytest.fixture(scope="module", autouse=True)
def outputs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One outputs folder for the whole series; nothing that works in it is left running."""
    folder = tmp_path_factory.mktemp("series")
    with outputs_in(folder) as outputs:
        yield outputs


@pytest.fixture(scope="module")
def series(outputs: Path) -> Series:
    """All notebooks, executed in order; the evaluation is made small in the run's configuration, as a reader would."""
    files = RunFiles(outputs / "quick")
    files.directory.mkdir(parents=True)
    write_config(load_config("tiny", SMALL_EVALUATION), files.config)
    return {page.stem: execute(page, outputs.parent / "executed", **QUICK) for page in PAGES}


def execute(page: Path, folder: Path, *, cwd: Path | None = None, **parameters: Any) -> NotebookNode:
    """Run one notebook as plain `papermill` does; what it has become is in `folder`."""
    folder.mkdir(exist_ok=True)
    papermill.execute_notebook(
        page,
        folder / page.name,
        parameters=parameters,
        cwd=cwd,
        progress_bar=False,
        execution_timeout=CELL_LIMIT_S,
        start_timeout=CELL_LIMIT_S,
    )
    return nbformat.read(folder / page.name, as_version=4)


def shown(cell: NotebookNode) -> str:
    """All that a cell shows, in every form, as one text."""
    return "\n".join(str(output.get("data", output.get("text"))) for output in cell.outputs)


def outputs_of(notebook: NotebookNode) -> dict[str, str]:
    """Cell name without its number → what it shows."""
    return {cell.id[3:]: shown(cell) for cell in notebook.cells if cell.cell_type == "code" and cell.outputs}


def page_called(name: str) -> Path:
    return next(page for page in PAGES if page.stem == name)


def test_every_notebook_runs_to_its_end(series: Series):
    assert list(series) == [page.stem for page in PAGES]
    for notebook in series.values():
        assert all(cell.execution_count for cell in notebook.cells if cell.cell_type == "code")
    assert "rlguide" in outputs_of(series["06_evaluate_the_policy"])["provenance"]


def test_the_first_notebook_shows_the_sentence_before_and_after(series: Series):
    before, after = (outputs_of(series["00_meet_the_task"])[name] for name in ("warm-start", "again"))

    assert "warm start" in before
    assert "trained policy" not in before
    assert "trained policy" in after
    assert "ti otni degrem saw kcurB ni ytinummoc ehT" in after


def test_the_training_is_one_run_that_outlives_the_notebook_which_launched_it(series: Series):
    record = rlguide.attach("quick").record

    assert record.state.is_success
    assert record.attempt == 1
    assert {run.name for run in rlguide.list_runs()} == {"quick", "quick-first-look", "quick-two-gpus"}


def test_every_cell_that_ends_with_something_shows_it_as_text_and_the_curve_as_a_picture(series: Series):
    for notebook in series.values():
        assert all("text/plain" in o.data for c in notebook.cells for o in c.get("outputs", []) if "data" in o)
    assert "data:image/png" in outputs_of(series["05_monitor_the_run"])["curve"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_answer_of_an_exercise_is_true(page: Path, series: Series):
    known = {"rlguide": rlguide, "settings": rlguide.parameters(QUICK)}
    if page.stem[:2] in {"05", "06"}:  # these pages find a run in their first cells; 04 asks after a restart
        known["run"] = rlguide.attach("quick")
    exec(answers(page)[0], known)


def test_running_a_finished_series_again_from_another_folder_trains_and_measures_nothing(
    series: Series, outputs: Path, tmp_path: Path
):
    run = rlguide.attach("quick")
    kept = [run.files.steps, *sorted(run.files.evaluations.glob("*.json"))]
    before = [(path.stat().st_mtime_ns, path.read_bytes()) for path in kept]

    for name in ("04_launch_training", "05_monitor_the_run", "06_evaluate_the_policy"):
        execute(page_called(name), tmp_path / "again", cwd=tmp_path, **QUICK)

    assert [(path.stat().st_mtime_ns, path.read_bytes()) for path in kept] == before
    assert run.record.attempt == 1
    assert not (tmp_path / "outputs").exists()


@pytest.mark.parametrize(
    ("wrong", "told"),
    [({"max_stepz": 2}, "did you mean 'max_steps'"), ({"max_steps": "2"}, "max_steps = '2'")],
    ids=["unknown name", "wrong type"],
)
def test_a_wrong_parameter_is_refused_before_anything_starts(wrong: dict[str, Any], told: str, tmp_path: Path):
    with pytest.raises(PapermillExecutionError, match=told):
        execute(PAGES[0], tmp_path, run_name="wrong", **wrong)

    assert "wrong" not in {run.name for run in rlguide.list_runs()}
