"""Checks of the software: Python, and the policy that ships with rlguide."""

import sys
from pathlib import Path

from rlguide.asking import Finding
from rlguide.engines.policy import problem_of
from rlguide.records import Status

SAMPLING = "generation_config.json"
"""Without it a server samples otherwise than in training."""


def look_at_python() -> Finding:
    good = (3, 11) <= sys.version_info[:2] <= (3, 13)
    seen = f"{sys.version.split()[0]} at {sys.executable}"
    return Finding(Status.PASS if good else Status.WARN, seen, "make the virtual environment with Python 3.11 to 3.13")


def look_at_checkpoint(folder: Path) -> Finding:
    """Whether the policy that ships with rlguide is whole, with the file that says how it samples."""
    problem = problem_of(folder) or (None if (folder / SAMPLING).is_file() else f"{SAMPLING} is missing")
    if problem:
        fix = "install rlguide again, or make the policy anew with `rlguide warm-start`"
        return Finding(Status.FAIL, f"{folder}: {problem}", fix)
    return Finding(Status.PASS, f"{(folder / 'model.safetensors').stat().st_size / 1e6:.1f} MB at {folder}")
