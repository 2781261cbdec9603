"""Processes of a run that die, hang or hide, whichever it is."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
import toy
from evidence import Expected, Fault
from toy import (
    ENGINE,
    FOREVER,
    HIDDEN,
    WHOLE,
    after_steps,
    caretaker_of,
    child_of,
    eventually,
    launcher_plan,
    processes_below,
    supervisor_of,
    toy_plan,
    toy_process,
    trainer_of,
    workers_of,
)

from rlguide.process import is_alive, lives
from rlguide.records import Process, State
from rlguide.run import SILENCE_S, attach, launch

POLLS_S = 2.0
"""Two polls of the supervisor and two of a reader, on a busy machine."""


@pytest.mark.fault(
    "engine SIGKILL; it has a child in its own session, without the mark",
    Expected(State.FAILED, "trainer ended with signal 9 (Killed) after 2 of 3 steps"),
)
def test_an_engine_is_killed(fault: Fault, directory: Path):
    run = launch(toy_plan(directory, grace_s=1, child=HIDDEN, **FOREVER))
    after_steps(run, 2)
    child = child_of(run)

    trainer_of(run).kill()
    run.wait(30)

    status = fault.check(run)
    assert (status.failed_component, status.components[0].exit_code) == ("trainer", -signal.SIGKILL)
    assert not lives(child)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.fault(f"{name} of three SIGKILL", Expected(State.FAILED, told, also=also)))
        for name in ("inference", "orchestrator", "trainer")
        for told, also in [(f"{name} ended with signal 9 (Killed)", f"in time, with the end of the log of {name}")]
    ],
)
def test_a_component_is_killed(fault: Fault, directory: Path, name: str):
    others = tuple(toy_process(directory, one, start_s=600) for one in ("inference", "orchestrator"))
    run = launch(toy_plan(directory, others=others, **FOREVER))
    after_steps(run, 2)
    eventually(lambda: run.tail(name))
    pids = {one.name: one.identity.pid for one in run.record.components}

    os.kill(pids[name], signal.SIGKILL)
    killed = time.monotonic()
    status = run.wait(30)
    took_s = time.monotonic() - killed

    fault.note(f"said after {took_s:.1f} s, log of {status.failed_component}: {run.tail(status.failed_component)[-1:]}")
    fault.check(run)
    assert status.failed_component == name
    assert run.tail(name)
    assert took_s < POLLS_S


@pytest.mark.fault(
    "worker of a launcher SIGKILL; the launcher leaves the others", Expected(State.FAILED, "exit code 5")
)
def test_a_worker_is_killed(fault: Fault, directory: Path):
    run = launch(toy_plan(directory, workers=3, **FOREVER))
    after_steps(run, 2)
    workers = [psutil.Process(int(pid)) for pid in (directory / ENGINE / "workers").read_text().split()]

    workers[1].kill()
    run.wait(30)

    fault.check(run)
    assert not any(worker.is_running() for worker in workers)


@pytest.mark.fault(
    "component of a launcher SIGKILL; the launcher says so, and cleans up for minutes",
    Expected(State.FAILED, "inference ended with signal 9 (Killed) after 2 of 3 steps", also="named in time"),
)
def test_a_launcher_tells_of_a_dead_component(fault: Fault, directory: Path):
    run = launch(launcher_plan(directory, grace_s=1, clean_up_s=600))
    after_steps(run, 2)
    workers = workers_of(directory)

    workers[0].kill()
    killed = time.monotonic()
    eventually(lambda: run.record.failed_component)
    took_s = time.monotonic() - killed
    status = run.wait(30)

    fault.note(f"{status.failed_component} named after {took_s:.1f} s")
    fault.check(run)
    assert status.failed_component == "inference"
    assert took_s < POLLS_S
    assert not any(map(lives, workers))


@pytest.mark.fault("launcher of the components SIGKILL", Expected(State.FAILED, "launcher ended with signal 9"))
def test_a_launcher_of_components_is_killed(fault: Fault, directory: Path):
    run = launch(launcher_plan(directory, grace_s=1))
    after_steps(run, 2)
    workers = workers_of(directory)

    trainer_of(run).kill()
    run.wait(30)

    assert fault.check(run).failed_component == "launcher"
    assert not any(map(lives, workers))


RELAY = """
import os, time
if os.fork() == 0:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        os.setsid()
        time.sleep(0.02)
        if os.fork():
            os._exit(0)
time.sleep(600)
"""
"""Its child is somebody else every 20 ms, each in a session of its own."""


@pytest.mark.fault("child that another one replaces all the time; then stop", Expected(State.STOPPED, "on request"))
def test_a_child_is_replaced_all_the_time(fault: Fault, directory: Path):
    argv = (sys.executable, "-S", "-E", "-c", RELAY)
    relay = Process(name="relay", argv=argv, log=ENGINE / "logs" / "relay.log")
    run = launch(toy_plan(directory, grace_s=0.5, others=(relay,), **FOREVER))
    after_steps(run, 2)

    end = run.stop()

    fault.check(run)
    assert "could not be killed" not in end.reason


@pytest.mark.fault(
    "engine SIGKILL while it saves; then resume",
    Expected(State.SUCCEEDED, steps=3, saved="weights", also="the half checkpoint is gone"),
)
def test_an_engine_is_killed_while_it_saves(fault: Fault, directory: Path):
    run = launch(toy_plan(directory, checkpoint_markers=WHOLE, save_at=2, save_s=2.0))
    half = directory / ENGINE / "checkpoints" / "step_2" / "half"
    eventually(half.exists)

    trainer_of(run).kill()
    run.wait(30)
    found = run.checkpoint
    run.resume()
    gone = not half.exists()
    run.wait(30)

    fault.note(f"checkpoint then: {found}; the half one is {'gone' if gone else 'there'} at the resume")
    fault.check(run)
    assert found is None
    assert gone


@pytest.mark.fault(
    "supervisor SIGKILL", Expected(State.INTERRUPTED, "is gone without writing an end", saved="checkpoint")
)
def test_a_supervisor_is_killed(fault: Fault, directory: Path):
    run = launch(toy_plan(directory, **FOREVER))
    after_steps(run, 2)

    supervisor_of(run).kill()

    eventually(lambda: not processes_below(directory))
    fault.check(run)
    assert run.record.state is State.RUNNING  # looking wrote nothing


@pytest.mark.fault(
    "supervisor SIGKILL, engine ignores SIGTERM, child in its own session",
    Expected(State.INTERRUPTED, "gone without writing an end", also="ended without a stop"),
)
def test_a_supervisor_is_killed_and_its_engine_does_not_care(fault: Fault, directory: Path):
    run = launch(toy_plan(directory, grace_s=0.5, child="own session", ignore_sigterm=True, **FOREVER))
    after_steps(run, 2)

    supervisor_of(run).kill()

    fault.check(run)


@pytest.mark.fault(
    "supervisor and its caretaker SIGKILL, engine ignores SIGTERM, child in its own session; then stop",
    Expected(State.INTERRUPTED, "gone without writing an end", also="alive until the stop"),
)
def test_a_supervisor_and_its_caretaker_are_killed(fault: Fault, directory: Path):
    run = launch(toy_plan(directory, grace_s=0.5, child="own session", ignore_sigterm=True, **FOREVER))
    after_steps(run, 2)
    for process in (caretaker_of(run), supervisor_of(run)):
        process.kill()
    eventually(lambda: run.status.state is State.INTERRUPTED)
    alive = len(processes_below(directory))

    run.stop()

    fault.note(f"{alive} alive before the stop")
    fault.check(run)
    assert alive == 2


@pytest.mark.fault("caretaker of the supervisor SIGKILL", Expected(State.RUNNING))
def test_a_caretaker_is_killed(fault: Fault, directory: Path):
    run = launch(toy_plan(directory, steps=10_000, step_s=0.1))
    after_steps(run, 2)

    caretaker_of(run).kill()

    fault.check(run)


@pytest.mark.fault(
    "caretaker of the supervisor SIGTERM",
    Expected(State.STOPPED, "the supervisor got SIGTERM", saved="checkpoint of step 2"),
)
def test_a_caretaker_is_asked_to_end(fault: Fault, directory: Path):
    run = launch(toy_plan(directory, **FOREVER))
    after_steps(run, 2)

    caretaker_of(run).terminate()
    run.wait(30)

    fault.check(run)


@pytest.mark.fault(
    "supervisor and the launcher of the components SIGKILL at once",
    Expected(State.INTERRUPTED, "gone without writing an end", also="the components end without a stop"),
)
def test_a_supervisor_and_the_launcher_of_the_components_are_killed(fault: Fault, directory: Path):
    run = launch(launcher_plan(directory, grace_s=0.5, child="own session"))
    after_steps(run, 2)
    components = [*workers_of(directory), child_of(run)]

    for process in (supervisor_of(run), trainer_of(run)):
        process.kill()

    fault.check(run)
    assert not any(map(lives, components))


TITLED = """
import ctypes, os, subprocess, sys, time
if "SPT_NOENV" not in os.environ:
    start, end = map(int, open("/proc/self/stat").read().rpartition(")")[2].split()[47:49])
    ctypes.memset(start, 0, end - start)
if sys.argv[1:]:
    subprocess.Popen([sys.executable, "-S", "-c", sys.argv[1]], start_new_session=True)
time.sleep(600)
"""
"""Writes over its own environment as `setproctitle` does, to make room for a title, and so do its children."""


@pytest.mark.skipif(sys.platform != "linux", reason="writes over the memory that /proc shows: Linux")
@pytest.mark.fault(
    "supervisor, its caretaker and a launcher whose components take a title SIGKILL at once; then stop",
    Expected(State.INTERRUPTED, "gone without writing an end", also="found although the title takes the mark's place"),
)
def test_everybody_above_components_with_a_title_is_killed(fault: Fault, directory: Path):
    argv = (sys.executable, "-S", "-c", TITLED, TITLED)
    titled = Process(name="titled", argv=argv, log=ENGINE / "logs" / "titled.log")
    run = launch(toy_plan(directory, grace_s=0.5, others=(titled,), **FOREVER))
    after_steps(run, 2)
    launcher = psutil.Process(run.record.components[1].identity.pid)
    (component,) = eventually(launcher.children)
    eventually(lambda: component.cmdline()[-1:] == [TITLED])

    for process in (caretaker_of(run), supervisor_of(run), launcher):
        process.kill()
    eventually(lambda: run.status.state is State.INTERRUPTED)
    before = component.status()
    run.stop()

    fault.note(f"the component was {before}, and is {'alive' if lives(component) else 'gone'}")
    fault.check(run)
    assert not lives(component)


@pytest.mark.fault(
    "supervisor and engine SIGKILL, a child lost its parent and the mark",
    Expected(State.INTERRUPTED, "gone without writing an end", also="the child ends without a stop"),
)
def test_a_supervisor_is_killed_and_a_child_is_hidden(fault: Fault, directory: Path):
    if sys.platform != "linux":
        pytest.skip("only a subreaper finds such an orphan: Linux")
    run = launch(toy_plan(directory, grace_s=0.5, child=HIDDEN, **FOREVER))
    after_steps(run, 2)
    child = child_of(run)

    for process in (supervisor_of(run), trainer_of(run)):
        process.kill()
    eventually(lambda: not lives(child))

    fault.check(run)


@pytest.mark.fault(
    "supervisor, caretaker and engine SIGKILL at once, as when memory runs out; then resume",
    Expected(State.SUCCEEDED, steps=3, saved="weights"),
)
def test_everything_is_killed_at_once(fault: Fault, directory: Path):
    run = launch(toy_plan(directory, child="own session", step_s=0.3, grace_s=0.5))
    after_steps(run, 1)

    for process in (caretaker_of(run), supervisor_of(run), trainer_of(run)):
        process.kill()
    eventually(lambda: run.status.state is State.INTERRUPTED)
    run.resume().wait(30)

    fault.check(run)


ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGXCPU)


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(
            number,
            marks=pytest.mark.fault(
                f"supervisor {number.name}",
                Expected(State.STOPPED, f"the supervisor got {number.name}", saved="checkpoint of step 2"),
            ),
        )
        for number in ENDING
    ],
)
def test_a_supervisor_is_asked_to_end(fault: Fault, directory: Path, number: signal.Signals):
    run = launch(toy_plan(directory, **FOREVER))
    after_steps(run, 2)

    supervisor_of(run).send_signal(number)
    run.wait(30)

    fault.check(run)


@pytest.mark.parametrize(
    ("number", "says"),
    [
        pytest.param(
            number,
            says,
            marks=pytest.mark.fault(
                f"supervisor {number.name} as soon as it is there", Expected(state, says, steps=0, also="in order")
            ),
        )
        for number, state, says in (
            (signal.SIGUSR1, State.RUNNING, ""),
            (signal.SIGTERM, State.STOPPED, "the supervisor got SIGTERM"),
        )
    ],
)
def test_a_signal_comes_while_the_supervisor_loads(fault: Fault, directory: Path, number: signal.Signals, says: str):
    with ThreadPoolExecutor() as pool:
        launching = pool.submit(launch, toy_plan(directory, steps=10_000, step_s=0.1))
        supervisor = eventually(lambda: supervisor_that_loads(directory))
        supervisor.send_signal(number)
        run = launching.result()
    if says:
        run.wait(30)
    else:
        after_steps(run, 1)

    fault.check(run)


def supervisor_that_loads(directory: Path) -> psutil.Process | None:
    """The supervisor before it has signed in, once it has started the engine."""
    toys = [process for process in processes_below(directory) if str(toy.TOY) in process.cmdline()]
    return toys[0].parent() if toys and '"supervisor": null' in (directory / "run.json").read_text() else None


SUSPENDING = (signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU, signal.SIGCONT)
CRASHING = (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT, signal.SIGTRAP, signal.SIGSYS)


@pytest.mark.fault(
    "supervisor SIGUSR1, SIGUSR2, SIGALRM and others that mean nothing to it",
    Expected(State.RUNNING),
)
def test_a_supervisor_gets_signals_that_mean_nothing(fault: Fault, directory: Path):
    run = launch(toy_plan(directory, steps=10_000, step_s=0.1))
    after_steps(run, 1)
    others = signal.valid_signals() - {signal.SIGKILL, *ENDING, *SUSPENDING, *CRASHING}

    for number in others:
        supervisor_of(run).send_signal(number)

    fault.note(f"got {len(others)} signals")
    fault.check(run)
    assert {signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM} < others


@pytest.mark.parametrize(
    ("find", "silence_s"),
    [
        pytest.param(find, silence_s, marks=pytest.mark.fault(f"{name} SIGSTOP; then stop", expected))
        for expected in [Expected(State.STOPPED, "stopped on request", saved="checkpoint of step 2")]
        for name, find, silence_s in (("supervisor", supervisor_of, 1), ("engine", trainer_of, SILENCE_S))
    ],
)
def test_a_process_is_suspended(fault: Fault, directory: Path, find: Callable, silence_s: float):
    run = launch(toy_plan(directory, **FOREVER))
    after_steps(run, 2)
    find(run).suspend()

    run.stop(silence_s=silence_s)

    fault.check(run)


@pytest.mark.fault(
    "engine finished but does not exit",
    Expected(State.SUCCEEDED, "training complete, shutdown stalled", steps=3, saved="weights of step 3"),
)
def test_an_engine_is_finished_but_does_not_exit(fault: Fault, directory: Path):
    run = launch(toy_plan(directory, grace_s=0.5, linger_s=60, ignore_sigterm=True))

    run.wait(30)

    fault.check(run)


@pytest.mark.fault(
    "5 MB of output before ready", Expected(State.SUCCEEDED, steps=3, saved="weights", also="5 MB of log")
)
def test_much_is_printed_before_the_first_step(fault: Fault, directory: Path):
    run = launch(toy_plan(directory, flood_bytes=5_000_000))

    run.wait(30)

    log_bytes = (directory / ENGINE / "logs" / "trainer.log").stat().st_size
    fault.note(f"{log_bytes / 1e6:.1f} MB of log")
    fault.check(run)
    assert log_bytes > 4_900_000


@pytest.mark.fault("zombie: supervisor SIGKILL, nobody collects its exit", Expected(State.INTERRUPTED, "is gone"))
def test_a_supervisor_stays_a_zombie(fault: Fault, directory: Path):
    run = launch(toy_plan(directory, **FOREVER))
    after_steps(run, 2)
    supervisor, caretaker = supervisor_of(run), caretaker_of(run)
    caretaker.suspend()
    eventually(lambda: caretaker.status() == psutil.STATUS_STOPPED)

    supervisor.kill()
    eventually(lambda: supervisor.status() == psutil.STATUS_ZOMBIE)

    fault.note(f"supervisor {supervisor.status()}, {'alive' if is_alive(run.record.supervisor) else 'not alive'}")
    run.stop()
    fault.check(run)


@pytest.mark.fault("launcher SIGKILL", Expected(State.RUNNING))
def test_a_launcher_is_killed(fault: Fault, launcher: psutil.Process, directory: Path):
    run = attach(directory)
    after_steps(run, 2)

    launcher.kill()
    launcher.wait()

    fault.check(run)


LAUNCH_AND_SIT = """
import sys, time
sys.path.insert(0, sys.argv[1])
from rlguide.paths import outputs_root
from rlguide.run import launch
from toy import toy_plan
launch(toy_plan(outputs_root() / "toy", steps=10_000, step_s=0.1))
print("launched", flush=True)
time.sleep(600)
"""


@pytest.fixture
def launcher(directory: Path) -> Iterator[psutil.Process]:
    """A process that launched a run and then only sits there, as a kernel does."""
    argv = [sys.executable, "-c", LAUNCH_AND_SIT, str(Path(toy.__file__).parent)]
    process = psutil.Popen(argv, stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"launched\n"
    yield process
    if process.is_running():
        process.kill()
    process.wait()
