"""Runs of the engine `prime-rl` from launch to end, with stand-ins for its programs: what a run becomes, and what of it
stays alive.
"""

import os
import random
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from prime_rl_stand_in import FAST, calls, make_checkout, tell
from test_prime_rl_engine import planned
from toy import eventually, processes_below

from rlguide.errors import EngineMissing
from rlguide.records import RunRecord, State
from rlguide.run import Run, launch

LONG = {"max_steps": 2000}
LIMIT_S = 60.0


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    return make_checkout(tmp_path / "prime-rl", behaviour=FAST)


@pytest.fixture
def start(checkout: Path, outputs: Path) -> Callable[..., Run]:
    """Launches a run; the stand-ins behave as they were told last."""

    def launched(name: str = "one", **changes: Any) -> Run:
        port = random.randrange(12_000, 32_000)  # below those that the system deals out: tests run side by side
        return launch(planned(checkout, outputs / name, **{"inference__port": port} | changes))

    return launched


def after_step(run: Run, step: int = 2) -> Run:
    eventually(lambda: run.status.state.is_over or run.history.completed_updates >= step, within_s=LIMIT_S)
    assert not run.status.state.is_over, run.status.reason
    return run


def pid_of(checkout: Path, program: str) -> int:
    return calls(checkout, program)[-1]["pid"]


def over(run: Run, checkout: Path) -> RunRecord:
    """The end of a run, of which nothing is left: by its own mark, and by the folder in which its programs are."""
    record = run.wait(LIMIT_S)
    assert not processes_below(checkout)
    assert not processes_below(run.directory)
    return record


def test_a_run_succeeds_with_the_steps_of_both_components_and_complete_weights(start, checkout: Path):
    run = start(max_steps=5)

    record = over(run, checkout)

    assert (record.state, record.reason) == (State.SUCCEEDED, None)
    assert run.weights == run.directory / "engine/weights/step_5"
    assert [step.step for step in run.history.steps] == [0, 1, 2, 3, 4]
    assert all(None not in (step.reward, step.loss, step.mismatch_kl) for step in run.history.steps)
    assert len(run.rollouts(0)) == record.plan.batch_size


@pytest.mark.parametrize(
    ("victim", "component", "told"),
    [
        ("trainer", "trainer", "trainer ended with exit code 1"),
        ("orchestrator", "orchestrator", "orchestrator ended with signal 9"),
        ("inference", "inference", "inference ended with signal 9"),
        ("rl", "launcher", "launcher ended with signal 9"),
    ],
)
def test_a_component_that_is_killed_is_named_and_the_others_are_ended(
    start, checkout: Path, victim: str, component: str, told: str
):
    run = after_step(start(**LONG))

    os.kill(pid_of(checkout, victim), signal.SIGKILL)
    record = over(run, checkout)

    assert (record.state, record.failed_component) == (State.FAILED, component)
    assert record.reason.startswith(told)
    assert run.tail(component)


def test_a_server_whose_engine_is_killed_is_named_though_it_lives_on_and_others_fail_first(start, checkout: Path):
    tell(checkout, **FAST | {"step_s": 1.0, "engine_watch_s": 20})  # as in reality: others notice at the next update
    run = after_step(start(**LONG))
    (engine,) = psutil.Process(pid_of(checkout, "inference")).children()

    engine.kill()
    record = over(run, checkout)

    assert (record.state, record.failed_component) == (State.FAILED, "inference")
    assert record.reason.startswith("inference lost a process of its own after")


def test_a_server_that_dies_at_its_start_is_named_long_before_the_launcher_has_cleaned_up(start, checkout: Path):
    tell(checkout, **FAST | {"die": {"inference": {"at": "start", "exit": 1}}, "slow_end_s": {"orchestrator": 30}})

    record = over(start(**LONG), checkout)

    assert (record.state, record.failed_component) == (State.FAILED, "inference")
    assert record.elapsed_s < 25


def test_a_stop_leaves_no_process_also_of_those_in_a_session_of_their_own(start, checkout: Path):
    run = after_step(start(**LONG))

    record = run.stop()

    assert record.state is State.STOPPED
    assert over(run, checkout) == record


def test_the_time_limit_leaves_no_process_though_a_child_does_not_hear(start, checkout: Path):
    tell(checkout, **FAST | {"ignore_sigterm": ["trainer"], "kill_after_s": 1.0})

    record = over(start(time_limit_s=4.0, **LONG), checkout)

    assert (record.state, record.stopped_by.value) == (State.STOPPED, "time cap")


def test_a_resume_goes_on_from_the_last_complete_checkpoint_by_its_number(start, checkout: Path):
    run = after_step(start(max_steps=40, ckpt__interval=3), 7)
    run.stop()
    (run.directory / "engine/checkpoints/step_39/trainer").mkdir(parents=True)  # as one that was being written

    resumed = run.resume()
    record = over(resumed, checkout)

    assert record.state is State.SUCCEEDED
    started = calls(checkout, "rl")[-1]["argv"]
    number = int(started[started.index("--ckpt.resume-step") + 1])
    assert number >= 6
    assert number % 3 == 0
    assert [step.step for step in run.history.steps] == list(range(40))


def test_what_a_sync_has_removed_is_told_before_anything_starts(start, checkout: Path, outputs: Path):
    next((checkout / ".venv").glob("lib/python*/site-packages/reverse_text.py")).unlink()

    with pytest.raises(EngineMissing, match=r"(?s)reverse_text.*rlguide install"):
        start()

    assert not (outputs / "one" / "run.json").exists()
    assert not calls(checkout, "rl")
