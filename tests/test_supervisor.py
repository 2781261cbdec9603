"""How runs end, each with real processes under a real supervisor."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from disks import full, needs_mount, small_disk
from toy import (
    ENGINE,
    FOREVER,
    LAUNCHER,
    after_steps,
    eventually,
    launcher_plan,
    processes_below,
    toy_plan,
    trainer_of,
    workers_of,
)

from rlguide.errors import Busy
from rlguide.files import write_atomically
from rlguide.history import parse_steps
from rlguide.records import Process, State, StepRecord
from rlguide.run import launch, list_runs
from rlguide.slot import cpu_slot
from rlguide.store import StepLog

__all__ = ["small_disk"]
pytestmark = pytest.mark.usefixtures("nothing_left")


@pytest.fixture
def directory(outputs: Path) -> Path:
    return outputs / "toy"


def test_a_run_that_reaches_its_last_step_with_whole_weights_succeeds(directory: Path):
    run = launch(toy_plan(directory))

    end = run.wait(30)

    assert end.state is State.SUCCEEDED
    assert end.components[0].exit_code == 0
    assert [(step.step, step.completed_updates, step.reward) for step in run.history.steps] == [
        (0, 1, 0.0),
        (1, 2, 0.1),
        (2, 3, 0.2),
    ]
    assert 0 < end.ready_s < end.elapsed_s
    assert all(step.elapsed_s <= end.elapsed_s for step in run.history.steps)
    assert processes_below(directory) == []


def test_a_run_is_starting_until_its_first_step_and_then_running(directory: Path):
    run = launch(toy_plan(directory, start_s=1.0, **FOREVER))
    assert run.status.state is State.STARTING
    assert run.status.ready_s is None

    eventually(lambda: run.record.state is State.RUNNING)

    assert len(run.history) >= 1
    assert run.record.ready_s > 0.9
    run.stop()


@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [
        ({"exit_at": 1, "exit_code": 0}, "without its last step"),
        ({"weights": False}, "without complete weights of the last step"),
        ({"exit_at": 1, "exit_code": 3}, "exit code 3 after 1 of 3 steps"),
    ],
    ids=["ended early", "no weights", "error"],
)
def test_exit_alone_is_no_success(directory: Path, behaviour: dict, reason: str):
    end = launch(toy_plan(directory, **behaviour)).wait(30)

    assert end.state is State.FAILED
    assert end.failed_component == "trainer"
    assert reason in end.reason


def test_when_one_component_dies_the_others_are_ended(directory: Path):
    dies = Process(name="inference", argv=(sys.executable, "-c", "exit(4)"), log=Path("inference.log"))
    run = launch(toy_plan(directory, others=(dies,), **FOREVER))

    end = run.wait(30)

    assert (end.state, end.failed_component) == (State.FAILED, "inference")
    assert {status.name: status.exit_code for status in end.components}["inference"] == 4
    assert processes_below(directory) == []


@pytest.mark.parametrize(
    ("tells", "component"),
    [("Inference", "inference"), ("Env server reverse-text", "launcher"), ("Teacher_inference", "launcher")],
)
def test_a_component_that_the_launcher_says_has_failed_fails_the_run(directory: Path, tells: str, component: str):
    run = launch(launcher_plan(directory, tells=tells, clean_up_s=600, grace_s=0.5))
    after_steps(run, 2)
    (directory / ENGINE / "logs" / "inference.log").write_text("out of memory\n")

    workers_of(directory)[0].kill()
    eventually(lambda: run.record.failed_component, within_s=3)
    end = run.wait(30)

    assert end.state is State.FAILED
    assert end.failed_component == component
    assert end.reason == f"{tells.lower()} ended with signal 9 (Killed) after 2 of 3 steps"
    assert run.tail(component)


def test_what_the_launcher_said_counts_when_it_ends_at_the_same_time(directory: Path):
    run = launch(launcher_plan(directory))
    after_steps(run, 2)

    workers_of(directory)[0].kill()
    end = run.wait(30)

    assert end.failed_component == "inference"
    assert end.components[0].exit_code == 1


def test_a_launcher_that_is_killed_is_named_itself(directory: Path):
    run = launch(launcher_plan(directory))
    after_steps(run, 2)

    trainer_of(run).kill()
    end = run.wait(30)

    assert (end.failed_component, end.reason) == (
        "launcher",
        "launcher ended with signal 9 (Killed) after 2 of 3 steps",
    )


@pytest.mark.parametrize("limit", [{}, {"time_limit_s": 2}], ids=["stop", "time limit"])
def test_components_that_the_stop_itself_ended_have_not_failed(directory: Path, limit: dict):
    run = launch(launcher_plan(directory, **limit))
    after_steps(run, 2)

    end = run.wait(30) if limit else run.stop()

    assert end.state is State.STOPPED
    assert end.failed_component is None
    assert "failed with exit code -15" in (directory / LAUNCHER).read_text()


def test_what_a_launcher_said_before_a_resume_does_not_fail_the_next_attempt(directory: Path):
    run = launch(launcher_plan(directory))
    after_steps(run, 2)
    workers_of(directory)[0].kill()
    run.wait(30)
    ready = (directory / LAUNCHER).read_text().count("ready")
    run.resume()
    eventually(lambda: (directory / LAUNCHER).read_text().count("ready") > ready)

    log = directory / LAUNCHER
    log.write_text("of two attempts\n" + log.read_text())  # so that it is read from its beginning again
    workers_of(directory)[0].terminate()

    assert run.wait(30).reason.startswith("inference ended with signal 15")


@pytest.mark.parametrize("is_first", [True, False])
def test_a_program_that_does_not_exist_fails_the_run_and_ends_the_others(directory: Path, is_first: bool):
    missing = Process(name="inference", argv=("/no/such/program",), log=Path("inference.log"))
    plan = toy_plan(directory, others=(missing,), **FOREVER)
    processes = plan.processes[::-1] if is_first else plan.processes

    end = launch(plan.model_copy(update={"processes": processes})).wait(30)

    assert (end.state, end.failed_component) == (State.FAILED, "inference")
    assert "/no/such/program" in end.reason


def test_a_second_run_on_the_cpu_is_refused_before_it_begins_and_the_first_is_named(directory: Path):
    with cpu_slot("a test"), pytest.raises(Busy, match="the CPU is in use by a test"):
        launch(toy_plan(directory, exclusive_cpu=True))

    assert list_runs() == []
    assert launch(toy_plan(directory, exclusive_cpu=True)).wait(30).state is State.SUCCEEDED  # the name is still free


def test_a_run_on_the_cpu_leaves_the_slot_free(directory: Path):
    run = launch(toy_plan(directory, exclusive_cpu=True, **FOREVER))
    after_steps(run, 1)
    run.stop()

    with cpu_slot("me"):
        pass


def test_an_engine_starts_before_anything_heavy_is_loaded(fresh_python):
    told = fresh_python("import sys, rlguide.supervisor; print({'pydantic', 'psutil'} & set(sys.modules))")

    assert told.strip() == "set()"


def test_a_supervisor_that_does_not_understand_its_record_leaves_no_engine_behind(directory: Path):
    run = launch(toy_plan(directory))
    record = run.wait(30).model_dump(mode="json") | {"attempt": 1, "schema_version": 99, "state": "planned"}
    record["plan"] = toy_plan(directory, start_s=600).model_dump(mode="json")
    run.files.record.write_text(json.dumps(record))

    done = subprocess.run([sys.executable, "-m", "rlguide.supervisor", str(directory)], capture_output=True, text=True)

    assert done.returncode == 2
    assert "is of version 99" in done.stderr
    eventually(lambda: not processes_below(directory))


@needs_mount
def test_steps_that_do_not_fit_on_a_full_disk_are_written_later(small_disk: Path):
    path = small_disk / "steps.jsonl"
    log = StepLog(path)
    steps = [StepRecord(step=number, completed_updates=number + 1) for number in range(200)]

    with full(small_disk):
        for step in steps:
            log.add(step)
        with pytest.raises(OSError, match="No space left"):
            log.flush()
    log.flush()

    assert parse_steps(path.read_text()).steps == tuple(steps)
    assert len(path.read_text().splitlines()) == 200


def test_an_atomic_write_leaves_the_old_content_or_the_new(tmp_path: Path):
    path = tmp_path / "a.json"
    write_atomically(path, "old")

    with pytest.raises(UnicodeEncodeError):
        write_atomically(path, "new \ud800")

    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
