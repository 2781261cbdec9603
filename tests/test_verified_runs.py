"""What stands in the page about verified runs is what the files beside it say, and neither names a machine."""

import re
from pathlib import Path

import nbformat
import pytest
from test_docs import anchors, code, prose

from rlguide.measurements import Evaluation
from rlguide.paths import RunFiles
from rlguide.records import RunRecord, State, StepRecord
from rlguide.run import attach, list_runs
from rlguide.store import read_record

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "verified-runs"
PAGE = FOLDER / "README.md"
RUN = FOLDER / "prime-rl-two-h200"
TEXTS = sorted(path for path in FOLDER.rglob("*") if path.is_file() and path.suffix != ".png")
NOTEBOOKS = sorted((RUN / "notebooks").glob("*.ipynb"))
LARGEST = 1_500_000
NAMES_A_MACHINE = re.compile(
    r"/root\b|/(?:tmp|mnt|work|Users)/|/home/(?!user\b)\w+"
    r'|"host": "(?!node")[^"]+"'
    r"|\b(?!0{8}(?:-0{4}){3}-0{12}\b)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"
    r"|\b(?!127\.0\.0\.1\b|0\.0\.0\.0\b|192\.0\.2\.)(?:\d{1,3}\.){3}\d{1,3}\b",
    re.IGNORECASE,
)
"""Folders of somebody, hosts, ids of hardware or of a start, addresses; pictures inside texts are taken out before."""

each_text = pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(FOLDER)))
each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


@pytest.fixture(scope="module")
def told() -> dict[str, list[str]]:
    """First cell of each row of the page's tables → the other cells."""
    rows = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in prose(PAGE) if line.startswith("|")]
    return {first: rest for first, *rest in rows}


@pytest.fixture(scope="module")
def record() -> RunRecord:
    return RunRecord.model_validate_json((RUN / "run.json").read_text("utf-8"))


def evaluation(name: str) -> Evaluation:
    return Evaluation.model_validate_json((RUN / "evals" / f"{name}.json").read_text("utf-8"))


def cells(notebook: Path) -> list[nbformat.NotebookNode]:
    return nbformat.read(notebook, as_version=4).cells


def test_the_rewards_of_the_page_are_those_of_the_steps(told: dict[str, list[str]], record: RunRecord):
    lines = (RUN / "steps.jsonl").read_text("utf-8").splitlines()
    rewards = [StepRecord.model_validate_json(line).reward for line in lines]

    assert len(rewards) == record.plan.max_steps
    assert told["reward in step 0"] == [f"{rewards[0]:.3f}"]
    assert told["reward in step 19"] == [f"{rewards[19]:.3f}"]


def test_the_evaluations_of_the_page_are_those_of_the_files(told: dict[str, list[str]]):
    before, after = evaluation("warm-start-step_0"), evaluation("trained-policy-step_20")

    assert told["evaluation of the warm start"] == [f"{before.mean:.4f}"]
    assert told["evaluation of `weights/step_20`"] == [f"{after.mean:.4f}"]
    assert before.scored == after.scored == 120
    assert told["completions behind each evaluation"] == ["120: 40 held-out texts × 3"]
    seconds = ", ".join(f"{round(one.seconds)} s" for one in (before, after))
    assert told["evaluation of the warm start, then of the trained policy"] == [seconds]
    (interval,) = told["difference, 95 % interval"]
    assert interval in (RUN / "notebooks" / "06_evaluate_the_policy.ipynb").read_text("utf-8")


def test_the_times_of_the_page_are_those_of_the_record(told: dict[str, list[str]], record: RunRecord):
    limit = round(record.plan.time_limit_s)

    assert record.state.is_success
    assert told["the run, from launch to end"] == [f"{round(record.elapsed_s)} s, of at most {limit} s"]
    assert told["until its first step was done"] == [f"{round(record.ready_s)} s"]


@pytest.mark.parametrize(
    ("name", "row"),
    [("time-limit", "time limit of 75 s, 31 of 400 steps"), ("killed-launcher", "`kill -9` of the launcher")],
)
def test_the_ends_of_the_page_are_those_of_the_records(told: dict[str, list[str]], name: str, row: str):
    ended = RunRecord.model_validate_json((RUN / "faults" / name / "run.json").read_text("utf-8"))
    became = told[row][0]

    assert became.startswith(ended.state.value)
    assert (ended.failed_component or "time limit") in became
    assert ended.reason in (RUN / "faults" / name / "supervisor.log").read_text("utf-8")


@each_text
def test_a_file_names_no_machine(path: Path):
    text = re.sub(r"base64,[\w+/=]+", "", path.read_text("utf-8"))

    assert not [found.group() for found in NAMES_A_MACHINE.finditer(text)]


@each_notebook
def test_an_executed_notebook_has_outputs_and_no_error(path: Path):
    outputs = [output for cell in cells(path) for output in cell.get("outputs", ())]

    assert outputs
    assert not [output for output in outputs if output.output_type == "error"]
    assert all(cell.execution_count for cell in cells(path) if cell.cell_type == "code")


@pytest.mark.parametrize("path", [PAGE, *NOTEBOOKS], ids=lambda path: path.stem)
def test_links_lead_somewhere(path: Path):
    texts = prose(path) if path == PAGE else [cell.source for cell in cells(path) if cell.cell_type == "markdown"]
    targets = [link for text in texts for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link]

    assert targets
    for target in targets:
        name, _, anchor = target.partition("#")
        assert (path.parent / name).exists(), target
        assert not anchor or anchor in anchors(path.parent / name), target


def test_the_page_says_how_to_see_the_notebooks_as_they_were():
    (asked,) = [line for line in code(PAGE) if "jupyter trust" in line]

    assert sorted(PAGE.parents[2].glob(asked.split()[-1])) == NOTEBOOKS


def test_the_configuration_to_repeat_a_run_is_the_one_that_ran(record: RunRecord):
    assert (RUN / "config.toml").read_text("utf-8") == record.plan.files["config.toml"]


def test_the_recorded_run_is_listed_as_any_other_and_not_as_one_that_was_moved(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RLGUIDE_OUTPUTS", str(FOLDER))

    (listed,) = list_runs()
    status = attach(RUN.name).status

    assert (listed.name, listed.problem, listed.state) == (RUN.name, None, State.SUCCEEDED)
    assert (status.reason, status.plan.directory) == (None, RUN)


@pytest.mark.parametrize("path", sorted(RUN.rglob("run.json")), ids=lambda path: path.parent.name)
def test_a_recorded_run_is_at_home_where_it_lies(path: Path):
    assert read_record(RunFiles(path.parent)).made_in is None


def test_the_evidence_is_small():
    assert sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file()) < LARGEST
