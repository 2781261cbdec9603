"""What every engine is: something that turns a configuration into a plan. An engine never starts anything."""

import hashlib
import json
from pathlib import Path
from typing import Any, Protocol

from rlguide.config import RunConfig
from rlguide.records import Machine, Plan


class Engine(Protocol):
    """One training framework behind rlguide's interface."""

    name: str

    def missing(self) -> str | None:
        """Why the engine cannot run in this installation, with the command that mends it; `None` when it can."""

    def release(self) -> str:
        """Version of the framework, for example `trl 1.16.0`."""

    def plan(self, config: RunConfig, directory: Path, *, machine: Machine) -> Plan:
        """What a launch of `config` in `directory` would start on `machine`. Pure: reads and changes nothing.

        Raises `ConfigError` for a configuration that this engine cannot run.
        """


def fingerprint(**decides: Any) -> str:
    """Hash of everything that decides a run's outcome; equal for equal plans, on every machine and Python."""
    text = json.dumps(decides, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
