"""On a terminal, what the doctor and a plan say stands in its width, with marks; elsewhere it stays as it is."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios

import pytest

PROGRAM = [sys.executable, "-m", "rlguide"]
DOCTOR = ("doctor", "--all", "--only", "python", "--only", "outputs")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def on_a_terminal(*arguments: str, columns: int, **variables: str) -> str:
    """What a command prints on a terminal of that width."""
    terminal, end = pty.openpty()
    fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    alone = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "NO_COLOR"}}
    subprocess.run([*PROGRAM, *arguments], stdout=end, stderr=end, timeout=60, check=True, env=alone | variables)
    os.close(end)
    printed = os.read(terminal, 100_000).decode(errors="replace")
    os.close(terminal)
    return printed.replace("\r\n", "\n")


def is_copied(line: str) -> bool:
    """True for a line that must not be broken: it is one word, such as a path, or a command."""
    return len(line.split()) == 1 or line.startswith(("trainer starts ", "        fix: "))


@pytest.mark.parametrize("arguments", [DOCTOR, ("train", "--dry-run")], ids=["doctor", "plan"])
def test_lines_stand_in_the_width_of_the_terminal_and_no_word_is_lost(arguments: tuple[str, ...]):
    wide, narrow = (COLOUR.sub("", on_a_terminal(*arguments, columns=columns)) for columns in (2000, 50))

    assert narrow.split() == wide.split()
    assert max(map(len, wide.splitlines())) > 50
    assert not [line for line in narrow.splitlines() if len(line) > 50 and not is_copied(line)]


def test_a_command_that_is_copied_is_one_line():
    printed = on_a_terminal("train", "--dry-run", columns=50)

    (command,) = [line for line in printed.splitlines() if line.startswith("trainer starts ")]
    assert command.endswith("/engine")


def test_the_outcome_of_a_check_has_its_mark_in_colour_unless_that_is_unwanted():
    coloured, plain = on_a_terminal(*DOCTOR, columns=200), on_a_terminal(*DOCTOR, columns=200, NO_COLOR="1")

    assert "\x1b[32m✓\x1b[0m pass  Python: " in coloured
    assert COLOUR.sub("", coloured) == plain
    assert not COLOUR.search(plain)


def test_a_terminal_that_lacks_the_marks_gets_the_words_alone():
    assert "\npass  Python: " in on_a_terminal(*DOCTOR, columns=200, PYTHONIOENCODING="ascii")


def test_what_is_read_by_a_program_or_pasted_stays_as_it_is():
    piped = subprocess.run([*PROGRAM, *DOCTOR], capture_output=True, text=True, timeout=60, check=True).stdout

    assert "\npass  Python: " in piped
    assert "\npass  Python: " in on_a_terminal(*DOCTOR, "--report", columns=50)
