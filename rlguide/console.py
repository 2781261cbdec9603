"""What the command line needs of its terminal: output that never fails over letters, and refusals without a traceback.

Knows no command.
"""

import os
import pwd
import re
import shutil
import signal
import socket
import sys
import textwrap
import tomllib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

import typer

from rlguide import __version__
from rlguide.config import PARAMETERS
from rlguide.errors import ConfigError, EngineMissing, RlguideError
from rlguide.files import way_out
from rlguide.redact import redacted
from rlguide.view.text import FIX, MARKS
from rlguide.view.written import as_toml

FAILED = 1
CANNOT = 2
COMMAND = re.compile(rf"{FIX}|[\w-]+ starts  ")
"""Begins a line with a command, which is copied: a line break of ours in it would start the half of it."""
COLOURS = {"✓": "green", "!": "yellow", "✗": "red", "–": None}
SIGNALLED = 128
"""By the shells' convention, with the number of the signal."""
NAMED = re.compile(
    r"(?<= of )(?!rlguide )\S+(?= \(pid)|(?<=reports to )\S+(?='s account)|(?<='s account, in )\S+(?=, on)"
    r"|(?<=belongs to )\S+|(?<=to a key of )[^,]+|(?<=token of )\S+(?=, from)"
)
"""Names in what checks say: of those on a GPU or a port, and of accounts at W&B and the Hub."""


def guarded(command: Callable[[], object]) -> None:
    """Run the command line to its end; what went wrong is printed in words, and the exit code says so."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name) or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
        stream.reconfigure(errors="replace")  # a terminal that lacks a letter must not end the command
        setattr(sys, name, stream)
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:  # whoever ignores one, as nohup does, goes on ignoring it
            signal.signal(number, _end_in_order)
    output = sys.stdout
    try:
        try:
            command()
        finally:
            sys.stdout.flush()  # here, where a full disk can still be told
            if sys.stdout is not output:  # click gave it up, for more was written than a pipe holds
                sys.exit(SIGNALLED + signal.SIGPIPE)
    except RlguideError as error:
        _fail(str(error), CANNOT if isinstance(error, EngineMissing | ConfigError) else FAILED)
    except BrokenPipeError:  # whoever reads has enough, as with `| head`
        _give_up_output()
        sys.exit(SIGNALLED + signal.SIGPIPE)
    except OSError as error:  # nothing below made words of it, and a reader is no better off with a traceback
        _give_up_output()
        _fail(f"{error}\nhint: {way_out(error)}", FAILED)


def tell_version(asked: bool) -> None:
    """For the option `--version`: prints it and ends the command."""
    if asked:
        print(f"rlguide {__version__}")
        raise typer.Exit


def _end_in_order(number: int, _frame: object) -> None:
    """Python would be gone at once, and what it has started would stay."""
    sys.exit(SIGNALLED + number)


def _fail(told: str, code: int) -> None:
    print(f"error: {told}", file=sys.stderr)
    sys.exit(code)


def _give_up_output() -> None:
    """Python writes what is left in its buffer when it ends, and would complain once more."""
    with suppress(OSError):  # a system without /dev/null: then it complains
        if sys.stdout:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def confirmed(question: str) -> None:
    """Go on only when the reader says yes; ends the command otherwise, also when nobody can be asked."""
    if sys.stdin is None:
        raise typer.BadParameter("nobody can be asked here: give --yes")
    typer.confirm(question, abort=True)


def fitted(plain: str, stream: TextIO) -> str:
    """`plain` for `stream`: on a terminal in lines of its width, and the outcomes of checks marked as in notebooks."""
    if not stream.isatty():
        return plain
    width, signs = shutil.get_terminal_size().columns, "".join(MARKS.values())
    marks = MARKS if signs.encode(stream.encoding, "ignore").decode(stream.encoding) == signs else {}
    return "\n".join(_fitted(line, width, marks) for line in plain.splitlines())


def _fitted(line: str, width: int, marks: Mapping[str, str]) -> str:
    mark = marks.get(line[:4]) if line[4:6] == "  " else None
    if COMMAND.match(line):
        return "  " * bool(marks and line.startswith(FIX)) + line
    line = f"{mark} {line}" if mark else line
    begins = len(re.match(r" *(\S+( \S+)*  +)?", line)[0])  # the words of a row, after its name
    indent = " " * (begins if begins <= width / 2 else 4)
    filled = textwrap.fill(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return typer.style(mark, fg=COLOURS[mark]) + filled[1:] if mark and "NO_COLOR" not in os.environ else filled


def pasteable(text: str) -> str:
    """`text` for the eyes of strangers: no secret, no password in an address, no account, no user and no machine by
    name.
    """
    text = NAMED.sub("[user]", re.sub(r"(?<=//)[^/\s@]+@", "", redacted(text)))
    home, names = os.path.expanduser("~"), [(socket.gethostname(), "[machine]")]  # noqa: PTH111  it may be nowhere
    with suppress(KeyError):  # a container whose user has no name
        names.append((pwd.getpwuid(os.getuid()).pw_name, "[user]"))
    names += [(os.environ.get(variable, ""), "[user]") for variable in ("USER", "LOGNAME", "SUDO_USER")]
    if home.count("/") > 1:
        text = re.sub(rf"{re.escape(home)}(?!\w)", "~", text)
    for name, instead in names:
        if len(name) > 2 and name != "root":  # shorter ones stand in other words
            text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", instead, text)
    return text


def changes_asked(settings: Sequence[str] | None, **options: Any) -> dict[str, Any]:
    """The changes that `--set KEY=VALUE` and the options ask for; an option that is `None` was not given.

    A value is read as TOML, and as plain text where it is none. Raises `typer.BadParameter` for what is not KEY=VALUE,
    and for a key that is given twice with different values.
    """
    named = [(name, value) for name, value in options.items() if value is not None]
    asked: dict[str, Any] = {}
    for name, value in [*map(_parsed, settings or ()), *named]:
        key = PARAMETERS.get(name, name)
        if key in asked and asked[key] != value:
            told = f"{key} is given twice, as {as_toml(asked[key])} and as {as_toml(value)}"
            raise typer.BadParameter(told, param_hint="--set")
        asked[key] = value
    return asked


def _parsed(setting: str) -> tuple[str, Any]:
    key, separator, value = setting.partition("=")
    if not separator:
        raise typer.BadParameter(f"{setting!r} is not KEY=VALUE", param_hint="--set")
    try:
        return key.strip(), tomllib.loads(f"value = {value}")["value"]
    except (ValueError, RecursionError):  # no TOML, or a number of thousands of digits
        return key.strip(), value
