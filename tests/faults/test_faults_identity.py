"""Records that name the wrong process, hosts and boots; launches that are cut off or meet; clocks that jump."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
import toy
from disks import needs_mount
from evidence import Expected, Fault, refusal
from toy import FOREVER, after_steps, eventually, processes_below, supervisor_of, toy_plan

from rlguide.errors import RunNotFound
from rlguide.process import identity_of
from rlguide.records import ProcessIdentity, RunRecord, State
from rlguide.run import Run, attach, launch
from rlguide.store import write_record

GOING = {"steps": 10_000, "step_s": 0.1}
GONE = "is gone without writing an end"


# ---------------------------------------------------------------------------------------- whose process is that


@pytest.fixture
def stranger() -> Iterator[psutil.Process]:
    """A process that has nothing to do with any run."""
    process = psutil.Popen(["sleep", "600"])
    yield process
    process.kill()
    process.wait()


def killed(directory: Path) -> Run:
    """A run whose supervisor and engine were killed in the middle."""
    run = launch(toy_plan(directory, **FOREVER))
    after_steps(run, 2)
    supervisor_of(run).kill()
    eventually(lambda: not processes_below(directory))
    return run


def with_identities(run: Run, change: Callable[[ProcessIdentity], ProcessIdentity]) -> None:
    """Write other identities into the record, as a machine would that looks at it later, or from elsewhere."""
    record = run.record
    components = tuple(one.model_copy(update={"identity": change(one.identity)}) for one in record.components)
    changed = record.model_copy(update={"supervisor": change(record.supervisor), "components": components})
    write_record(run.files, changed)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param(changes, marks=pytest.mark.fault(f"run.json names {name}", Expected(State.INTERRUPTED, told)))
        for name, changes, told in (
            ("a stranger's pid", {"start_time": 1.0}, GONE),
            ("pid 1", {"pid": 1}, GONE),
            ("a pid of before the reboot", {"boot_id": "another boot"}, "was restarted"),
        )
    ],
)
def test_a_record_names_somebody_else(fault: Fault, directory: Path, stranger: psutil.Process, changes: dict):
    run = killed(directory)
    with_identities(run, lambda _: identity_of(stranger.pid).model_copy(update=changes))

    run.stop()

    fault.note(f"the stranger is {stranger.status()}")
    fault.check(run)
    assert stranger.is_running()
    assert stranger.status() == psutil.STATUS_SLEEPING


SHELL = """
import subprocess, sys
input()
stop = "import sys, rlguide; rlguide.attach(sys.argv[1]).stop()"
subprocess.run([sys.executable, "-c", stop, sys.argv[1]], check=True)
print("goes on")
"""
"""What the reader stops a run from; younger than the run."""


@pytest.mark.fault(
    "run.json names an older process, a younger one and the shell of the stop, with their true start times",
    Expected(State.INTERRUPTED, GONE, also="none is signalled"),
)
def test_a_record_names_the_shell_of_the_reader(fault: Fault, directory: Path, stranger: psutil.Process):
    eventually(lambda: time.time() - stranger.create_time() > 0.5)
    run = killed(directory)
    younger = subprocess.Popen(["sleep", "600"])
    argv = [sys.executable, "-c", SHELL, str(directory)]
    shell = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    named = [identity_of(process.pid) for process in (stranger, younger, shell)]
    component = run.record.components[0]
    components = tuple(component.model_copy(update={"identity": one}) for one in named)
    write_record(run.files, run.record.model_copy(update={"components": components}))
    written = json.loads(run.files.record.read_text()) | {"family": {one.pid: one.start_time for one in named}}
    run.files.record.write_text(json.dumps(written))  # as earlier versions named processes, too

    said, _ = shell.communicate("\n", timeout=60)

    signalled = younger.poll()
    younger.kill()
    younger.wait()
    fault.note(f"the older one is {stranger.status()}, the younger {signalled}, the shell {said.strip() or 'ended'}")
    fault.check(run)
    assert said == "goes on\n"
    assert signalled is None
    assert stranger.is_running()
    assert stranger.status() == psutil.STATUS_SLEEPING


NEXT_PID = Path("/proc/sys/kernel/ns_last_pid")


@pytest.mark.skipif(not os.access(NEXT_PID, os.W_OK) or os.getuid() != 0, reason="chooses the next pid: Linux, root")
@pytest.mark.fault("supervisor's pid reused by a stranger; then stop", Expected(State.INTERRUPTED, GONE))
def test_a_pid_is_reused(fault: Fault, directory: Path):
    run = killed(directory)
    pid = run.record.supervisor.pid
    eventually(lambda: not psutil.pid_exists(pid))

    reuser = eventually(lambda: process_with(pid))
    run.stop()

    fault.note(f"pid {pid} is {' '.join(reuser.cmdline())}, {reuser.status()}")
    fault.check(run)
    assert reuser.is_running()
    reuser.kill()
    reuser.wait()


def process_with(pid: int) -> psutil.Process | None:
    NEXT_PID.write_text(str(pid - 1))
    process = psutil.Popen(["sleep", "600"])
    if process.pid == pid:
        return process
    process.kill()
    process.wait()
    return None


# -------------------------------------------------------------------------------------------------- several hosts


ELSEWHERE = """
import socket, sys
sys.path.insert(0, sys.argv[1])
socket.sethostname("elsewhere")
from rlguide.paths import outputs_root
from rlguide.run import launch
from toy import toy_plan
launch(toy_plan(outputs_root() / "toy", grace_s=1, steps=10_000, step_s=0.1))
"""


def launched_elsewhere(directory: Path) -> Run:
    """A run of a host of another name that shares this disk."""
    argv = ["unshare", "--uts", sys.executable, "-c", ELSEWHERE, str(Path(toy.__file__).parent)]
    subprocess.run(argv, check=True)
    run = attach(directory)
    after_steps(run, 2)
    return run


@needs_mount
@pytest.mark.fault(
    "looked at and stopped from another host that shares the disk",
    Expected(State.RUNNING, also="no second attempt there"),
)
def test_a_run_lives_on_another_host(fault: Fault, directory: Path):
    run = launched_elsewhere(directory)

    error = refusal(run.resume)

    fault.note(f"on {run.record.supervisor.host}; resume here: {error.message}")
    fault.check(run)


@needs_mount
@pytest.mark.fault(
    "supervisor SIGKILL on another host; then resume here",
    Expected(State.STOPPED, "stopped on request", also="interrupted once it has been silent"),
)
def test_a_run_died_on_another_host(fault: Fault, directory: Path):
    run = launched_elsewhere(directory)
    supervisor_of(run).kill()
    eventually(lambda: not processes_below(directory))

    an_hour_ago = time.time() - 3600
    os.utime(run.files.record, (an_hour_ago, an_hour_ago))
    status = run.status
    run.resume().stop()

    fault.note(f"then {status.state}: {status.reason}")
    assert f"after {len(run.history)} of" in fault.check(run).reason
    assert status.state is State.INTERRUPTED


# ------------------------------------------------------------------------------------------------------- launches


LAUNCH = """
import sys
sys.path.insert(0, sys.argv[1])
from rlguide.paths import outputs_root
from rlguide.run import launch
from toy import toy_plan
print("ready", flush=True)
sys.stdin.readline()
print(launch(toy_plan(outputs_root() / "toy", steps=10_000, step_s=0.1)).notice, flush=True)
"""


@pytest.fixture
def launchers() -> Iterator[list[subprocess.Popen]]:
    """Two processes that launch the same plan when they are told to."""
    argv = [sys.executable, "-c", LAUNCH, str(Path(toy.__file__).parent)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    both = [subprocess.Popen(argv, **pipes) for _ in range(2)]
    for launcher in both:
        assert launcher.stdout.readline() == "ready\n"
    yield both
    for launcher in both:
        launcher.kill()
        launcher.communicate()


def go(launcher: subprocess.Popen) -> None:
    launcher.stdin.write("\n")
    launcher.stdin.flush()


@pytest.mark.fault(
    "two launches at once, from two processes", Expected(State.RUNNING, also="one starts, the other attaches")
)
def test_two_launches_meet(fault: Fault, directory: Path, launchers: list[subprocess.Popen]):
    for launcher in launchers:
        go(launcher)
    notices = sorted(launcher.stdout.readline().strip() for launcher in launchers)
    run = attach(directory)
    after_steps(run, 1)

    fault.note(f"told: {' / '.join(notices)}")
    fault.check(run)
    assert notices[0] == "None"
    assert notices[1].startswith("attached")


RESUME = """
import sys
from rlguide.errors import RlguideError
from rlguide.run import attach
run = attach("toy")
print("ready", flush=True)
sys.stdin.readline()
try:
    print(f"attempt {run.resume().record.attempt}", flush=True)
except RlguideError as error:
    print(error.message, flush=True)
"""


@pytest.mark.fault(
    "two resumes at once, from two processes", Expected(State.RUNNING, also="one goes on, the other is refused")
)
def test_two_resumes_meet(fault: Fault, directory: Path):
    run = launch(toy_plan(directory, **GOING))
    after_steps(run, 2)
    run.stop()
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    both = [subprocess.Popen([sys.executable, "-c", RESUME], **pipes) for _ in range(2)]
    for one in both:
        assert one.stdout.readline() == "ready\n"

    for one in both:
        go(one)
    told = sorted(one.communicate()[0].strip() for one in both)

    fault.note(f"told: {' / '.join(told)}")
    after_steps(run, 4)
    assert fault.check(run).attempt == 2
    assert told[0] == "attempt 2"
    assert "is starting" in told[1] or "is running" in told[1]


@pytest.mark.parametrize(
    "written",
    [
        pytest.param(written, marks=pytest.mark.fault(f"launch SIGKILL once {written} is there; then again", expected))
        for expected in [Expected(State.RUNNING, also="a true look in between")]
        for written in ("rl.toml", "run.json", "supervisor.log", ".reserve")
    ],
)  # fmt: skip
def test_a_launch_is_cut_off(fault: Fault, directory: Path, launchers: list[subprocess.Popen], written: str):
    first, second = launchers
    go(first)
    while not (directory / written).exists():
        pass

    first.kill()
    first.wait()
    between = look(directory)
    lives = bool(processes_below(directory))
    go(second)
    notice = second.stdout.readline().strip()
    if not notice and between is not None:  # refused: it was cut off, and may go on
        attach(directory).resume()

    fault.note(f"in between: {between.state if between else 'no run'}, {'alive' if lives else 'nothing alive'}")
    run = attach(directory)
    after_steps(run, 2)
    fault.check(run)
    assert lives == (between is not None and not between.state.is_over)


def look(directory: Path) -> RunRecord | None:
    try:
        return attach(directory).status
    except RunNotFound:
        return None


# ---------------------------------------------------------------------------------------------------------- clocks


@pytest.fixture
def jump(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """While this file exists, processes started in the test read a wall clock that is a day late or early."""
    library, there = tmp_path / "clock.so", tmp_path / "jumped"
    source = Path(__file__).with_name("clock.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    monkeypatch.setenv("LD_PRELOAD", str(library))
    monkeypatch.setenv("CLOCK_JUMP", str(there))
    return there


@pytest.mark.skipif(sys.platform != "linux" or shutil.which("cc") is None, reason="replaces a system call: Linux, cc")
@pytest.mark.parametrize(
    "seconds",
    [
        pytest.param(seconds, marks=pytest.mark.fault(f"wall clock jumps {seconds:+} s", Expected(State.RUNNING)))
        for seconds in (86_400, -86_400)
    ],
)
def test_the_wall_clock_jumps(fault: Fault, directory: Path, jump: Path, seconds: int):
    run = launch(toy_plan(directory, time_limit_s=60, **GOING))
    after_steps(run, 2)

    jump.write_text(str(seconds))
    time.sleep(0.5)

    status = fault.check(run)
    assert status.elapsed_s < 30
    assert all(step.elapsed_s < 30 for step in run.history.steps)
