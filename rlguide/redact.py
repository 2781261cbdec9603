"""Takes secrets out of text that is about to be shown or kept. Knows secrets by the names of their variables."""

import html
import json
import os
import re
from base64 import b64encode
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
    for written, name in _secrets(environment):
        text = text.replace(written, f"[{name}]")
    return text


def _secrets(environment: Mapping[str, str]) -> list[tuple[str, str]]:
    """Every way in which a secret may be written, with its variable; the longest first, for one may begin another."""
    return sorted(_writings(environment), key=lambda secret: -len(secret[0]))


def _writings(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Secrets as they are, and as they stand in Python, in JSON, in HTML, in a URL and in base64."""
    for name, value in environment.items():
        for part in (value, *value.splitlines()) if looks_secret(name) else ():  # a log holds a long key line by line
            if len(part := part.strip()) >= SHORTEST_SECRET:
                text = (part, repr(part)[1:-1], json.dumps(part)[1:-1], html.escape(part), quote(part), quote(part, ""))
                yield from ((way, name) for way in {*text, *_base64(part)})


def _base64(secret: str) -> Iterator[str]:
    """What base64 makes of it wherever it stands in a longer text, as after the user's name in an HTTP header."""
    data = secret.encode(errors="surrogateescape")
    for before in range(3):
        text = b64encode(bytes(before) + data).decode().rstrip("=")
        own = text[-(-before * 4 // 3) : len(text) - bool((before + len(data)) % 3)]  # the ends hold bits of others
        yield from (own, own.translate({ord("+"): "-", ord("/"): "_"}))


def redact_file(path: Path) -> None:
    """Rewrite the text file `path` without secrets, if it holds any; a file that is not there stays so.

    It is rewritten in its place, so that a process that still appends to it goes on in the same file. Raises `OSError`.
    """
    if path.is_file():
        data = clean = path.read_bytes()
        for written, name in _secrets(os.environ):
            clean = clean.replace(os.fsencode(written), f"[{name}]".encode())
        if clean != data:
            with path.open("r+b") as file:
                file.write(clean)
                file.truncate()


def redact_files(*places: Path) -> None:
    """Rewrite text files without secrets: each of `places`, or all below it; what a link points to is left alone.

    What cannot be read or written stays as it is, and so does a file that is no text: it would no longer be valid.
    """
    for place in places if _secrets(os.environ) else ():
        below = (Path(where, name) for where, _, names in os.walk(place) for name in names)
        for path in (place, *below):
            with suppress(OSError):
                if path.is_file() and not path.is_symlink() and _is_text(path):
                    redact_file(path)


def _is_text(path: Path) -> bool:
    """True for a log whatever it holds, and for every file without a NUL at its beginning."""
    with path.open("rb") as file:
        return path.suffix == ".log" or b"\0" not in file.read(SNIFF_BYTES)
