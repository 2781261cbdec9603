"""Handles on runs: launching twice, attaching, waiting, stopping, going on, cleaning up."""

import json
import os
import shutil
import sys
from pathlib import Path

import pytest
from toy import (
    ENGINE,
    FOREVER,
    HIDDEN,
    WHOLE,
    after_steps,
    child_of,
    eventually,
    processes_below,
    supervisor_of,
    toy_plan,
    trainer_of,
)

from rlguide import launching
from rlguide.config import from_preset, load_config
from rlguide.errors import ConfigError, LaunchError, RunDamaged, RunNotFound, RunOccupied, WaitTimeout
from rlguide.process import is_alive, lives
from rlguide.records import State, StoppedBy
from rlguide.run import Run, attach, launch, list_runs
from rlguide.store import StepLog, write_record

pytestmark = pytest.mark.usefixtures("nothing_left")


@pytest.fixture
def directory(outputs: Path) -> Path:
    return outputs / "toy"


# ------------------------------------------------------------------------------------------------------- launching


def test_a_launch_returns_at_once_and_keeps_what_was_asked_for(directory: Path):
    config = from_preset("tiny").replace({"max_steps": 3})

    made = toy_plan(directory, start_s=60)
    run = launch(made.model_copy(update={"files": made.files | {"config.toml": config.to_toml()}}))

    assert not run.status.state.is_over
    assert run.status.elapsed_s < 5
    assert load_config(directory) == config
    assert (directory / "rl.toml").read_text() == "# toy\n"
    run.stop()


@pytest.mark.parametrize("behaviour", [FOREVER, {}], ids=["running", "succeeded"])
def test_the_same_plan_again_attaches_and_says_so(directory: Path, behaviour: dict):
    first = launch(toy_plan(directory, **behaviour))
    after_steps(first, 2) if behaviour else first.wait(30)
    supervisor = first.record.supervisor

    again = launch(toy_plan(directory, **behaviour))

    assert first.notice is None
    assert ("is already running" if behaviour else "has already succeeded") in again.notice
    assert again.record.supervisor == supervisor
    again.stop()


def test_a_plan_that_ended_badly_is_refused_with_the_ways_out(directory: Path):
    launch(toy_plan(directory, exit_at=0)).wait(30)

    with pytest.raises(RunOccupied) as refused:
        launch(toy_plan(directory, exit_at=0))

    assert "failed" in refused.value.message
    assert all(word in refused.value.hint for word in ("clean", "run_name"))
    assert "resume" not in refused.value.hint  # it saved nothing to go on from


def test_a_plan_that_ended_badly_with_a_checkpoint_may_be_resumed(directory: Path):
    run = launch(toy_plan(directory, exit_at=0))
    run.wait(30)
    (directory / ENGINE / "checkpoints" / "step_1").mkdir(parents=True)

    with pytest.raises(RunOccupied) as refused:
        launch(toy_plan(directory, exit_at=0))

    assert run.checkpoint == directory / ENGINE / "checkpoints" / "step_1"
    assert "resume" in refused.value.hint


def test_another_plan_in_the_same_directory_is_refused(directory: Path):
    launch(toy_plan(directory)).wait(30)

    with pytest.raises(RunOccupied, match="another plan"):
        launch(toy_plan(directory, steps=4))


def test_a_directory_with_other_things_is_refused(directory: Path):
    directory.mkdir(parents=True)
    (directory / "thesis.tex").write_text("precious")

    with pytest.raises(RunOccupied, match=r"thesis\.tex"):
        launch(toy_plan(directory))

    assert [(path.name, path.read_text()) for path in directory.iterdir()] == [("thesis.tex", "precious")]


def test_a_directory_whose_name_is_no_text_is_refused_before_it_is_made(outputs: Path):
    directory = outputs / os.fsdecode(b"caf\xe9")

    with pytest.raises(ConfigError, match="utf-8") as refused:
        launch(toy_plan(directory))

    assert refused.value.hint
    assert not directory.exists()


def test_a_configuration_that_was_saved_before_is_no_obstacle(directory: Path):
    directory.mkdir(parents=True)
    (directory / "config.toml").write_text("max_steps = 3  # mine\n")

    run = launch(toy_plan(directory))

    assert run.wait(30).state is State.SUCCEEDED
    assert (directory / "config.toml").read_text() == "max_steps = 3  # mine\n"


@pytest.mark.parametrize(("held", "kept"), [("max_steps = 3  # mine\n", True), ("max_steps = 5  # mine\n", False)])
def test_a_launch_loses_nothing_that_was_written_into_the_configuration(directory: Path, held: str, kept: bool):
    directory.mkdir(parents=True)
    (directory / "config.toml").write_text(held)
    asked = from_preset("tiny").replace({"max_steps": 5})

    run = launch(toy_plan(directory).model_copy(update={"files": {"config.toml": asked.to_toml()}}))

    copies = list((directory / "earlier").glob("*"))
    assert load_config(directory) == asked
    assert [copy.read_text() for copy in copies] == [held] * kept
    assert [str(copy) in str(run.notice) for copy in copies] == [True] * kept
    assert kept or (directory / "config.toml").read_text() == held
    run.wait(30)


def test_a_directory_that_cannot_be_written_is_a_clear_error(outputs: Path):
    outputs.write_text("a file where the folder should be")

    with pytest.raises(LaunchError, match="cannot write the run directory") as refused:
        launch(toy_plan(outputs / "toy"))

    assert refused.value.hint


def test_a_launch_that_was_cut_off_shows_as_interrupted_and_can_go_on(directory: Path):
    first = launch(toy_plan(directory))
    record = first.wait(30).model_copy(update={"state": State.PLANNED, "supervisor": None, "components": ()})
    write_record(first.files, record)

    run = attach(directory)

    assert run.status.state is State.INTERRUPTED
    assert "cut off" in run.status.reason
    assert run.resume().wait(30).state is State.SUCCEEDED


# --------------------------------------------------------------------------------------------------------- looking


def test_a_handle_is_attached_to_as_it_is(directory: Path):
    run = launch(toy_plan(directory))

    assert attach(run) is run
    assert run.wait(30).state is State.SUCCEEDED


def test_a_run_is_found_again_from_another_process(directory: Path, fresh_python):
    run = launch(toy_plan(directory, **FOREVER))
    after_steps(run, 2)

    told = fresh_python("""
from rlguide.run import attach
run = attach("toy")
print(run.directory, run.status.state, len(run.history), run.stop().stopped_by)
""")

    assert told.split() == [str(directory), "running", "2", "user"]


def test_a_missing_run_is_not_found(outputs: Path):
    with pytest.raises(RunNotFound) as missing:
        attach("nowhere")

    assert "nowhere" in missing.value.message
    assert missing.value.look == outputs
    assert not (outputs / "nowhere").exists()


def test_a_name_that_is_nearly_right_is_suggested(outputs: Path):
    launch(toy_plan(outputs / "first-run")).wait(30)

    with pytest.raises(RunNotFound) as missing:
        attach("frist-run")

    assert "did you mean 'first-run'?" in missing.value.hint


@pytest.mark.parametrize(
    "name", ["a" * 300, "a\0b", "~nobody-of-that-name/x", ""], ids=["long", "NUL", "user", "empty"]
)
def test_what_can_be_no_name_is_a_clear_error(name: str):
    with pytest.raises((RunNotFound, ConfigError)) as refused:
        attach(name)

    assert refused.value.hint
    assert len(refused.value.message) < 500


@pytest.mark.parametrize("content", ["", "{", '{"state": "run', "[]", '{"supervisor": {"pid": "abc"}}', "\xff"])
def test_a_damaged_record_is_a_readable_error(directory: Path, content: str):
    directory.mkdir(parents=True)
    (directory / "run.json").write_text(content, encoding="latin-1")

    with pytest.raises(RunDamaged, match=r"run\.json is damaged") as damaged:
        attach(directory)

    assert damaged.value.look == directory / "run.json"
    assert [summary.state for summary in list_runs()] == [None]


def test_all_runs_are_listed_with_their_state_and_reward(outputs: Path):
    assert list_runs() == []
    launch(toy_plan(outputs / "good")).wait(30)
    launch(toy_plan(outputs / "bad", exit_at=1)).wait(30)
    (outputs / "no run").mkdir()

    found = {summary.name: summary for summary in list_runs()}

    assert {name: summary.state for name, summary in found.items()} == {"good": "succeeded", "bad": "failed"}
    assert (found["good"].reward_first, found["good"].reward_last) == (0.0, 0.2)
    assert (found["good"].completed_updates, found["bad"].completed_updates) == (3, 1)
    assert 0 <= found["bad"].age_s <= found["good"].age_s < 60


def test_logs_rollouts_and_weights_are_found(directory: Path):
    run = launch(toy_plan(directory))
    run.wait(30)

    assert run.tail("trainer", 2) == ["step 1", "step 2"]
    assert "over: succeeded" in run.tail("supervisor")[-1]
    assert run.rollouts(1)[0].completion == "cba"
    assert run.rollouts(99) == ()
    assert run.weights == directory / ENGINE / "weights" / "step_3"
    with pytest.raises(ConfigError, match="'orchestrator'"):
        run.tail("orchestrator")


def test_weights_without_their_marker_are_not_taken(directory: Path):
    run = launch(toy_plan(directory))
    run.wait(30)
    weights = directory / ENGINE / "weights"
    (weights / "step_10").mkdir()

    assert run.weights == weights / "step_3"

    (weights / "step_3" / "STABLE").unlink()
    assert run.weights is None


def test_waiting_tells_every_change_and_gives_up_without_harm(directory: Path):
    run = launch(toy_plan(directory, **FOREVER))
    seen = []

    with pytest.raises(WaitTimeout):
        run.wait(2, on_update=lambda record, history: seen.append((record.state, len(history))))

    assert seen[-1] == (State.RUNNING, 2)
    assert not run.status.state.is_over
    run.stop()


# -------------------------------------------------------------------------------------------------------- identity


def test_a_copy_of_a_run_says_so_and_leaves_the_original_alone(directory: Path, outputs: Path):
    run = launch(toy_plan(directory, **FOREVER))
    after_steps(run, 2)
    copy = Run(outputs / "copy")
    copy.directory.mkdir()
    copy.files.record.write_bytes(run.files.record.read_bytes())

    end = copy.stop()

    assert end.state is State.INTERRUPTED
    assert str(directory) in end.reason
    assert is_alive(run.record.components[0].identity)
    with pytest.raises(RunOccupied, match="was made in"):
        copy.resume()
    run.stop()


def test_a_run_that_was_over_before_the_launch_looked_again_was_launched(directory: Path):
    run = launch(toy_plan(directory))
    over = run.wait(30)
    write_record(run.files, over.model_copy(update={"supervisor": None}))

    class Ended:
        def poll(self) -> int:
            """Signed in and done, between two looks."""
            write_record(run.files, over)
            return 0

    launching._await_sign_in(run.files, Ended())  # raises where it takes that for a supervisor that did not start


def test_a_copy_goes_by_its_own_name_and_removing_it_leaves_the_original(directory: Path, outputs: Path):
    run = launch(toy_plan(directory))
    run.wait(30)
    shutil.copytree(directory, outputs / "copy")

    listed = {summary.name: summary.problem for summary in list_runs()}
    copy = attach("copy")
    status = copy.status
    copy.clean()

    assert listed == {"toy": None, "copy": f"a copy of {directory}"}
    assert (status.name, status.plan.directory, status.state) == ("copy", outputs / "copy", State.SUCCEEDED)
    assert status.reason == f"this run is a copy of {directory}"
    assert [summary.name for summary in list_runs()] == ["toy"]


def test_a_run_that_was_renamed_goes_by_its_new_name(directory: Path, outputs: Path):
    launch(toy_plan(directory)).wait(30)
    directory.rename(outputs / "renamed")

    run = attach("renamed")

    assert run.status.name == run.argument == "renamed"
    assert run.status.reason == f"this run was moved here from {directory}"
    assert run.weights == outputs / "renamed" / ENGINE / "weights" / "step_3"
    assert "made_in" not in run.record.model_dump()
    with pytest.raises(RunNotFound, match="'toy'"):
        attach("toy")


def test_a_run_outside_the_outputs_folder_is_called_by_its_path(tmp_path: Path):
    assert Run(tmp_path / "elsewhere").argument == str(tmp_path / "elsewhere")


# -------------------------------------------------------------------------------------------------------- stopping


def test_stop_lets_the_engine_save_and_leaves_nothing(directory: Path):
    run = launch(toy_plan(directory, save_s=0.5, **FOREVER))
    after_steps(run, 2)

    end = run.stop()

    assert (end.state, end.stopped_by) == (State.STOPPED, StoppedBy.USER)
    assert end.reason == "stopped on request after 2 of 3 steps"
    assert (directory / ENGINE / "checkpoints" / "last").read_text() == "2"
    assert processes_below(directory) == []
    assert run.stop() == end


def test_a_stop_waits_for_a_supervisor_that_is_busy_ending(directory: Path):
    run = launch(toy_plan(directory, grace_s=30, save_s=8, **FOREVER))
    after_steps(run, 2)

    end = run.stop(silence_s=6)  # the supervisor writes every 5 s

    assert (end.state, end.stopped_by) == (State.STOPPED, StoppedBy.USER)


def test_the_reason_counts_the_steps_that_were_done_while_it_was_ending(directory: Path):
    run = launch(toy_plan(directory, grace_s=1, ignore_sigterm=True, steps=500, step_s=0.1))
    after_steps(run, 1)

    end = run.stop()

    assert end.reason == f"stopped on request after {run.history.completed_updates} of 500 steps"


# -------------------------------------------------------------------------------------------------------- going on


def test_a_stopped_run_goes_on_from_its_checkpoint_and_keeps_its_history(directory: Path):
    run = launch(toy_plan(directory, steps=4, stop_steps_at=2))
    after_steps(run, 2)
    run.stop()
    let_it_run_on(run)

    again = run.resume()

    end = again.wait(30)
    assert (end.state, end.attempt, end.stopped_by) == (State.SUCCEEDED, 2, None)
    assert [(step.step, step.attempt) for step in run.history.steps] == [(0, 1), (1, 1), (2, 2), (3, 2)]


def test_steps_that_nobody_recorded_are_found_on_resume(directory: Path):
    run = launch(toy_plan(directory, steps=4, stop_steps_at=2))
    after_steps(run, 2)
    supervisor_of(run).kill()
    eventually(lambda: not processes_below(directory))
    run.files.steps.write_text(run.files.steps.read_text().splitlines(keepends=True)[0] + '{"step": 1, "compl')
    let_it_run_on(run)

    run.resume().wait(30)

    assert [(step.step, step.attempt) for step in run.history.steps] == [(0, 1), (1, 1), (2, 2), (3, 2)]


@pytest.mark.parametrize(
    ("saved", "arguments"), [((4, 5), ["--resume", "--step=5"]), ((), [])], ids=["a checkpoint", "none"]
)
def test_a_resume_names_the_newest_complete_checkpoint_where_the_engine_wants_its_number(
    directory: Path, saved: tuple[int, ...], arguments: list[str]
):
    plan = toy_plan(directory, checkpoint_markers=WHOLE, **FOREVER)
    run = launch(plan.model_copy(update={"resume_args": ("--resume", "--step={step}")}))
    after_steps(run, 2)
    trainer_of(run).kill()
    run.wait(30)
    for step in (*saved, 6):
        (directory / ENGINE / "checkpoints" / f"step_{step}").mkdir(parents=True)
    for step in saved:
        (directory / ENGINE / "checkpoints" / f"step_{step}" / "whole").touch()

    run.resume()

    started = trainer_of(run).cmdline()
    assert started[len(plan.processes[0].argv) :] == arguments
    assert not (directory / ENGINE / "checkpoints" / "step_6").exists()
    run.stop()


def test_a_resume_first_ends_what_is_left_of_the_attempt_before(directory: Path):
    run = launch(toy_plan(directory, grace_s=0.5, ignore_sigterm=True, **FOREVER))
    after_steps(run, 2)
    engine = run.record.components[0].identity
    supervisor_of(run).kill()
    eventually(lambda: run.status.state is State.INTERRUPTED)

    run.resume()

    assert not is_alive(engine)
    assert eventually(lambda: run.record.components)[0].identity != engine
    run.stop()


@pytest.mark.skipif(sys.platform != "linux", reason="only a subreaper finds such an orphan")
def test_a_hidden_process_of_a_killed_attempt_keeps_clean_away_and_a_resume_ends_it(directory: Path):
    run = launch(toy_plan(directory, grace_s=5, child=HIDDEN, **FOREVER))  # in which the caretaker waits for it
    after_steps(run, 2)
    child = child_of(run)
    for process in (supervisor_of(run), trainer_of(run)):
        process.kill()
    eventually(lambda: run.status.state is State.INTERRUPTED)

    with pytest.raises(RunOccupied, match="still has processes"):
        run.clean()
    assert lives(child)
    (directory / ENGINE / "child-ready").unlink()
    run.resume()

    assert not lives(child)
    run.stop()


@pytest.mark.parametrize("behaviour", [FOREVER, {}], ids=["running", "succeeded"])
def test_a_run_that_needs_no_resume_is_refused(directory: Path, behaviour: dict):
    run = launch(toy_plan(directory, **behaviour))
    after_steps(run, 2) if behaviour else run.wait(30)

    with pytest.raises(RunOccupied) as refused:
        run.resume()

    assert ("stop it first" if behaviour else "evaluate it") in refused.value.hint
    run.stop()


# -------------------------------------------------------------------------------------------------------- cleaning


def test_a_run_that_is_over_can_be_removed_and_launched_anew(directory: Path):
    run = launch(toy_plan(directory, exit_at=1))
    run.wait(30)

    run.clean()

    assert not directory.exists()
    assert launch(toy_plan(directory)).wait(30).state is State.SUCCEEDED


def test_a_run_that_lives_is_not_removed(directory: Path):
    run = launch(toy_plan(directory, **FOREVER))
    after_steps(run, 1)

    with pytest.raises(RunOccupied, match="still has processes"):
        run.clean()

    assert is_alive(run.record.supervisor)
    run.stop()


def test_nothing_outside_the_outputs_folder_is_removed(tmp_path: Path, outputs: Path):
    elsewhere = launch(toy_plan(tmp_path / "elsewhere"))
    elsewhere.wait(30)
    outputs.mkdir()
    (outputs / "link").symlink_to(elsewhere.directory)

    for folder in (elsewhere.directory, outputs / "link", outputs):
        with pytest.raises((RunOccupied, RunNotFound)):
            Run(folder).clean()
    with pytest.raises(RunNotFound):
        Run(outputs / "nothing").clean()

    assert elsewhere.record.state is State.SUCCEEDED
    assert not (outputs / "nothing").exists()


def test_a_step_log_goes_on_behind_half_a_line(tmp_path: Path, directory: Path):
    run = launch(toy_plan(directory))
    run.wait(30)
    first, second, _ = run.history.steps
    path = tmp_path / "steps.jsonl"
    path.write_text(first.model_dump_json() + "\n" + '{"step": 1, "comp')

    log = StepLog(path)
    log.add(second)
    log.flush()

    assert [json.loads(line)["step"] for line in path.read_text().splitlines()] == [0, 1]


def let_it_run_on(run: Run) -> None:
    """Take away what made the toy engine stop: the next attempt is a well-behaved one."""
    record = run.record
    process = record.plan.processes[0]
    argv = (*process.argv[:-1], json.dumps({"steps": record.plan.max_steps}))
    plan = record.plan.model_copy(update={"processes": (process.model_copy(update={"argv": argv}),)})
    write_record(run.files, record.model_copy(update={"plan": plan}))
