"""One odd run directory is one clear line, and hides no other run."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from toy import toy_plan

from rlguide.errors import RunDamaged
from rlguide.history import parse_steps
from rlguide.paths import RunFiles
from rlguide.records import RunRecord, State
from rlguide.run import attach, list_runs
from rlguide.store import read_record, sleep_until_written, write_record


@pytest.mark.parametrize("created_at", ["yesterday", "2026-01-02T03:04:05", ""])
def test_a_run_whose_launch_has_no_readable_time_is_listed_without_an_age(outputs: Path, created_at: str):
    files = a_run(outputs / "odd")
    write_record(files, read_record(files).model_copy(update={"created_at": created_at}))

    assert [(run.created_at, run.age_s) for run in list_runs()] == [(created_at, None)]


def test_a_wait_for_the_record_ends_once_it_is_written_anew(tmp_path: Path):
    files = a_run(tmp_path / "run")
    sleep = sleep_until_written(files)
    began = time.monotonic()

    write_record(files, read_record(files))
    sleep(60)

    assert time.monotonic() - began < 30


def test_a_wait_for_the_record_ends_at_its_limit(tmp_path: Path):
    sleep = sleep_until_written(a_run(tmp_path / "run"))
    began = time.monotonic()

    sleep(0.2)

    assert time.monotonic() - began >= 0.2


def a_run(directory: Path) -> RunFiles:
    """The files of a run that was over as soon as it began."""
    files = RunFiles(directory)
    directory.mkdir(parents=True)
    record = RunRecord(
        name=directory.name, plan=toy_plan(directory), state=State.FAILED, created_at="2026-01-02T03:04:05+00:00"
    )
    write_record(files, record)
    files.steps.write_text('{"step": 0, "completed_updates": 1, "reward": 0.5}\n')
    return files


def replaced(path: Path, make: Callable[[Path], object]) -> None:
    path.unlink()
    make(path)


def changed(files: RunFiles, **changes: object) -> None:
    files.record.write_text(json.dumps(json.loads(files.record.read_text()) | changes))


def loop(path: Path) -> None:
    path.symlink_to(path.name)


ODD = {
    "record is NaN": lambda files: changed(files, elapsed_s=float("nan")),
    "record is infinite": lambda files: changed(files, ready_s=float("inf")),
    "record is of another version": lambda files: changed(files, schema_version=2),
    "record is a folder": lambda files: replaced(files.record, Path.mkdir),
    "record is a pipe": lambda files: replaced(files.record, os.mkfifo),
    "record is a loop of links": lambda files: replaced(files.record, loop),
    "record starts nothing": lambda files: changed(
        files, plan=json.loads(files.record.read_text())["plan"] | {"processes": []}
    ),
    "record names no path": lambda files: changed(
        files, plan=json.loads(files.record.read_text())["plan"] | {"directory": "/a\0b"}
    ),
    "steps are a folder": lambda files: replaced(files.steps, Path.mkdir),
    "steps are a pipe": lambda files: replaced(files.steps, os.mkfifo),
    "steps are a loop of links": lambda files: replaced(files.steps, loop),
}


@pytest.mark.parametrize("oddity", ODD.values(), ids=ODD)
def test_an_odd_run_is_listed_with_its_problem_beside_the_others(
    outputs: Path, oddity: Callable[[RunFiles], None], fresh_python: Callable[[str], str]
):
    a_run(outputs / "good")
    oddity(a_run(outputs / "odd"))

    told = fresh_python("""
from rlguide.run import list_runs
for run in list_runs():
    print(run.name, run.state, run.problem)
""")

    lines = sorted(told.splitlines())
    assert lines[0] == "good failed None"
    assert lines[1].startswith("odd None ")
    assert len(lines) == 2


def test_a_record_of_another_version_says_so(outputs: Path):
    changed(a_run(outputs / "odd"), schema_version=2, unheard_of=1)

    with pytest.raises(RunDamaged, match="is of version 2, and this rlguide reads version 1"):
        attach("odd")


def test_a_folder_that_is_a_loop_of_links_hides_no_run(outputs: Path):
    a_run(outputs / "good")
    loop(outputs / "loop")

    assert [run.name for run in list_runs()] == ["good"]


def test_what_was_not_a_number_is_a_gap_in_the_history():
    history = parse_steps(
        '{"step": 0, "completed_updates": 1, "reward": NaN, "loss": 0.5}\n'
        '{"step": 1, "completed_updates": 2, "reward": 0.5, "grad_norm": Infinity}\n'
        '{"step": NaN, "completed_updates": 3}\n'
    )

    assert [(step.reward, step.loss, step.grad_norm) for step in history.steps] == [
        (None, 0.5, None),
        (0.5, None, None),
    ]
