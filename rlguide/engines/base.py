"""What every engine is: something that turns a configuration into a plan. An engine never starts anything."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from rlguide.config import RunConfig
from rlguide.records import Machine, Plan

GPU_CONCURRENCY = 32
"""Requests at a time to a server on a GPU."""
MODERN = (8, 0)
"""Compute capability from which bfloat16 and flash-attn work: Ampere."""
VLLM_READY_S = 600.0
"""vLLM compiles on a first start; with a small policy it took 60 s."""


@dataclass(frozen=True)
class Tools:
    """The programs with which the policies of a run are served, measured and tried."""

    server: Callable[[str, int, int], tuple[str, ...]]
    """Command of a server for a policy (folder or Hub name), its port, and the seed of its random numbers."""
    ready_s: float
    """Seconds until the server must have made a completion."""
    vf_eval: Callable[[], tuple[str, ...]]
    """Command of verifiers' `vf-eval`. Raises `EngineMissing`, as `server` does, where it is not installed."""
    python: str
    """A Python that has torch and transformers."""
    environment: Callable[[str], dict[str, str]]
    """Variables for the programs above, by policy."""
    arguments: dict[str, Any] = field(default_factory=dict)
    """Of verifiers' environment, so that it evaluates on the held-out texts."""
    concurrency: int = 1
    """Requests at a time; one keeps the order of random numbers, and so the result, fixed."""
    exclusive_cpu: bool = True
    """True when the programs compute on the processor."""


class Engine(Protocol):
    """One training framework behind rlguide's interface."""

    name: str

    def missing(self, config: RunConfig) -> str | None:
        """Why the engine cannot run here, with the command that mends it; `None` when it can."""

    def require_ready(self, plan: Plan) -> None:
        """Look once more, right before a start. Raises `EngineMissing` when what would start is broken."""

    def tools(self, plan: Plan) -> Tools:
        """The programs for the policies of a planned run. Raises `EvaluationError` when there are none."""

    def plan(self, config: RunConfig, directory: Path, *, machine: Machine) -> Plan:
        """What a launch of `config` in `directory` would start on `machine`. Pure: reads and changes nothing.

        Raises `ConfigError` for a configuration that this engine cannot run.
        """


def fingerprint(**decides: Any) -> str:
    """Hash of everything that decides a run's outcome; equal for equal plans, on every machine and Python."""
    text = json.dumps(decides, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
