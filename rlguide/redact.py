"""Takes secrets out of text that is about to be shown or kept. Knows secrets by the names of their variables."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

SECRET_NAME = re.compile(r"(?:^|_)(?:API_?KEY|ACCESS_?KEY|KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS)(?:$|_)", re.I)
SHORTEST_SECRET = 8
"""Shorter values, such as `1` or `true`, are no secrets, and would be found all over a text."""


def looks_secret(name: str) -> bool:
    """True for a name such as `WANDB_API_KEY` or `hf_token`."""
    return bool(SECRET_NAME.search(name))


def redacted(text: str, environment: Mapping[str, str] = os.environ) -> str:
    """`text` with every secret of the environment replaced by its variable's name."""
    for name, value in environment.items():
        if looks_secret(name) and len(value.strip()) >= SHORTEST_SECRET:
            text = text.replace(value.strip(), f"[{name}]")
    return text


def redact_file(path: Path) -> None:
    """Rewrite the text file `path` without secrets, if it holds any; a file that is not there stays so."""
    if path.is_file():
        text = path.read_text(encoding="utf-8", errors="surrogateescape")
        if (clean := redacted(text)) != text:
            path.write_text(clean, encoding="utf-8", errors="surrogateescape")
