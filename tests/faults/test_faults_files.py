"""Files that are damaged, cut, replaced or cannot be written, whichever process they belong to."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from disks import full, needs_mount, read_only, small_disk
from evidence import Expected, Fault, refusal
from toy import ENGINE, FOREVER, after_steps, eventually, processes_below, supervisor_of, toy_plan, trainer_of

from rlguide.process import is_alive
from rlguide.records import Process, State
from rlguide.run import attach, launch, list_runs

__all__ = ["small_disk"]
GOING = {"steps": 10_000, "step_s": 0.1}
METRICS = ENGINE / "logs" / "metrics.jsonl"


# ------------------------------------------------------------------------------------------------------ the disk


@needs_mount
@pytest.mark.fault(
    "disk full while it runs, and free again after the end",
    Expected(State.FAILED, "trainer ended with exit code", steps=1, also="supervised all the time"),
)
def test_the_disk_is_full_for_a_while(fault: Fault, small_disk: Path):
    run = launch(toy_plan(small_disk / "toy", steps=1000, step_s=0.2))
    after_steps(run, 1)
    trainer = trainer_of(run)

    with full(small_disk):
        eventually(lambda: not trainer.is_running())
        supervised = is_alive(run.record.supervisor)
    run.wait(60)

    fault.note(f"supervisor {'alive' if supervised else 'gone'} while the disk was full")
    fault.check(run)
    assert supervised


@needs_mount
@pytest.mark.fault(
    "disk full while it runs, and full ever after",
    Expected(State.FAILED, "the disk of the run directory is full", steps=1),
)
def test_the_disk_stays_full(fault: Fault, small_disk: Path):
    run = launch(toy_plan(small_disk / "toy", steps=1000, step_s=0.2))
    after_steps(run, 1)

    with full(small_disk):
        run.wait(25)

        fault.check(run)
    assert not run.files.reserve.exists()


@needs_mount
@pytest.mark.parametrize(
    ("blocked", "way_out"),
    [
        pytest.param(blocked, way_out, marks=pytest.mark.fault(f"{name} at launch; not so for the next", expected))
        for expected in [Expected(State.SUCCEEDED, steps=3, saved="weights", also="refused with a hint")]
        for name, blocked, way_out in (
            ("disk full", full, "the disk is full"),
            ("read-only directory", read_only, "may not be written"),
        )
    ],
)
def test_nothing_can_be_written_at_launch(fault: Fault, small_disk: Path, blocked: Callable, way_out: str):
    plan = toy_plan(small_disk / "toy")

    with blocked(small_disk):
        error = refusal(lambda: launch(plan))
    run = launch(plan)
    run.wait(30)

    fault.note(f"refused: {error.hint}")
    fault.check(run)
    assert way_out in error.hint


@needs_mount
@pytest.mark.fault(
    "directory turns read-only while it runs; then stop",
    Expected(State.INTERRUPTED, "its processes were ended without it"),
)
def test_the_directory_turns_read_only(fault: Fault, small_disk: Path):
    run = launch(toy_plan(small_disk / "toy", grace_s=1, **FOREVER))
    after_steps(run, 2)

    with read_only(small_disk):
        found = run.stop(silence_s=1)

        fault.check(run, found=found)


@needs_mount
@pytest.mark.fault("read-only directory of a run that is over", Expected(State.SUCCEEDED, steps=3, saved="weights"))
def test_a_finished_run_lies_in_a_read_only_directory(fault: Fault, small_disk: Path):
    run = launch(toy_plan(small_disk / "toy"))
    run.wait(30)

    with read_only(small_disk):
        listed = list_runs(small_disk)

        fault.note(f"listed as {listed[0].state}")
        fault.check(run)


@pytest.mark.fault(
    "run directory moved away while it runs",
    Expected(State.INTERRUPTED, "moved here from", also="its processes end although nobody can ask for it"),
)
def test_the_directory_is_moved_away(fault: Fault, directory: Path):
    run = launch(toy_plan(directory, grace_s=1, **FOREVER))
    components = after_steps(run, 2).components

    directory.rename(directory.with_name("elsewhere"))

    eventually(lambda: not is_alive(components[0].identity))
    fault.check(attach(directory.with_name("elsewhere")))


@pytest.mark.fault(
    "run directory removed while it runs, and put back from a copy",
    Expected(State.INTERRUPTED, "gone without writing an end", also="its processes end although nobody can ask for it"),
)
def test_the_directory_is_removed(fault: Fault, directory: Path):
    run = launch(toy_plan(directory, grace_s=1, **FOREVER))
    record, supervisor = after_steps(run, 2), supervisor_of(run)
    supervisor.suspend()
    copy = shutil.copytree(directory, directory.with_name("copy"))

    shutil.rmtree(directory)
    supervisor.resume()

    eventually(lambda: not is_alive(record.supervisor) and not is_alive(record.components[0].identity))
    shutil.rmtree(directory, ignore_errors=True)  # the engine saved into a new one
    copy.rename(directory)
    fault.check(run)


@pytest.mark.fault(
    "run directory removed while it runs, and another run launched in its place at once",
    Expected(State.RUNNING, also="the processes of the first end, and write nothing there"),
)
def test_another_run_takes_the_place(fault: Fault, directory: Path):
    run = launch(toy_plan(directory, grace_s=1, **FOREVER))
    record, supervisor = after_steps(run, 2), supervisor_of(run)
    supervisor.suspend()  # it sees nothing in between

    shutil.rmtree(directory)
    other = launch(toy_plan(directory, **GOING))
    supervisor.resume()

    eventually(lambda: not is_alive(record.supervisor) and not is_alive(record.components[0].identity))
    fault.check(other)
    assert other.record.mark != record.mark


# --------------------------------------------------------------------------------------------------- run.json


@pytest.mark.fault("run.json truncated while it runs", Expected(State.RUNNING, also="repaired by the supervisor"))
def test_the_record_is_truncated(fault: Fault, directory: Path):
    run = launch(toy_plan(directory, **GOING))
    after_steps(run, 1)

    run.files.record.write_text(run.files.record.read_text()[:100])

    eventually(lambda: run.files.record.stat().st_size > 100)
    fault.check(run)


@pytest.mark.fault("run.json read all the time while it is written", Expected(State.RUNNING, also="never half"))
def test_the_record_is_read_all_the_time(fault: Fault, directory: Path):
    run = launch(toy_plan(directory, **GOING))
    seen, looks, deadline = set(), 0, time.monotonic() + 30

    while len(seen) < 20 and time.monotonic() < deadline:
        seen.add(run.record.elapsed_s)  # raises when it is not whole
        looks += 1

    fault.note(f"{looks} looks at {len(seen)} writings")
    fault.check(run)
    assert looks > len(seen) >= 20


@pytest.mark.fault("run.json removed while it runs", Expected(State.RUNNING, also="repaired by the supervisor"))
def test_the_record_is_removed(fault: Fault, directory: Path):
    run = launch(toy_plan(directory, **GOING))
    after_steps(run, 1)

    run.files.record.unlink()

    eventually(run.files.record.exists)
    fault.check(run)


@pytest.mark.fault(
    "run.json truncated after the end, then as before",
    Expected(State.SUCCEEDED, steps=3, saved="weights", also="said readably, other runs listed"),
)
def test_the_record_of_a_finished_run_is_truncated(fault: Fault, directory: Path):
    run = launch(toy_plan(directory))
    run.wait(30)
    whole = run.files.record.read_text()

    run.files.record.write_text(whole[:100])
    error = refusal(lambda: attach(directory))
    listed = list_runs()
    run.files.record.write_text(whole)

    fault.note(f"said: {error.message}; listed: {[summary.problem for summary in listed]}")
    fault.check(run)
    assert "run.json is damaged" in error.message
    assert len(listed) == 1


# ------------------------------------------------------------------------------------------------- an engine's logs


def truncated(path: Path) -> None:
    path.write_bytes(b"")


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def recreated(path: Path) -> None:
    path.unlink()
    path.write_bytes(b"")


def half_a_line(path: Path) -> None:
    with path.open("a") as metrics:
        metrics.write('{"step": 7777, "completed_upd\n')


def nul_bytes(path: Path) -> None:
    with path.open("ab") as metrics:
        metrics.write(bytes(4096) + b"\n")


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(damage, marks=pytest.mark.fault(f"file of metrics: {name}", Expected(State.RUNNING, steps=4)))
        for name, damage in (
            ("truncated", truncated),
            ("recreated", recreated),
            ("half a line", half_a_line),
            ("NUL bytes", nul_bytes),
        )
    ],
)
def test_the_metrics_are_damaged(fault: Fault, directory: Path, damage: Callable[[Path], None]):
    run = launch(toy_plan(directory, **GOING))
    after_steps(run, 2)
    before = {step.step for step in run.history.steps}

    damage(directory / METRICS)
    after_steps(run, len(before) + 2)

    fault.check(run)
    assert before <= {step.step for step in run.history.steps}


def rotated(path: Path) -> None:
    shutil.copyfile(path, path.with_name(f"{path.name}.1"))
    truncated(path)


def edited(path: Path) -> None:
    copy = path.with_name("copy")
    copy.write_bytes(b"# looked at\n" + path.read_bytes())
    copy.replace(path)


@pytest.mark.parametrize(
    ("damage", "is_lossless"),
    [
        pytest.param(damage, lossless, marks=pytest.mark.fault(f"file of metrics: {name} between two looks", expected))
        for name, damage, lossless, also in (
            ("copied and truncated (logrotate)", rotated, True, "none lost"),
            ("truncated", truncated, False, "the supervisor's log says so"),
            ("edited", edited, True, "none lost"),
        )
        for expected in [Expected(State.RUNNING, steps=4, also=f"no step twice, {also}")]
    ],
)
def test_the_metrics_are_rotated(fault: Fault, directory: Path, damage: Callable[[Path], None], is_lossless: bool):
    run = launch(toy_plan(directory, **GOING))
    after_steps(run, 2)
    metrics, supervisor, engine = directory / METRICS, supervisor_of(run), trainer_of(run)

    supervisor.suspend()
    known = metrics.read_text().count("\n")
    eventually(lambda: metrics.read_text().count("\n") > known + 2)
    engine.suspend()
    eventually(lambda: engine.status() == psutil.STATUS_STOPPED)
    known = metrics.read_text().count("\n")
    damage(metrics)
    engine.resume()
    supervisor.resume()
    eventually(lambda: run.history and run.history.last.step > known + 2)

    steps = [json.loads(line)["step"] for line in run.files.steps.read_text().splitlines()]
    told = [line for line in run.tail("supervisor", 50) if "metrics.jsonl was cut or replaced" in line]
    fault.note(f"{len(steps)} steps up to step {steps[-1]}; {told[-1:]}")
    fault.check(run)
    assert len(steps) == len(set(steps))
    assert (steps == list(range(len(steps)))) == is_lossless
    assert told


@pytest.mark.fault("file of metrics: cannot be read for a moment", Expected(State.RUNNING, steps=4))
def test_the_metrics_cannot_be_read_for_a_moment(fault: Fault, directory: Path):
    run = launch(toy_plan(directory, **GOING))
    after_steps(run, 2)
    metrics, aside = directory / METRICS, directory / "aside"

    trainer_of(run).suspend()
    metrics.rename(aside)
    metrics.mkdir()
    eventually(lambda: "cannot read" in "".join(run.tail("supervisor")))
    metrics.rmdir()
    aside.rename(metrics)
    trainer_of(run).resume()

    fault.check(run)


@pytest.mark.fault("log truncated and recreated while it is followed", Expected(State.RUNNING))
def test_a_log_is_truncated(fault: Fault, directory: Path):
    run = launch(toy_plan(directory, **GOING))
    after_steps(run, 2)
    log = directory / ENGINE / "logs" / "trainer.log"

    truncated(log)

    fault.note(f"its tail: {eventually(lambda: run.tail('trainer', 1))}")
    fault.check(run)


KEY = "hf_0123456789abcdef"
TELLER = """
import os
key = os.environ["HF_TOKEN"]
for how, between in (("two writes", ""), ("two lines", "\\r\\n "), ("in a frame", " │\\n│ "), ("in bold", "\\x1b[1m")):
    for piece in (f"│ {how} ", key[:5], between, key[5:], "\\x1b[0m │\\n"):
        os.write(1, piece.encode())
os.write(1, ("y" * (2**22 - 200) + key).encode())
"""


@pytest.mark.fault(
    "a program prints a key in pieces, and over the border of a block",
    Expected(State.FAILED, "teller ended", steps=0, also="not a piece of it is kept or shown"),
)
def test_a_key_is_printed_in_pieces(fault: Fault, directory: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HF_TOKEN", KEY)
    log = ENGINE / "logs" / "teller.log"
    teller = Process(name="teller", argv=(sys.executable, "-S", "-c", TELLER), log=log)

    run = launch(toy_plan(directory, grace_s=1, others=(teller,), start_s=60))
    run.wait(30)

    kept, shown = (directory / log).read_text(), "\n".join(run.tail("teller", 10))
    pieces = [KEY[at : at + 3] for at in range(len(KEY) - 2)]
    left = [piece for piece in pieces if piece in kept or piece in shown]
    fault.note(f"pieces that are left: {left or 'none'}")
    fault.check(run)
    assert "in a frame" in kept
    assert not left


@pytest.mark.fault(
    "200 MB in one line of a log; then watch", Expected(State.FAILED, "exit code 1", steps=1, also="a screen of it")
)
def test_a_line_of_a_log_is_endless(fault: Fault, directory: Path):
    run = launch(toy_plan(directory, exit_at=1, exit_code=1))
    run.wait(30)
    with (directory / ENGINE / "logs" / "trainer.log").open("ab") as log:
        log.writelines(b"y" * 2**20 for _ in range(200))

    argv = [sys.executable, "-c", "from rlguide.cli import main; main()", "watch", "toy"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=30)

    said = next(line for line in done.stderr.splitlines() if "yyy" in line)
    fault.note(f"{len(said)} characters: {said[:5]}…{said[-50:]}")
    fault.check(run)
    assert len(said) < 1200
    assert "more than" in said


@pytest.mark.parametrize(
    ("make", "remove"),
    [
        pytest.param(make, remove, marks=pytest.mark.fault(f"steps.jsonl replaced by {name} while it runs", expected))
        for expected in [Expected(State.STOPPED, "stopped on request", also="the end is written at once")]
        for name, make, remove in (("a folder", Path.mkdir, Path.rmdir), ("a pipe", os.mkfifo, Path.unlink))
    ],
)
def test_the_steps_cannot_be_written(fault: Fault, directory: Path, make: Callable, remove: Callable):
    run = launch(toy_plan(directory, **GOING))
    after_steps(run, 3)
    aside = directory / "aside"

    run.files.steps.rename(aside)
    make(run.files.steps)
    known = run.record.elapsed_s
    eventually(lambda: run.record.elapsed_s > known + 1)  # the supervisor lives on
    run.files.stop_request.touch()
    eventually(lambda: run.status.state.is_over)
    remove(run.files.steps)
    aside.rename(run.files.steps)

    eventually(lambda: not is_alive(run.record.supervisor))
    fault.check(run)


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(damage, marks=pytest.mark.fault(f"steps.jsonl {name} while it runs", Expected(State.RUNNING)))
        for name, damage in (("truncated", truncated), ("cut in the middle", cut), ("removed", Path.unlink))
    ],
)
def test_the_steps_are_damaged(fault: Fault, directory: Path, damage: Callable[[Path], None]):
    run = launch(toy_plan(directory, **GOING))
    after_steps(run, 3)
    trainer_of(run).suspend()
    before = run.history.steps

    damage(run.files.steps)
    trainer_of(run).resume()
    eventually(lambda: run.files.steps.exists() and len(run.history) > len(before))

    fault.check(run)
    assert run.history.steps[: len(before)] == before
    assert all(json.loads(line) for line in run.files.steps.read_text().splitlines())


RESUME = """
from rlguide.run import attach
run = attach("toy")
print(run.tail("trainer", 1), flush=True)
print(run.resume().wait(20).state)
"""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.fault(f"{what} is a pipe at a resume; then again without", expected))
        for expected in [Expected(State.SUCCEEDED, steps=3, saved="weights", also="said in time what it is")]
        for what, name in (
            ("log of the engine", "engine/logs/trainer.log"),
            ("supervisor.log", "supervisor.log"),
            ("steps.jsonl", "steps.jsonl"),
        )
    ],
)
def test_a_resume_finds_a_pipe(fault: Fault, directory: Path, name: str):
    run = launch(toy_plan(directory, step_s=0.5))
    after_steps(run, 1)
    trainer_of(run).kill()
    run.wait(30)
    aside, argv = directory / "aside", [sys.executable, "-c", RESUME]
    (directory / name).rename(aside)
    os.mkfifo(directory / name)

    done = subprocess.run(argv, capture_output=True, text=True, timeout=30)
    told = f"{done.stdout}{done.stderr}{run.status.reason}"
    (directory / name).unlink()
    aside.rename(directory / name)
    run.resume().wait(30)

    fault.note(f"said: {re.search('[^:]*this is a pipe, not a file', told)[0]}")
    fault.check(run)


@pytest.mark.fault(
    "reserve of a run, and then its rollouts, are pipes",
    Expected(State.SUCCEEDED, steps=3, saved="weights", also="said so"),
)
def test_other_files_are_pipes(fault: Fault, directory: Path):
    run = launch(toy_plan(directory, step_s=0.5))
    after_steps(run, 1)
    trainer_of(run).kill()
    run.wait(30)
    rollouts = directory / ENGINE / "rollouts" / "step_0" / "train_rollouts.jsonl"

    os.mkfifo(run.files.reserve)
    run.resume().wait(30)
    rollouts.unlink()
    os.mkfifo(rollouts)

    error = refusal(lambda: run.rollouts(0))
    fault.note(f"said: {error.message}")
    fault.check(run)
    assert "this is a pipe, not a file" in error.message


@pytest.mark.fault(
    "steps.jsonl with half a line, as a killed supervisor leaves it; then resume",
    Expected(State.SUCCEEDED, steps=3, saved="weights"),
)
def test_the_steps_end_in_half_a_line(fault: Fault, directory: Path):
    run = launch(toy_plan(directory, step_s=0.3))
    after_steps(run, 1)
    supervisor_of(run).kill()
    eventually(lambda: not processes_below(directory))
    with run.files.steps.open("a") as steps:
        steps.write('{"step": 1, "compl')

    run.resume().wait(30)

    fault.check(run)
    assert all(json.loads(line) for line in run.files.steps.read_text().splitlines())
