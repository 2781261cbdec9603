"""Reads log files that are still being written, as whole, clean lines. Does not know what the lines mean."""

import os
from collections.abc import Callable
from contextlib import suppress
from glob import escape
from pathlib import Path
from typing import BinaryIO

from rlguide.files import open_file
from rlguide.redact import ANSI, redacted

CHUNK_BYTES = 2**20
LINE_BYTES = 2**18
"""Longer lines are cut: nothing that we parse is longer, and a model may print anything."""
SHOWN = 1000
"""Characters of a line that are shown to a reader: a dozen lines of a terminal."""
SHOWN_LINES = 15
"""Of a log, below the message about what went wrong."""
LEAD = 8
"""Lines before those that are shown, in which a secret may begin that goes on in them."""


class LineReader:
    """Gives the lines added to a file since the last look; a line counts once its newline is there.

    With `holding`, only lines that hold these bytes are given; passing over the others is fast and keeps nothing.
    Of a line that was overwritten with carriage returns (a progress bar) the last text counts. A file that does not
    exist has no lines; one that was truncated or replaced is read from its beginning, and `tell` is told. What was
    added before that is read from a copy beside it, where there is one: logrotate calls it `NAME.1` or `NAME-DATE`.
    """

    def __init__(self, path: Path, *, holding: bytes = b"", tell: Callable[[str], object] = lambda _: None):
        self._path = path
        self._holding = holding
        self._tell = tell
        self._offset, self._last, self._pending = 0, b"", b""

    def read(self) -> list[str]:
        """New complete lines since the last call."""
        try:
            with open_file(self._path) as handle:
                if self._is_known(handle):
                    return self._rest(handle)
                lines = self._start_over()
                handle.seek(0)
                return lines + self._rest(handle)
        except FileNotFoundError:
            return []

    def _start_over(self) -> list[str]:
        """Begin at the beginning. Returns the lines that were not read before, where a copy holds them."""
        told = f"{self._path.name} was cut or replaced after {self._offset:,} bytes, and is read from its beginning"
        lines, missing = [], "; what was added right before may be missing"
        for path in self._path.parent.glob(f"{escape(self._path.name)}?*"):
            with suppress(OSError), open_file(path) as copy:
                if self._is_known(copy):
                    lines, missing = lines + self._rest(copy), ""
        self._tell(told + missing)
        self._offset, self._last, self._pending = 0, b"", b""
        return lines

    def _is_known(self, handle: BinaryIO) -> bool:
        """True where the bytes that were read last are still in their place."""
        handle.seek(self._offset - len(self._last))
        return handle.read(len(self._last)) == self._last

    def _rest(self, handle: BinaryIO) -> list[str]:
        lines: list[str] = []
        while chunk := handle.read(CHUNK_BYTES):
            lines += self._take(chunk)
        return lines

    def _take(self, chunk: bytes) -> list[str]:
        self._offset += len(chunk)
        self._last = (self._last + chunk)[-64:]
        *lines, self._pending = (self._pending + chunk.replace(b"\0", b"")).split(b"\n")
        if len(self._pending) > LINE_BYTES:
            self._pending = _visible(self._pending)[:LINE_BYTES]
        return [_clean(_visible(line)[:LINE_BYTES]) for line in lines if self._holding in line]


def last_lines(path: Path, n: int) -> list[str]:
    """The last `n` lines of a file without secrets, an incomplete one included; reads at most its last mebibyte.

    Of a line with more than `SHOWN` characters the beginning is shown, and how much is left out.
    """
    try:
        with open_file(path) as handle:
            start = max(0, handle.seek(0, os.SEEK_END) - CHUNK_BYTES)
            handle.seek(start)
            data = handle.read(CHUNK_BYTES)
    except FileNotFoundError:
        return []
    except OSError as error:
        return [f"({path.name} cannot be read: {error.strerror})"]
    if n <= 0 or not data:
        return []
    lines = data.removesuffix(b"\n").split(b"\n")
    is_part = start > 0 and len(lines) == 1
    if start > 0 and not is_part:
        del lines[0]  # only its end was read
    clean = redacted(b"\n".join(lines[-n - LEAD :]).decode(errors="surrogateescape")).encode(errors="surrogateescape")
    return [_shown(line, is_part) for line in clean.split(b"\n")[-n:]]


def with_end(message: str, log: Path) -> str:
    """`message`, and below it the last lines of a log."""
    return "\n  ".join([message, *last_lines(log, SHOWN_LINES)])


def _shown(line: bytes, is_part: bool) -> str:
    text = _clean(_visible(line))
    if len(text) <= SHOWN:
        return text
    if is_part:
        return f"… {text[-SHOWN:]} (the end of a line of more than {CHUNK_BYTES:,} bytes)"
    return f"{text[:SHOWN]} … ({len(text) - SHOWN:,} more characters)"


def _clean(line: bytes) -> str:
    return ANSI.sub(b"", line).decode("utf-8", errors="replace").replace("\0", "").rstrip("\r\n")


def _visible(line: bytes) -> bytes:
    """What a terminal still shows of a line: the text after its last carriage return, save one at the very end."""
    return line[line.rfind(b"\r", 0, len(line.rstrip(b"\r"))) + 1 :]
