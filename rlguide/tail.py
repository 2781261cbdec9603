"""Reads log files that are still being written, as whole, clean lines. Does not know what the lines mean."""

import os
import re
from pathlib import Path

from rlguide.files import open_file
from rlguide.redact import redacted

CHUNK_BYTES = 2**20
LINE_BYTES = 2**18
"""Longer lines are cut: nothing that we parse is longer, and a model may print anything."""
ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
"""Control sequences of ECMA-48: colours and cursor movements, window titles, single-character ones."""


class LineReader:
    """Gives the lines added to a file since the last look; a line counts once its newline is there.

    With `holding`, only lines that hold these bytes are given; passing over the others is fast and keeps nothing.
    Of a line that was overwritten with carriage returns (a progress bar) the last text counts. A file that does not
    exist has no lines; one that was truncated or replaced is read from its beginning.
    """

    def __init__(self, path: Path, *, holding: bytes = b""):
        self._path = path
        self._holding = holding
        self._start_over()

    def read(self) -> list[str]:
        """New complete lines since the last call."""
        try:
            with open_file(self._path) as handle:
                status = os.fstat(handle.fileno())
                if self._is_another(handle, (status.st_dev, status.st_ino), status.st_size):
                    self._start_over()
                    self._file = (status.st_dev, status.st_ino)
                handle.seek(self._offset)
                lines: list[str] = []
                while chunk := handle.read(CHUNK_BYTES):
                    lines += self._take(chunk)
                return lines
        except FileNotFoundError:
            return []

    def _start_over(self) -> None:
        self._file: tuple[int, int] | None = None
        self._offset = 0
        self._last = b""
        self._pending = b""

    def _is_another(self, handle, file: tuple[int, int], size: int) -> bool:
        """True for a new file under the old name. An inode is soon reused, so the bytes read last must be there too."""
        if file != self._file or size < self._offset:
            return True
        handle.seek(self._offset - len(self._last))
        return handle.read(len(self._last)) != self._last

    def _take(self, chunk: bytes) -> list[str]:
        self._offset += len(chunk)
        self._last = (self._last + chunk)[-64:]
        *lines, self._pending = (self._pending + chunk).split(b"\n")
        if len(self._pending) > LINE_BYTES:
            self._pending = _visible(self._pending)[:LINE_BYTES]
        return [_clean(line) for line in lines if self._holding in line]


def last_lines(path: Path, n: int) -> list[str]:
    """The last `n` lines of a file without secrets, an incomplete one included; reads at most its last mebibyte."""
    try:
        with open_file(path) as handle:
            start = max(0, handle.seek(0, os.SEEK_END) - CHUNK_BYTES)
            handle.seek(start)
            data = handle.read(CHUNK_BYTES)
    except FileNotFoundError:
        return []
    except OSError as error:
        return [f"({path.name} cannot be read: {error.strerror})"]
    lines = data.split(b"\n")[1 if start and b"\n" in data else 0 :]
    if lines[-1] == b"":
        lines.pop()
    return [redacted(_clean(line)) for line in lines[-n:]] if n > 0 else []


def _clean(line: bytes) -> str:
    text = _visible(line)[:LINE_BYTES].decode("utf-8", errors="replace")
    return ANSI.sub("", text).replace("\0", "").rstrip("\r\n")


def _visible(line: bytes) -> bytes:
    """What a terminal still shows of a line: the text after its last carriage return, save one at the very end."""
    return line[line.rfind(b"\r", 0, len(line.rstrip(b"\r"))) + 1 :]
