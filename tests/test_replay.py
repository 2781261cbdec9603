import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from toy import after_steps, eventually

from rlguide import engines
from rlguide.config import from_preset, load_config
from rlguide.display import stage_of
from rlguide.engines.replay import RECORDING
from rlguide.errors import EvaluationError
from rlguide.paths import PACKAGE
from rlguide.records import Machine, Plan, State, StoppedBy
from rlguide.run import Run, launch, list_runs

BARE = Machine(cores=1, memory_gib=1.0)
PROGRAM = PACKAGE / "programs" / "replay.py"
MANIFEST = json.loads((RECORDING / "manifest.json").read_text(encoding="utf-8"))

pytestmark = pytest.mark.usefixtures("nothing_left")


def replay_plan(directory: Path, *, speed: float = 200, **changes: object) -> Plan:
    config = load_config("tiny", {"engine": "replay", "replay.speed": speed} | changes)
    return engines.plan(config, directory, machine=BARE)


@pytest.fixture
def played(tmp_path: Path) -> Run:
    run = launch(replay_plan(tmp_path / "run"))
    assert run.wait(60).state is State.SUCCEEDED
    return run


def test_a_replay_has_every_step_of_the_recorded_run(played: Run):
    steps = played.history.steps

    assert [step.step for step in steps] == list(range(20))
    assert (steps[0].reward, steps[-1].reward) == (0.1293, 0.9263)
    assert (steps[-1].loss, steps[-1].mismatch_kl, steps[-1].seconds) == (-0.0001, 0.2295, 2.68)
    assert all(step.right_form is None and step.completion_tokens is None for step in steps)
    assert steps[-1].completed_updates == played.record.plan.max_steps == 20


def test_a_replay_leaves_the_recorded_files_and_no_weights(played: Run):
    for name in MANIFEST["files"]:
        assert (played.files.engine / name).read_bytes() == (RECORDING / name).read_bytes(), name
    assert played.weights is None
    assert played.checkpoint is None
    assert "RL trainer finished!" in played.tail("trainer", 1)[0]
    assert (len(played.rollouts(0)), len(played.rollouts(19))) == (128, 8)
    assert stage_of(played) == "done: the trainer has finished"


def test_a_recording_is_not_evaluated(played: Run):
    from rlguide.evaluation import evaluate, evaluate_one
    from rlguide.tryout import try_text

    for attempt in (evaluate, lambda run: evaluate_one(run, "warm start"), lambda run: try_text(run, "abc")):
        with pytest.raises(EvaluationError, match="is a recording: it has no weights"):
            attempt(played)


def test_time_passes_as_recorded_times_the_speed(tmp_path: Path):
    started = time.monotonic()
    run = launch(replay_plan(tmp_path / "run", speed=60))

    record = run.wait(60)

    assert 191 / 60 <= time.monotonic() - started < 191 / 60 + 15
    assert record.plan.estimate_s == pytest.approx(191 / 60)
    half = next(step.elapsed_s for step in run.history.steps if step.step == 5)
    assert 130 / 60 < half < 191 / 60  # recorded 140 s after the launch


def test_a_replay_that_is_stopped_plays_from_the_beginning_when_it_is_resumed(tmp_path: Path):
    run = launch(replay_plan(tmp_path / "run", speed=30))
    after_steps(run, 2)

    stopped = run.stop()
    again = run.resume()

    assert (stopped.state, stopped.stopped_by) == (State.STOPPED, StoppedBy.USER)
    assert eventually(lambda: again.history.steps and again.history.first.attempt == 2, within_s=30)
    assert again.wait(60).state is State.SUCCEEDED
    assert again.history.rewards[-1] == 0.9263
    log = Path("logs", "trainer.log")
    assert (run.files.engine / log).read_bytes() == (RECORDING / log).read_bytes()


def test_the_configuration_decides_nothing_but_speed_and_time_limit(tmp_path: Path):
    plain = replay_plan(tmp_path / "run")
    other = replay_plan(tmp_path / "run", preset="guide", max_steps=3, seed=7, time_limit_s=33)

    assert other.fingerprint == plain.fingerprint
    assert (other.max_steps, other.batch_size, other.time_limit_s) == (20, 128, 33)
    assert replay_plan(tmp_path / "run", speed=10).fingerprint != plain.fingerprint


def test_the_engine_is_never_chosen_unasked():
    assert engines.AUTO != "replay"
    assert engines.ENGINES["replay"].missing(from_preset("tiny")) is None


def test_it_is_called_a_recording_wherever_it_is_shown(played: Run):
    from rlguide.view import text
    from rlguide.view.html import plan_html, run_html
    from rlguide.view.page import verdict

    record, steps = played.status, played.history.steps

    assert "a recording of prime-rl 0.5.1.dev169 (024abb204) on two NVIDIA H200 GPUs" in text.plan_text(record.plan)
    assert "a recording of" in plan_html(record.plan)
    assert "a recording" in text.run_text(record, steps)
    assert "a recording" in run_html(record, steps)
    root = played.directory.parent
    assert "a recording" in text.runs_text(list_runs(root), root=root, hint="")
    assert "a recording" in verdict(record, None)


def test_a_recording_that_was_changed_is_refused(tmp_path: Path):
    damaged = tmp_path / "damaged"
    shutil.copytree(RECORDING, damaged)
    (damaged / "logs" / "trainer.log").write_bytes(b"08:05:00 SUCCESS Step 0 | Loss: 0\n")
    argv = [sys.executable, "-S", "-E", str(PROGRAM), str(damaged), str(tmp_path / "out")]  # no packages at all

    done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)

    assert done.returncode == 1
    assert "the recording is damaged" in done.stderr
    assert not (tmp_path / "out").exists()


def test_the_recording_names_all_its_files():
    there = {str(path.relative_to(RECORDING)) for path in RECORDING.rglob("*") if path.is_file()}

    assert set(MANIFEST["files"]) == there - {"manifest.json"}
    assert sum((RECORDING / name).stat().st_size for name in there) < 300_000
