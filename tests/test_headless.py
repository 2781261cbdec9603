"""Notebooks without a browser, through real papermill: parameters, order, failures that are bounded and explained."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import psutil
import pytest
from finished import finished_run
from nbformat.sign import NotebookNotary
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from toy import after_steps, eventually, nothing_left, toy_plan

from rlguide.errors import ConfigError, NotebookFailed
from rlguide.headless import collect_parameters, numbered_notebooks, tutorial
from rlguide.paths import PACKAGE, notebooks_folder
from rlguide.records import Parameters
from rlguide.run import launch

__all__ = ["nothing_left"]
pytestmark = pytest.mark.usefixtures("nothing_left")

OWN = "engine = None\nrun_name = None\npreset = None\nmax_steps = None\nseed = None\nsentence = None"
GUARD = "asked = rlguide.parameters(globals())\nasked.given"
PROGRAM = [sys.executable, "-c", "from rlguide.cli import main; main()"]


def write_notebook(path: Path, *cells: str, tagged: bool = True) -> Path:
    """A notebook with imports, parameters and guard, then `cells`."""
    own = new_code_cell(OWN, metadata={"tags": ["parameters"] if tagged else []})
    opening = [
        new_markdown_cell("# A lesson\n\n[words](../WORDS.md), [next](01_two.ipynb)"),
        new_code_cell("import rlguide"),
        own,
        new_code_cell(GUARD),
    ]
    notebook = new_notebook(cells=[*opening, *map(new_code_cell, cells)])
    notebook.metadata["kernelspec"] = {"name": "some-other-kernel", "display_name": "other", "language": "python"}
    path.parent.mkdir(exist_ok=True)
    nbformat.write(notebook, path)
    return path


@pytest.fixture(autouse=True)
def signatures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jupyter keeps the signatures of this test's notebooks in a folder of the test's own."""
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "jupyter"))


@pytest.fixture
def lessons(tmp_path: Path) -> Path:
    """A folder of two notebooks that work, and a file that is none of them."""
    write_notebook(tmp_path / "lessons" / "00_one.ipynb", "x = 1", "assert asked.max_steps == 3")
    write_notebook(tmp_path / "lessons" / "01_two.ipynb", "rlguide.attach(asked.run_name).status.state")
    write_notebook(tmp_path / "lessons" / "scratch.ipynb", "1/0")
    return tmp_path / "lessons"


def outputs_of(notebook: Path) -> str:
    """Everything that an executed notebook shows, as text."""
    cells = json.loads(notebook.read_text())["cells"]
    return "".join(json.dumps(cell.get("outputs", [])) for cell in cells)


# ------------------------------------------------------------------------------------------------- the whole


def test_notebooks_are_executed_in_order_and_end_in_a_report(lessons: Path, outputs: Path, tmp_path: Path):
    finished_run(outputs / "one")
    told: list[tuple[str, int, int]] = []
    told_at: dict[tuple[str, int, int], float] = {}

    def tell(*progress: Any) -> None:
        told.append(progress)
        told_at.setdefault(progress, time.monotonic())

    done = tutorial(Parameters(run_name="one", max_steps=3), notebooks=lessons, on_progress=tell)

    assert [path.name for path in done.notebooks] == ["00_one.ipynb", "01_two.ipynb"]
    assert all(path.parent == outputs / "one" / "notebooks" for path in done.notebooks)
    assert "succeeded" in outputs_of(done.notebooks[1])
    assert "notebooks/01_two.ipynb" in done.report.read_text()
    assert all(NotebookNotary().check_signature(nbformat.read(path, as_version=4)) for path in done.notebooks)
    links = re.findall(r"\]\((.*?)\)", nbformat.read(done.notebooks[0], as_version=4).cells[0].source)
    assert [(done.notebooks[0].parent / link).resolve() for link in links] == [tmp_path / "WORDS.md", done.notebooks[1]]
    first, second = ("00_one (1 of 2)", 6), ("01_two (2 of 2)", 5)
    assert list(dict.fromkeys(told)) == [
        (f"{name}, cells" if 0 < done < all else name, done, all)
        for name, all in (first, second)
        for done in range(all + 1)
    ]
    took = nbformat.read(done.notebooks[0], as_version=4).metadata.papermill.duration  # which the report tells
    assert told_at[first[0], 6, 6] - told_at[first[0], 0, 6] >= took


def test_the_command_ends_with_the_report_and_the_result(lessons: Path, outputs: Path, tmp_path: Path):
    finished_run(outputs / "one")
    argv = [*PROGRAM, "tutorial", "--notebooks", lessons, "--run-name", "one", "-p", "max_steps", "3"]

    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)

    assert done.returncode == 0, done.stderr
    *_, report, result = done.stdout.splitlines()
    assert report == f"report: {outputs / 'one' / 'report.html'}"
    assert re.fullmatch(r"reward before=0\.\d{4} after=0\.\d{4} n=\d+", result)
    begun_and_done = [line.partition(": ") for line in done.stderr.splitlines()]
    assert [name for name, *_ in begun_and_done] == ["00_one (1 of 2)"] * 2 + ["01_two (2 of 2)"] * 2
    assert all(re.fullmatch(r"begun|done, \d+ s", what) for *_, what in begun_and_done)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-p", "max_stepz", "2"], "did you mean 'max_steps'?"),
        (["-p", "max_steps", "2.5"], "max_steps = 2.5 is of type float"),
        (["-y", "max_steps: '2'"], "max_steps = '2' is of type str"),
        (["-y", "{"], "not YAML"),
        (["-y", "[1]"], "gives a list"),
        (["-f", "absent.yml"], "cannot be read"),
        (["-p", "max_steps"], "give every -p a NAME and a VALUE"),
        (["-p", "max_steps", "0"], "max_steps = 0"),
        (["--engine", "prime-rl"], "no checkout of prime-rl here"),
        (["--notebooks", "."], "notebooks are not here"),
    ],
)
def test_what_cannot_be_used_is_refused_before_anything_starts(arguments, said, outputs: Path, tmp_path: Path):
    argv = [*PROGRAM, "tutorial", *arguments]

    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode != 0
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not outputs.exists()


def test_values_have_the_types_that_papermill_gives_them_and_the_later_source_wins(tmp_path: Path):
    file = tmp_path / "parameters.yml"
    file.write_text("seed: 1\nmax_steps: 1\nrun_name: 2026-01-02\n")

    found = collect_parameters(
        [("max_steps", "3"), ("wandb_mode", "None")],
        texts=["{max_steps: 2, gpus: [0, 1]}"],
        files=[file],
        named={"engine": "trl", "run_name": None},
    )

    assert found.given == {"engine": "trl", "run_name": "2026-01-02", "max_steps": 3, "seed": 1, "gpus": [0, 1]}


def test_the_notebooks_are_those_of_the_checkout_wherever_one_stands(tmp_path: Path):
    assert notebooks_folder(tmp_path) == PACKAGE.parent / "notebooks"
    with pytest.raises(ConfigError, match="not here"):
        numbered_notebooks(tmp_path)


# -------------------------------------------------------------------------------------------------- failures


def failure(lessons: Path, run_name: str = "one", **options: int) -> NotebookFailed:
    with pytest.raises(NotebookFailed) as caught:
        tutorial(Parameters(run_name=run_name), notebooks=lessons, **options)
    return caught.value


def test_a_failing_cell_is_named_and_its_notebook_is_on_disk(tmp_path: Path, outputs: Path):
    write_notebook(tmp_path / "lessons" / "00_one.ipynb", "print('so far')", "raise ValueError('no good')", "never = 1")
    write_notebook(tmp_path / "lessons" / "01_two.ipynb")

    error = failure(tmp_path / "lessons")

    assert error.message == (
        "00_one stopped at cell In [6], `raise ValueError('no good')`:\nValueError: no good\nNo training is running."
    )
    assert error.look == outputs / "one" / "notebooks" / "00_one.ipynb"
    assert "so far" in outputs_of(error.look)
    assert not (outputs / "one" / "notebooks" / "01_two.ipynb").exists()


def test_what_was_left_behind_is_no_obstacle_to_a_launch(tmp_path: Path, outputs: Path):
    write_notebook(tmp_path / "lessons" / "00_one.ipynb", "1/0")
    failure(tmp_path / "lessons")
    (outputs / "one" / "report.html").touch()

    assert launch(toy_plan(outputs / "one")).wait(30).state.is_success


def test_a_secret_in_an_error_reaches_neither_the_message_nor_the_notebook(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HF_TOKEN", "hf_secret_123")
    write_notebook(tmp_path / "lessons" / "00_one.ipynb", "import os", "raise ValueError(os.environ['HF_TOKEN'])")

    error = failure(tmp_path / "lessons")

    assert "ValueError: [HF_TOKEN]" in error.message
    assert "hf_secret_123" not in error.look.read_text()
    assert "hf_secret_123" not in f"{error}{error.__cause__}"


def test_a_training_that_goes_on_after_a_failure_is_told_with_the_way_to_end_it(tmp_path: Path, outputs: Path):
    finished_run(outputs / "before")
    run = launch(toy_plan(outputs / "one", steps=3, stop_steps_at=2))
    after_steps(run, 2)
    write_notebook(tmp_path / "lessons" / "00_one.ipynb", "1/0")

    error = failure(tmp_path / "lessons")

    assert "The training goes on: run one is running, 2 of 3 steps." in error.message
    assert "rlguide stop one" in error.hint
    assert not run.stop().state.is_success


def test_a_kernel_that_dies_is_told_at_once(tmp_path: Path):
    last_words = "os.write(2, b'out of everything\\n'); os._exit(3)"
    write_notebook(tmp_path / "lessons" / "00_one.ipynb", "import os", last_words)

    error = failure(tmp_path / "lessons")

    assert f"00_one stopped at cell In [6], `{last_words}`:\nthe kernel died" in error.message
    assert "\n  out of everything\n" in error.message
    assert error.look.is_file()


def test_a_cell_that_does_not_end_is_ended_with_its_kernel(tmp_path: Path):
    source = f"open({str(tmp_path / 'kernel')!r}, 'w').write(str(os.getpid()))\nimport time; time.sleep(600)"
    write_notebook(tmp_path / "lessons" / "00_one.ipynb", "import os", source)

    error = failure(tmp_path / "lessons", cell_limit_s=3)

    assert "the cell did not end within 3 s" in error.message
    eventually(lambda: not psutil.pid_exists(int((tmp_path / "kernel").read_text())))


def test_an_interrupted_tutorial_ends_its_kernel_and_says_what_goes_on(tmp_path: Path, outputs: Path):
    run = launch(toy_plan(outputs / "one", steps=3, stop_steps_at=2))
    after_steps(run, 2)
    last = f"import time; open({str(tmp_path / 'begun')!r}, 'w'); time.sleep(600)"
    write_notebook(tmp_path / "lessons" / "00_one.ipynb", last)
    log = tmp_path / "log"
    with log.open("wb") as file:
        argv = [*PROGRAM, "tutorial", "--notebooks", tmp_path / "lessons", "--run-name", "one"]
        child = subprocess.Popen(argv, cwd=tmp_path, stdout=file, stderr=file, env=os.environ)
    eventually((tmp_path / "begun").exists, within_s=60)

    child.send_signal(signal.SIGINT)

    assert child.wait(30) == 130, log.read_text()
    assert "The training goes on: run one is running" in log.read_text()
    assert "Traceback" not in log.read_text()
    run.stop()


# ----------------------------------------------------------------------- single notebooks, through papermill itself


@pytest.fixture
def papermill(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a notebook through papermill's own command line, into `out.ipynb`."""

    def run(notebook: Path, *options: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", "papermill", str(notebook), "out.ipynb", "--kernel", "python3", *options]
        return subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)

    return run


@pytest.mark.parametrize(
    "options", [("-p", "max_steps", "2"), ("-y", "max_steps: 2"), ("-f", "parameters.yml")], ids=("p", "y", "f")
)
def test_papermill_gives_parameters_in_every_way_it_has(papermill, tmp_path: Path, options: tuple[str, ...]):
    (tmp_path / "parameters.yml").write_text("max_steps: 2\n")
    notebook = write_notebook(tmp_path / "00_one.ipynb", "later = 'plain'")

    done = papermill(notebook, *options)

    assert done.returncode == 0, done.stderr
    assert "{'max_steps': 2}" in outputs_of(tmp_path / "out.ipynb")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("-p", "max_stepz", "2"), "did you mean 'max_steps'?"),
        (("-r", "max_steps", "2"), "max_steps = '2' is of type str; wanted: int or None"),
        (("-p", "max_steps", "2.5"), "max_steps = 2.5 is of type float"),
        (("-p", "wandb_api_key", "abc"), "a secret is never a parameter"),
    ],
)
def test_papermill_fails_in_the_guard_for_what_it_would_take(papermill, tmp_path: Path, options, said: str):
    notebook = write_notebook(tmp_path / "00_one.ipynb", "open('started', 'w')")

    done = papermill(notebook, *options)

    assert done.returncode != 0
    assert said in done.stderr
    assert not (tmp_path / "started").exists()


def test_an_error_of_ours_stands_in_the_notebook_without_a_traceback_and_fails_it(papermill, tmp_path: Path):
    notebook = write_notebook(tmp_path / "00_one.ipynb", "open('started', 'w')")

    done = papermill(notebook, "-p", "max_stepz", "2")

    cells = nbformat.read(tmp_path / "out.ipynb", as_version=4).cells
    (error,) = [out for cell in cells for out in cell.get("outputs", ()) if out.output_type == "error"]
    assert done.returncode != 0
    assert error.traceback[0] == "ConfigError: unknown parameter 'max_stepz'; did you mean 'max_steps'?"
    assert error.traceback[1].startswith("hint: ")
    assert len(error.traceback) == 2


def test_papermill_without_a_tagged_cell_is_refused_instead_of_overwritten(papermill, tmp_path: Path):
    notebook = write_notebook(tmp_path / "00_one.ipynb", tagged=False)

    done = papermill(notebook, "-p", "max_steps", "2")

    assert done.returncode != 0
    assert "no effect: max_steps" in done.stderr


def test_an_executed_notebook_can_be_executed_again_with_other_parameters(papermill, tmp_path: Path):
    papermill(write_notebook(tmp_path / "00_one.ipynb"), "-p", "max_steps", "2")
    executed = (tmp_path / "out.ipynb").rename(tmp_path / "again.ipynb")

    done = papermill(executed, "-p", "seed", "5")

    assert done.returncode == 0, done.stderr
    assert "{'seed': 5}" in outputs_of(tmp_path / "out.ipynb")
