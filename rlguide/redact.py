"""Takes secrets out of text that is about to be shown or kept. Knows secrets by the names of their variables."""

import html
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

SECRET_NAME = re.compile(r"(?:^|_)(?:API_?KEY|ACCESS_?KEY|KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS)(?:$|_)", re.I)
SHORTEST_SECRET = 8
"""Shorter values, such as `1` or `true`, are no secrets, and would be found all over a text."""
SNIFF_BYTES = 2**13
"""Enough to tell text from other files, as Git does."""


def looks_secret(name: str) -> bool:
    """True for a name such as `WANDB_API_KEY` or `hf_token`."""
    return bool(SECRET_NAME.search(name))


def redacted(text: str, environment: Mapping[str, str] = os.environ) -> str:
    """`text` with every secret of the environment replaced by its variable's name."""
    for written, name in sorted(_secrets(environment), key=lambda secret: -len(secret[0])):  # one may begin another
        text = text.replace(written, f"[{name}]")
    return text


def _secrets(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Every way in which a secret may be written, with its variable: as it is, and in JSON, in HTML and in a URL."""
    for name, value in environment.items():
        for part in (value, *value.splitlines()) if looks_secret(name) else ():  # a log holds a long key line by line
            if len(part := part.strip()) >= SHORTEST_SECRET:
                yield from ((way, name) for way in (part, json.dumps(part)[1:-1], html.escape(part), quote(part, "")))


def redact_file(path: Path) -> None:
    """Rewrite the text file `path` without secrets, if it holds any; a file that is not there stays so.

    It is rewritten in its place, so that a process that still appends to it goes on in the same file. Raises `OSError`.
    """
    if path.is_file():
        text = path.read_bytes().decode(errors="surrogateescape")
        if (clean := redacted(text)) != text:
            with path.open("r+b") as file:
                file.write(clean.encode(errors="surrogateescape"))
                file.truncate()


def redact_folder(folder: Path) -> None:
    """Rewrite every text file in `folder` and below without secrets; what a link points to is left alone.

    What cannot be read or written stays as it is, and so does a file that is no text: it would no longer be valid.
    """
    for where, _, names in os.walk(folder):
        for path in (Path(where, name) for name in names):
            with suppress(OSError):
                if path.is_file() and not path.is_symlink() and _is_text(path):
                    redact_file(path)


def _is_text(path: Path) -> bool:
    """True for a log whatever it holds, and for every file without a NUL at its beginning."""
    with path.open("rb") as file:
        return path.suffix == ".log" or b"\0" not in file.read(SNIFF_BYTES)
