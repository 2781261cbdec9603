"""Terminals that are closed or in which Ctrl-C is pressed, as when a connection over ssh is lost."""

import fcntl
import os
import pty
import signal
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path

import pytest
import toy
from evidence import Expected, Fault
from toy import after_steps, eventually

from rlguide.records import State
from rlguide.run import attach

LAUNCH_AND_WAIT = """
import sys
sys.path.insert(0, sys.argv[1])
from rlguide.paths import outputs_root
from rlguide.run import launch
from toy import toy_plan
launch(toy_plan(outputs_root() / "toy", steps=10_000, step_s=0.1)).wait()
"""


def closed(terminal: int) -> None:
    os.close(terminal)


def interrupted(terminal: int) -> None:
    os.write(terminal, b"\x03")


@pytest.mark.parametrize(
    ("ends", "number"),
    [
        pytest.param(ends, number, marks=pytest.mark.fault(f"{name} where a launch waits", Expected(State.RUNNING)))
        for name, ends, number in (
            ("terminal closed", closed, signal.SIGHUP),
            ("Ctrl-C in the terminal", interrupted, signal.SIGINT),
        )
    ],
)
def test_a_terminal_ends(fault: Fault, directory: Path, ends: Callable[[int], None], number: signal.Signals):
    ours, theirs = pty.openpty()
    launcher = subprocess.Popen(
        [sys.executable, "-c", LAUNCH_AND_WAIT, str(Path(toy.__file__).parent)],
        **dict.fromkeys(("stdin", "stdout", "stderr"), theirs),
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(theirs)
    eventually((directory / "run.json").exists)
    run = attach(directory)
    after_steps(run, 2)

    ends(ours)
    code = launcher.wait(30)

    fault.note(f"the launcher ended with {code}")
    fault.check(run)
    assert code == -number
