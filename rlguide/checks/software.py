"""Checks of the software: Python, and the policy that ships with rlguide."""

import json
import struct
import sys
from pathlib import Path

from rlguide.asking import Finding
from rlguide.records import Status

CHECKPOINT_FILES = ("config.json", "generation_config.json", "model.safetensors", "tokenizer.json")


def look_at_python() -> Finding:
    good = (3, 11) <= sys.version_info[:2] <= (3, 13)
    seen = f"{sys.version.split()[0]} at {sys.executable}"
    return Finding(Status.PASS if good else Status.WARN, seen, "make the virtual environment with Python 3.11 to 3.13")


def look_at_checkpoint(folder: Path) -> Finding:
    """The files of a policy are there and its weights are as long as their header says."""
    fix = "install rlguide again, or make the policy anew with `rlguide warm-start`"
    absent = [name for name in CHECKPOINT_FILES if not (folder / name).is_file()]
    if absent:
        return Finding(Status.FAIL, f"missing in {folder}: {', '.join(absent)}", fix)
    weights = folder / "model.safetensors"
    wanted, found = safetensors_length(weights), weights.stat().st_size
    if wanted != found:
        return Finding(Status.FAIL, f"{weights} has {found} bytes, not {wanted}", fix)
    return Finding(Status.PASS, f"{found / 1e6:.1f} MB at {folder}")


def safetensors_length(path: Path) -> int:
    """Length in bytes that the header of a safetensors file promises: 8 bytes, header, tensors.

    The format: https://github.com/huggingface/safetensors#format
    """
    with path.open("rb") as file:
        (header_length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(header_length))
    return 8 + header_length + max(entry["data_offsets"][1] for name, entry in header.items() if name[:2] != "__")
