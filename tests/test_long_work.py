"""Progress of long work: a few lines for logs, one line a piece of work on a terminal."""

import os
import pty
import re
import subprocess
import sys
import time

import pytest
from test_text import record, steps

from rlguide.progress import lines
from rlguide.records import State
from rlguide.view.text import progress_text

MINUTE_S = 0.2
"""What a minute is in these tests."""


def test_a_log_gets_a_line_when_work_begins_and_one_with_its_time_when_it_is_done(capfd: pytest.CaptureFixture[str]):
    tell = lines(MINUTE_S)
    for work in ("00_one (1 of 2)", "01_two (2 of 2)"):
        for done in range(8):
            tell(f"{work}, detail {done}", done, 8)
        tell(f"{work}, well", 8, 8)
        tell(f"{work}, well", 8, 8)

    assert capfd.readouterr().err.splitlines() == [
        "00_one (1 of 2), detail 0: begun",
        "00_one (1 of 2), well: done, 0 s",
        "01_two (2 of 2), detail 0: begun",
        "01_two (2 of 2), well: done, 0 s",
    ]


def test_a_log_is_not_silent_for_more_than_a_minute(capfd: pytest.CaptureFixture[str]):
    tell, end = lines(MINUTE_S), time.monotonic() + 2.5 * MINUTE_S
    while time.monotonic() < end:
        tell("00_one, first: 2 of 20 steps, cells", 3, 8)
        time.sleep(MINUTE_S / 20)

    assert capfd.readouterr().err.splitlines() == ["00_one, first: 2 of 20 steps, cells: 3 of 8"] * 3


def test_a_terminal_keeps_one_line_a_piece_of_work():
    code = (
        "from rlguide.progress import shown\n"
        "with shown() as tell:\n"
        "    for work in ('00_one', '01_two'):\n"
        "        for done in range(9): tell(f'{work}, cell {done}' if done < 8 else work, done, 8)"
    )
    ours, theirs = pty.openpty()
    subprocess.run(
        [sys.executable, "-c", code], stderr=theirs, check=True, timeout=60, env=os.environ | {"COLUMNS": "80"}
    )
    os.close(theirs)
    written = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", os.read(ours, 100_000).decode())
    os.close(ours)

    *_, one, two = [line.strip() for line in written.splitlines() if line.strip()]
    assert re.fullmatch(r"00_one\W+8/8 0:00:00", one)
    assert re.fullmatch(r"01_two\W+8/8 0:00:00", two)


def test_a_run_that_goes_on_says_how_much_longer_and_one_that_is_over_does_not(tmp_path):
    last = steps()[-1]
    slow_first = [step.model_copy(update={"seconds": 60.0} if step.step == 0 else {}) for step in steps()]
    plan = record(tmp_path, State.RUNNING).plan.model_copy(update={"max_steps": last.completed_updates + 10})

    going, over = (
        progress_text(record(tmp_path, state, plan=plan), slow_first) for state in (State.RUNNING, State.STOPPED)
    )

    assert going == "8 of 18 steps, reward 0.700, about 15 s left"
    assert over == "8 of 18 steps, reward 0.700"
