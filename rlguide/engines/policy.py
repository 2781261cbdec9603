"""Finds a warm start and looks at it before anything starts: a folder that is no whole model is refused in words.

Loads no model: a folder that passes may still be refused by the engine.
"""

import json
import os
from math import prod
from pathlib import Path
from typing import Any

from rlguide.config import TINY
from rlguide.errors import ConfigError
from rlguide.files import open_file, read_file
from rlguide.paths import TINY_POLICY, absolute

TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "spiece.model")
"""Any of them: what transformers' tokenizers are stored in."""
ODD_JSON = (ValueError, RecursionError, LookupError, TypeError, AttributeError)
"""What reading a file as JSON of a certain form raises when it holds something else."""


def find_policy(name: str) -> str:
    """Folder of a warm start, or its Hub name. Raises `ConfigError` for a folder that does not hold a whole model."""
    if name == TINY:
        return str(TINY_POLICY)
    folder = absolute(Path(name))
    if not os.path.lexists(folder) and not name.startswith((".", "/", "~")) and name.count("/") == 1:
        return name
    problem = problem_of(folder)
    if problem:
        hint = f"use {TINY!r}, a folder in Hugging Face format, or a Hub name such as owner/model"
        raise ConfigError(f"model.name = {name!r}: no model in that folder ({problem})", look=folder, hint=hint)
    return str(folder)


def problem_of(folder: Path) -> str | None:
    """What keeps `folder` from being a whole model in Hugging Face format."""
    try:
        kind = json.loads(read_file(folder / "config.json"))["model_type"]
    except (FileNotFoundError, NotADirectoryError):
        return "config.json is missing"
    except (OSError, *ODD_JSON):
        kind = None
    if not isinstance(kind, str):
        return "config.json cannot be read, or names no model_type"
    weights = [*folder.glob("*.safetensors"), *folder.glob("pytorch_model*.bin")]
    if not weights:
        return "there are no weights: neither *.safetensors nor pytorch_model*.bin"
    broken = [path.name for path in weights if not is_whole(path)]
    if broken:
        return f"{broken[0]} is not whole: copied or downloaded in part?"
    if absent := _absent_shard(folder / "model.safetensors.index.json"):
        return absent
    if not any((folder / tokenizer).is_file() for tokenizer in TOKENIZERS):
        return f"there is no tokenizer: none of {', '.join(TOKENIZERS)}"
    return None


def _absent_shard(index: Path) -> str | None:
    """What of the weights is not there, though the index, where there is one, says where it is."""
    try:
        named = {str(name) for name in json.loads(read_file(index))["weight_map"].values()}
    except FileNotFoundError:
        return None
    except (OSError, *ODD_JSON):
        return f"{index.name} cannot be read"
    return next((f"{name} is missing" for name in sorted(named) if not (index.parent / name).is_file()), None)


def is_whole(weights: Path) -> bool:
    """False for weights that were cut off, or are only a pointer to the file.

    A safetensors file is 8 bytes with the length of a header, the header, and the tensors, whose last byte the header
    names: https://huggingface.co/docs/safetensors/index#format.
    """
    try:
        size = weights.stat().st_size
        if weights.suffix != ".safetensors":
            return size > 0
        begin, tensors = _tensors(weights)
        return size == begin + max((tensor["data_offsets"][1] for tensor in tensors), default=0)
    except (OSError, *ODD_JSON):
        return False


def number_of_weights(folder: Path) -> int | None:
    """How many weights a model in safetensors files has, as their headers say; `None` where they do not."""
    try:
        shapes = [tensor["shape"] for path in folder.glob("*.safetensors") for tensor in _tensors(path)[1]]
        return int(sum(map(prod, shapes))) or None
    except (OSError, OverflowError, *ODD_JSON):
        return None


def _tensors(weights: Path) -> tuple[int, list[dict[str, Any]]]:
    """Where the data of a safetensors file begin, and what its header says of each tensor."""
    with open_file(weights) as handle:
        length = int.from_bytes(handle.read(8), "little")
        header = json.loads(handle.read(min(length, weights.stat().st_size)))
    return 8 + length, [tensor for name, tensor in header.items() if name != "__metadata__"]
