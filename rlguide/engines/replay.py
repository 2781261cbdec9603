"""The `replay` engine: plays a recording of a real run with prime-rl on two GPUs, on any machine. Nothing is trained.

It plans; `rlguide.programs.replay` does the work.
"""

import json
import sys
from functools import cache
from pathlib import Path
from typing import Any

from rlguide.config import RunConfig
from rlguide.engines.base import Tools, fingerprint
from rlguide.engines.prime_rl import ENGINE, LAYOUT, METRICS
from rlguide.errors import EvaluationError
from rlguide.paths import DATA
from rlguide.records import Machine, Plan, Process

RECORDING = DATA / "recordings" / "prime-rl-two-gpus"
PROGRAM = "rlguide.programs.replay"
GRACE_S = 5.0
"""There is nothing to save."""


class Replay:
    """A recording in place of a training."""

    name = "replay"

    def missing(self, config: RunConfig) -> str | None:
        return None if (RECORDING / "manifest.json").is_file() else f"no recording in {RECORDING}; reinstall rlguide"

    def require_ready(self, plan: Plan) -> None:
        """Nothing: a recording needs no packages."""

    def tools(self, plan: Plan) -> Tools:
        told = f"{plan.directory.name!r} is a recording: it has no weights to measure or to try"
        raise EvaluationError(told, hint="train one for real: engine = 'trl' runs on every machine")

    def plan(self, config: RunConfig, directory: Path, *, machine: Machine) -> Plan:
        """Of `config`, only the speed and the time limit count; steps, batch and policy are the recording's."""
        recorded, speed = _manifest(), config.replay.speed
        of = f"{recorded['release']} on {recorded['hardware']}, {recorded['made_on']}"
        argv = (sys.executable, "-P", "-m", PROGRAM, str(RECORDING), str(directory / ENGINE), "--speed", f"{speed:g}")
        return Plan(
            engine=self.name,
            release=f"{recorded['release']}, recorded",
            policy=recorded["policy"],
            directory=directory,
            processes=(Process(name="player", argv=argv, log=ENGINE / "logs" / "player.log"),),
            files={"rl.toml": (RECORDING / "rl.toml").read_text(encoding="utf-8")},
            metrics=METRICS,
            layout=LAYOUT,
            max_steps=recorded["max_steps"],
            batch_size=recorded["batch_size"],
            time_limit_s=config.time_limit_s,
            grace_s=GRACE_S,
            exclusive_cpu=False,
            precision=recorded["precision"],
            attention=recorded["attention"],
            estimate_s=recorded["seconds"] / speed,
            notes=(
                f"Nothing is trained: this plays a recording of {of}.",
                f"It goes {speed:g} times as fast; seconds of steps are the recorded ones.",
                "Of the configuration, only replay.speed and time_limit_s count.",
                "A recording leaves no weights: there is nothing to evaluate, and nothing to go on from.",
            ),
            recording=of,
            fingerprint=fingerprint(engine=self.name, recording=recorded, speed=speed),
        )


@cache
def _manifest() -> dict[str, Any]:
    return json.loads((RECORDING / "manifest.json").read_text(encoding="utf-8"))
