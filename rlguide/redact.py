"""Takes secrets out of text that is about to be shown or kept. Knows secrets by the names of their variables.

A secret is also found in pieces: over several lines, in a frame, in colours. Not where other characters stand between
the pieces, such as the time at the beginning of a line, nor in any form but those of `_writings`.
"""

import html
import json
import os
import re
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from urllib.parse import quote

SECRET_NAME = re.compile(r"(?:^|_)(?:API_?KEY|ACCESS_?KEY|KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS)(?:$|_)", re.I)
PLACES = ("_PATH", "_FILE")
"""Endings of names of variables that say where a secret is, and hold none."""
SHORTEST_SECRET = 8
"""Shorter values, such as `1` or `true`, are no secrets, and would be found all over a text."""
SNIFF_BYTES = 2**13
"""Enough to tell text from other files, as Git does."""
BLOCK_BYTES, OVERLAP_BYTES = 2**22, 2**16
"""A file is read in blocks; a secret over the border of two is found when it takes no more than the overlap."""
ANSI = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
"""Control sequences of ECMA-48: colours and cursor movements, window titles, single-character ones."""
SPACES, FRAME = b" \t\r\n\v\f\0", "│".encode()
BETWEEN = b"(?:%b|[%b]++|%b)*+" % (ANSI.pattern, SPACES, FRAME)
"""What may stand between two letters of a secret that was printed in pieces."""
Secrets = list[tuple[str, str]]
Instead = Callable[[bytes, re.Match[bytes]], bytes]
"""Called with the variable's name in brackets and what was found."""


def looks_secret(name: str) -> bool:
    """True for a name such as `WANDB_API_KEY` or `hf_token`."""
    return bool(SECRET_NAME.search(name))


def redacted(text: str, environment: Mapping[str, str] = os.environ) -> str:
    """`text` with every secret of the environment replaced by its variable's name; every line end stays."""
    data = text.encode(errors="surrogatepass")
    return _replaced(data, _secrets(environment), _named, "surrogatepass").decode(errors="surrogatepass")


def _replaced(data: bytes, secrets: Secrets, instead: Instead, errors: str) -> bytes:
    """`data` with something else in place of every secret."""
    bare = ANSI.sub(b"", data.translate(None, SPACES)).replace(FRAME, b"")
    for letters, name in secrets:
        if letters.encode(errors=errors) in bare:
            pattern = BETWEEN.join(re.escape(letter.encode(errors=errors)) for letter in letters)
            data = re.sub(pattern, partial(instead, b"[%b]" % name.encode()), data)
    return data


def _named(name: bytes, found: re.Match[bytes]) -> bytes:
    return name + b"\n" * found[0].count(b"\n")


def _secrets(environment: Mapping[str, str]) -> Secrets:
    """Every way in which a secret may be written, with its variable; the longest first, for one may begin another."""
    return sorted(set(_writings(environment)), key=lambda secret: -len(secret[0]))


def _writings(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Secrets as they are, and as they stand in Python, in JSON, in HTML, in a URL and in base64, without spaces."""
    for name, value in environment.items():
        is_secret = looks_secret(name) and not name.upper().endswith(PLACES)
        for part in (value, *value.splitlines()) if is_secret else ():  # a log holds a long key line by line
            part = part.strip()
            text = (part, repr(part)[1:-1], json.dumps(part)[1:-1], html.escape(part), quote(part), quote(part, ""))
            for way in (*text, *_base64(part)):
                if len(letters := "".join(way.split())) >= SHORTEST_SECRET:
                    yield letters, name


def _base64(secret: str) -> Iterator[str]:
    """What base64 makes of it wherever it stands in a longer text, as after the user's name in an HTTP header."""
    data = secret.encode(errors="surrogateescape")
    for before in range(3):
        text = b64encode(bytes(before) + data).decode().rstrip("=")
        own = text[-(-before * 4 // 3) : len(text) - bool((before + len(data)) % 3)]  # the ends hold bits of others
        yield from (own, own.translate({ord("+"): "-", ord("/"): "_"}))


def redact_file(path: Path, meanwhile: Callable[[], object] = lambda: None) -> None:
    """Write over every secret in the text file `path`, if it holds any; a file that is not there stays so.

    No other byte changes or moves, so that nobody who appends to it meanwhile loses anything. `meanwhile` is called
    several times a second. Raises `OSError`.
    """
    secrets = _secrets(os.environ)
    if path.is_file():
        with path.open("rb", buffering=0) as file:
            for start in range(0, path.stat().st_size, BLOCK_BYTES):
                meanwhile()
                file.seek(start)
                block = file.read(BLOCK_BYTES + OVERLAP_BYTES)
                if (clean := _replaced(block, secrets, _covered, "surrogateescape")) != block:
                    with path.open("r+b") as writer:
                        writer.seek(start)
                        writer.write(clean)


def _covered(name: bytes, found: re.Match[bytes]) -> bytes:
    """As long as what was found, with the same line ends."""
    first, *lines = (b"*" * len(line) for line in found[0].split(b"\n"))
    return b"\n".join([name + first[len(name) :] if len(name) <= len(first) else first, *lines])


def redact_files(*places: Path, meanwhile: Callable[[], object] = lambda: None) -> None:
    """Write over the secrets in text files: each of `places`, or all below it; what a link points to is left alone.

    What cannot be read or written stays as it is, and so does a file that is no text: it would no longer be valid.
    """
    for place in places if _secrets(os.environ) else ():
        below = (Path(where, name) for where, _, names in os.walk(place) for name in names)
        for path in (place, *below):
            with suppress(OSError):
                if path.is_file() and not path.is_symlink() and _is_text(path):
                    redact_file(path, meanwhile)


def _is_text(path: Path) -> bool:
    """True for a log whatever it holds, and for every file without a NUL at its beginning."""
    with path.open("rb") as file:
        return path.suffix == ".log" or b"\0" not in file.read(SNIFF_BYTES)
