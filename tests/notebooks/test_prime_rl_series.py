"""The whole series with the engine `prime-rl` on two GPUs: stand-ins for its programs, and for NVIDIA's library."""

import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from pages import PAGES, outputs_in
from prime_rl_stand_in import calls, make_checkout

from rlguide.checkout import VARIABLE
from rlguide.child import answer_of
from rlguide.config import load_config, write_config
from rlguide.paths import RunFiles
from rlguide.run import Run, attach

GPU = {"name": "NVIDIA H200", "total": 150_000_000_000, "free": 149_500_000_000, "capability": [9, 0], "pids": []}
TWO_GPUS = {"driver": "580.1", "cuda": 13000, "gpus": [GPU | {"uuid": "GPU-a"}, GPU | {"uuid": "GPU-b"}]}
SMALL = {
    "run_name": "guides",
    "engine": "prime-rl",
    "orchestrator.train.env": [{"id": "reverse-text", "args": {"dataset": "rlguide"}}],
    "inference.port": random.randrange(12_000, 32_000),  # below those that the system deals out
    "evaluation.num_tasks": 12,
    "evaluation.rollouts_per_task": 2,
}
LIMIT_S = 400


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A machine with two GPUs and prime-rl's checkout; nothing that works in it is left running."""
    folder = tmp_path_factory.mktemp("two GPUs")
    make_checkout(folder / "prime-rl")
    gpus = {"PYTHONPATH": str(Path(__file__).parents[1] / "fake_nvml"), "FAKE_NVML": json.dumps(TWO_GPUS)}
    with outputs_in(folder, **{VARIABLE: str(folder / "prime-rl"), **gpus}):
        yield folder


@pytest.fixture(scope="module")
def told(folder: Path) -> str:
    """What `rlguide tutorial` prints for the whole series."""
    files = RunFiles(folder / "outputs" / "guides")
    files.directory.mkdir(parents=True)
    write_config(load_config("tiny", SMALL), files.config)
    rlguide = (sys.executable, "-c", "from rlguide.cli import main; main()")
    answer = answer_of((*rlguide, "tutorial", "--engine", "prime-rl", "--run-name", "guides"), limit_s=LIMIT_S)
    assert answer.code == 0, answer.out + answer.err
    return answer.out


@pytest.fixture(scope="module")
def run(told: str) -> Run:
    return attach("guides")


def test_the_series_ends_with_the_report_and_a_policy_that_became_better(told: str, run: Run):
    report, result = told.splitlines()

    assert report == f"report: {run.files.report}"
    words = dict(word.split("=") for word in result.removeprefix("reward ").split())
    assert float(words["before"]) < 0.4 < 0.8 < float(words["after"])
    assert words["n"] == "24"


def test_every_notebook_was_executed_without_an_error(run: Run):
    executed = {path.name: nbformat.read(path, as_version=4) for path in run.files.notebooks.glob("*.ipynb")}

    assert sorted(executed) == sorted(page.name for page in PAGES)
    outputs = [output for page in executed.values() for cell in page.cells for output in cell.get("outputs", ())]
    assert not [output for output in outputs if output.output_type == "error"]


def test_the_run_is_the_guides_three_processes_on_two_gpus(folder: Path, run: Run):
    record = run.record
    started = calls(folder / "prime-rl")

    assert (record.state.value, record.plan.engine, record.plan.gpus) == ("succeeded", "prime-rl", (0, 1))
    assert {"rl", "inference", "orchestrator", "torchrun", "vf-eval"} <= {call["program"] for call in started}
    assert len(run.history) == 20
    assert run.history.first.reward < 0.3 < 0.8 < run.history.last.reward
    assert all(step.loss is not None and step.sampling_s is not None for step in run.history.steps)


def test_the_monitor_shows_the_components_of_prime_rl(run: Run):
    page = (run.files.notebooks / "05_monitor_the_run.ipynb").read_text(encoding="utf-8")

    assert "mismatch KL" in page
    for component in ("launcher", "orchestrator", "trainer", "inference"):
        assert run.tail(component, 3)
