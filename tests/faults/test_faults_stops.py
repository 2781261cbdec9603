"""Stops and time limits: twice, too early, while saving, and against processes that do not want to end."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
import toy
from evidence import Expected, Fault
from toy import ENGINE, FOREVER, after_steps, caretaker_of, eventually, supervisor_of, toy_plan, trainer_of

from rlguide.family import KILL_LIMIT_S
from rlguide.process import lives
from rlguide.records import State, StoppedBy
from rlguide.run import attach, launch

SAVED = "checkpoint of step 2"
ON_REQUEST = "stopped on request after 2 of 3 steps"


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=pytest.mark.fault(f"child at stop: {kind}", Expected(State.STOPPED, ON_REQUEST)))
        for kind in (
            "own session",
            "ignores SIGTERM",
            "own session, forgets the mark",
            "orphan",
            "orphan, forgets the mark",
        )
    ],
)
def test_a_child_hides_from_the_stop(fault: Fault, directory: Path, kind: str):
    if sys.platform != "linux" and kind == "orphan, forgets the mark":
        pytest.skip("only a subreaper finds such an orphan: Linux")
    run = launch(toy_plan(directory, grace_s=0.5, child=kind, **FOREVER))
    after_steps(run, 1)
    child = psutil.Process(int((directory / ENGINE / "child-ready").read_text()))

    run.stop()

    fault.check(run)
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE


@pytest.mark.fault("engine ignores SIGTERM at stop", Expected(State.STOPPED, ON_REQUEST))
def test_an_engine_ignores_the_stop(fault: Fault, directory: Path):
    run = launch(toy_plan(directory, grace_s=0.5, ignore_sigterm=True, **FOREVER))
    after_steps(run, 2)

    run.stop()

    fault.check(run)


STOP_IN_A_PROCESS = "from rlguide.run import attach; print(attach('toy').stop().state)"


@pytest.mark.fault(
    "stop three times, from two processes",
    Expected(State.STOPPED, ON_REQUEST, saved=SAVED, also="all three end alike, none before the engine saved"),
)
def test_stop_is_asked_again(fault: Fault, directory: Path):
    run = launch(toy_plan(directory, grace_s=10, save_s=1.5, **FOREVER))
    after_steps(run, 2)

    with ThreadPoolExecutor() as pool:
        other = subprocess.Popen([sys.executable, "-c", STOP_IN_A_PROCESS], stdout=subprocess.PIPE, text=True)
        ends = [end.state for end in pool.map(lambda _: attach(directory).stop(), range(2))]
        ends.append(State(other.communicate()[0].strip()))

    fault.note(f"the stops found {', '.join(ends)}")
    fault.check(run)
    assert set(ends) == {State.STOPPED}


@pytest.mark.fault(
    "stop interrupted by Ctrl-C while the engine saves; then stop again",
    Expected(State.STOPPED, ON_REQUEST, saved=SAVED),
)
def test_a_stop_is_interrupted(fault: Fault, directory: Path):
    run = launch(toy_plan(directory, grace_s=10, save_s=1.5, **FOREVER))
    after_steps(run, 2)
    stopping = subprocess.Popen([sys.executable, "-c", STOP_IN_A_PROCESS], stderr=subprocess.DEVNULL)
    eventually(lambda: run.record.stopped_by)

    stopping.send_signal(signal.SIGINT)
    stopping.wait()
    run.stop()

    fault.check(run)


@pytest.mark.fault(
    "stop from another process while the launcher waits",
    Expected(State.STOPPED, ON_REQUEST, saved=SAVED, also="the waiting launcher is told the same"),
)
def test_stop_comes_from_elsewhere_while_the_launcher_waits(fault: Fault, directory: Path, fresh_python):
    run = launch(toy_plan(directory, **FOREVER))
    after_steps(run, 2)

    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(run.wait, 30)
        fresh_python(STOP_IN_A_PROCESS)
        told = waiting.result()

    fault.note(f"the launcher was told: {told.state} by the {told.stopped_by}")
    assert fault.check(run) == told


@pytest.mark.fault("stop before the first step", Expected(State.STOPPED, "stopped on request after 0 of 3", steps=0))
def test_stop_comes_before_the_first_step(fault: Fault, directory: Path):
    run = launch(toy_plan(directory, start_s=60))

    run.stop()

    fault.check(run)


@pytest.mark.fault(
    "supervisor SIGKILL while it is stopping a stubborn engine",
    Expected(State.INTERRUPTED, "is gone without writing an end"),
)
def test_a_supervisor_is_killed_while_it_stops(fault: Fault, directory: Path):
    run = launch(toy_plan(directory, grace_s=1, ignore_sigterm=True, **FOREVER))
    after_steps(run, 2)

    with ThreadPoolExecutor() as pool:
        stopping = pool.submit(run.stop)
        eventually(lambda: run.record.stopped_by)
        supervisor_of(run).kill()
        found = stopping.result(30)

    fault.check(run, found=found)


LAUNCH = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from rlguide.paths import outputs_root
from rlguide.records import Process
from rlguide.run import launch
from toy import FOREVER, after_steps, toy_plan
argv = ("setpriv", "--reuid=65534", "--clear-groups", "sleep", "600")
others = (Process(name="other", argv=argv, log=Path("log")),)
run = launch(toy_plan(outputs_root() / "toy", grace_s=0.5, others=others, **FOREVER))
after_steps(run, 2)
"""
LAUNCH_AND_STOP = f"{LAUNCH}run.stop()\n"
RESUME = """
from rlguide.errors import RlguideError
from rlguide.run import attach
try:
    print(attach("toy").resume().record.attempt)
except RlguideError as error:
    print(error.message)
"""
UNKILLING = ["setpriv", "--bounding-set", "-kill", sys.executable, "-c"]
needs_setpriv = pytest.mark.skipif(
    sys.platform != "linux" or os.getuid() != 0, reason="gives up the right to kill: Linux, root"
)


@pytest.mark.fault("a log of 4 GiB that may hold keys, at stop", Expected(State.STOPPED, ON_REQUEST, saved=SAVED))
def test_there_is_much_to_look_through_for_keys(fault: Fault, directory: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HF_TOKEN", "hf_0123456789abcdef")
    run = launch(toy_plan(directory, **FOREVER))
    after_steps(run, 2)
    os.truncate(directory / ENGINE / "logs" / "trainer.log", 4 * 2**30)  # takes no place

    run.stop(silence_s=6)

    fault.check(run)


@needs_setpriv
@pytest.mark.fault(
    "a process that cannot be killed, at stop", Expected(State.STOPPED, "could not be killed", also="said in time")
)
def test_a_process_cannot_be_killed(fault: Fault, directory: Path):
    began = time.monotonic()

    subprocess.run([*UNKILLING, LAUNCH_AND_STOP, str(Path(toy.__file__).parent)], check=True)

    took_s = time.monotonic() - began
    run = attach(directory)
    immortal = psutil.Process(run.record.components[1].identity.pid)
    fault.note(f"within {took_s:.0f} s; it is {immortal.status()}")
    immortal.kill()
    eventually(lambda: not lives(immortal))
    assert f"probably stuck in a driver: pid {immortal.pid}" in fault.check(run).reason
    assert "Traceback" not in run.files.supervisor_log.read_text()
    assert took_s < KILL_LIMIT_S + 15


@needs_setpriv
@pytest.mark.fault(
    "a process that cannot be killed, at a resume after the supervisor was killed",
    Expected(State.INTERRUPTED, "gone without writing an end", also="no second attempt beside it"),
)
def test_a_process_cannot_be_killed_at_a_resume(fault: Fault, directory: Path):
    subprocess.run([*UNKILLING, LAUNCH, str(Path(toy.__file__).parent)], check=True)
    run = attach(directory)
    immortal = psutil.Process(run.record.components[1].identity.pid)
    for process in (caretaker_of(run), supervisor_of(run)):
        process.kill()
    eventually(lambda: run.status.state is State.INTERRUPTED)

    done = subprocess.run([*UNKILLING, RESUME], capture_output=True, text=True, check=True)

    fault.note(f"the resume said: {done.stdout.strip()}")
    immortal.kill()
    eventually(lambda: not lives(immortal))
    fault.check(run)
    assert f"could not be killed, probably stuck in a driver: pid {immortal.pid}" in done.stdout
    assert run.record.attempt == 1


@pytest.mark.fault(
    "SIGTERM to supervisor and engine at once, as when the machine is shut down",
    Expected(State.STOPPED, "the supervisor got SIGTERM after 2 of 3 steps", saved=SAVED),
)
def test_everything_is_asked_to_end_at_once(fault: Fault, directory: Path):
    run = launch(toy_plan(directory, **FOREVER))
    after_steps(run, 2)

    for process in (trainer_of(run), supervisor_of(run)):
        process.terminate()
    run.wait(30)

    fault.check(run)


UP = "time limit of 1 s reached"


@pytest.mark.parametrize(
    "slow",
    [
        pytest.param(
            slow, marks=pytest.mark.fault(f"time limit during {when}", Expected(State.STOPPED, UP, steps, saved))
        )
        for when, slow, steps, saved in (
            ("start", {"start_s": 60}, 0, "checkpoint of step 0"),
            ("a step", FOREVER, 2, SAVED),
            ("save", {"save_at": 2, "save_s": 2.0}, 2, SAVED),
        )
    ],
)
def test_the_time_is_up(fault: Fault, directory: Path, slow: dict):
    run = launch(toy_plan(directory, time_limit_s=1.0, **slow))

    run.wait(30)

    assert fault.check(run).stopped_by is StoppedBy.TIME_LIMIT


@pytest.mark.fault("time limit, and the engine ignores it", Expected(State.STOPPED, UP, also="in time"))
def test_the_time_is_up_and_the_engine_does_not_care(fault: Fault, directory: Path):
    run = launch(toy_plan(directory, time_limit_s=1, grace_s=0.5, ignore_sigterm=True, **FOREVER))

    end = run.wait(30)

    fault.note(f"over after {end.elapsed_s:.1f} s, exit code {end.components[0].exit_code}")
    fault.check(run)
    assert end.components[0].exit_code == -signal.SIGKILL
    assert end.elapsed_s < 5


@pytest.mark.fault("time limit while a stop is under way", Expected(State.STOPPED, ON_REQUEST, saved=SAVED))
def test_the_time_is_up_while_it_is_stopping(fault: Fault, directory: Path):
    run = launch(toy_plan(directory, time_limit_s=1.5, save_s=2.0, **FOREVER))
    after_steps(run, 2)

    run.stop()

    assert fault.check(run).elapsed_s > 1.5


@pytest.mark.fault(
    "SIGHUP and SIGTERM to the supervisor while it is stopping", Expected(State.STOPPED, ON_REQUEST, saved=SAVED)
)
def test_signals_come_while_it_is_stopping(fault: Fault, directory: Path):
    run = launch(toy_plan(directory, grace_s=10, save_s=1.0, **FOREVER))
    after_steps(run, 2)

    with ThreadPoolExecutor() as pool:
        stopping = pool.submit(run.stop)
        eventually(lambda: run.record.stopped_by)
        for number in (signal.SIGHUP, signal.SIGTERM):
            supervisor_of(run).send_signal(number)
        stopping.result(30)

    fault.check(run)
