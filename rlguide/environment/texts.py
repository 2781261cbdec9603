"""Reads the frozen texts: training and held-out, which never share one."""

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Literal

from rlguide.environment.generator import FILES
from rlguide.errors import RlguideError

TEXTS_SHA256 = {
    "train": "5de5b9afcb04f4b12c4d26e2ee71bcca97c0b8407df019d38cea3091a65a66de",
    "heldout": "42d38ea05c3a86f386c1c6ebd6063b710d69de43478bf6e56b3c26365276d290",
}
"""Of each split's file, byte for byte: measurements on other texts cannot be compared with ours."""

Split = Literal["train", "heldout"]


@cache
def load_texts(split: Split, path: Path | None = None) -> tuple[str, ...]:
    """The texts of one split in their fixed order: 1,000 to train on, 256 held out, 16 to 56 characters each.

    Raises `RlguideError` when the file is missing or is not the one that was frozen.
    """
    content = _read_frozen(path or FILES[split], TEXTS_SHA256[split])
    return tuple(json.loads(line)["prompt"] for line in content.decode("ascii").splitlines())


def _read_frozen(path: Path, checksum: str) -> bytes:
    hint = "reinstall rlguide, or run: python -m rlguide.environment.generator"
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise RlguideError(f"the texts to reverse are missing: {path}", hint=hint) from None
    found = hashlib.sha256(content).hexdigest()
    if found != checksum:
        told = f"the texts to reverse were changed: SHA-256 is {found[:12]}…, not {checksum[:12]}…"
        raise RlguideError(told, look=path, hint=hint)
    return content
