"""Reads the frozen texts: training and held-out, which never share one."""

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Literal

from rlguide.environment.generator import TEXTS_FILE
from rlguide.errors import RlguideError

TEXTS_SHA256 = "8cb5c7d00675c4ef87ed2b75ca717d866f38db7d1b2c6a3d9e6ccfced3625757"
"""Of `data/texts.jsonl`, byte for byte: measurements on other texts cannot be compared with ours."""

Split = Literal["train", "heldout"]


@cache
def load_texts(split: Split, path: Path = TEXTS_FILE) -> tuple[str, ...]:
    """The texts of one split in their fixed order: 1,000 to train on, 256 held out, 16 to 56 characters each.

    Raises `RlguideError` when the file is missing or is not the one that was frozen.
    """
    content = read_frozen(path)
    rows = [json.loads(line) for line in content.decode("ascii").splitlines()]
    return tuple(row["text"] for row in rows if row["split"] == split)


def read_frozen(path: Path) -> bytes:
    """The bytes of the data file, checked against `TEXTS_SHA256`."""
    hint = "reinstall rlguide, or run: python -m rlguide.environment.generator"
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise RlguideError(f"the texts to reverse are missing: {path}", hint=hint) from None
    found = hashlib.sha256(content).hexdigest()
    if found != TEXTS_SHA256:
        raise RlguideError(
            f"the texts to reverse were changed: SHA-256 is {found[:12]}…, not {TEXTS_SHA256[:12]}…",
            look=path,
            hint=hint,
        )
    return content
