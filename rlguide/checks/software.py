"""Checks of the software: Python, the packages of an engine, and the policy that ships with rlguide."""

import json
import os
import struct
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from rlguide.asking import Finding
from rlguide.paths import PACKAGE
from rlguide.records import Status

IMPORTS = (("torch", "transformers", "trl"), ("datasets", "verifiers", "reverse_text"))
"""Packages to import, one child process a group: two take half the time on two cores."""
IMPORT_DEADLINE_S = 60.0
"""A cold disk can take this long to read torch and its libraries."""
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


class ImportTrial:
    """Imports packages in one child process; a crash there is a finding, not a crash here."""

    def __init__(self, modules: Sequence[str], *, python: Path = Path(sys.executable)):
        self.modules = tuple(modules)
        self.python = python
        self._lock = threading.Lock()
        self._found: dict[str, Finding] = {}

    def find(self, module: str) -> Finding:
        """How importing `module` went. The first caller runs the child, the others wait for it."""
        with self._lock:
            if not self._found:
                self._found = self._run()
        return self._found[module]

    def _run(self) -> dict[str, Finding]:
        argv = [self.python, "-P", PACKAGE / "programs" / "try_imports.py", *self.modules]
        quiet = {"CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1"}  # no CUDA context, no network
        try:
            child = subprocess.run(
                argv,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=IMPORT_DEADLINE_S,
                env=os.environ | quiet,
                check=False,
            )
            output, end = child.stdout, f"Python ended with exit code {child.returncode}"
        except subprocess.TimeoutExpired as error:
            output, end = error.stdout or b"", f"still importing after {IMPORT_DEADLINE_S:.0f} s"
        told: dict[str, dict[str, str]] = {}
        for line in output.decode(errors="replace").splitlines():
            answer = json.loads(line)
            told[answer["module"]] = answer
        return {module: self._judge(told.get(module), end) for module in self.modules}

    def _judge(self, answer: dict[str, str] | None, end: str) -> Finding:
        if answer and answer.get("file"):
            return Finding(Status.PASS, f"{answer['version']} from {answer['file']}".strip())
        if answer is None:
            return Finding(Status.SKIP, f"not tried: {end} before")
        seen = f"{answer.get('error', f'{end} while importing it')} ({self.python})"
        return Finding(Status.FAIL, seen, f"{self.python} -m pip install 'rlguide[local]'")
