"""Training frameworks behind one small interface: the list, the choice, and the plan that follows from it."""

import stat
from pathlib import Path

from rlguide import probe
from rlguide.config import RunConfig
from rlguide.engines.base import Engine
from rlguide.engines.replay import Replay
from rlguide.engines.trl import Trl
from rlguide.errors import ConfigError, EngineMissing
from rlguide.paths import absolute, outputs_root
from rlguide.records import Machine, Plan
from rlguide.view.written import written

ENGINES: dict[str, Engine] = {"trl": Trl(), "replay": Replay()}
"""Name in the configuration → engine."""

AUTO = "trl"
"""The engine that runs on every machine."""


def plan(config: RunConfig, directory: Path | None = None, *, machine: Machine | None = None) -> Plan:
    """What launching `config` would start, where and for how long; nothing is started or written.

    `directory` defaults to the run's own folder below the outputs folder, `machine` to this one.
    Raises `EngineMissing` when the engine does not run here, and `ConfigError` when it cannot run this configuration.
    """
    machine = machine or probe.machine()
    engine, why = choose(config, machine)
    directory = _usable(absolute(directory or outputs_root() / config.run_name))
    made = engine.plan(config, directory, machine=machine)
    wandb_user = (config.wandb.expected_user or "*") if config.wandb.mode == "online" else None
    files = {"config.toml": config.to_toml()} | made.files
    changes = tuple(f"{key} {written(there)} → {written(here)}" for key, there, here in config.difference())
    found = {"notes": (why, *made.notes), "files": files, "wandb_user": wandb_user, "changes": changes}
    return made.model_copy(update=found)


def _usable(directory: Path) -> Path:
    """`directory`, when there is one or one can be made there. Raises `ConfigError`."""
    try:
        problem = None if stat.S_ISDIR(directory.stat().st_mode) else "that is a file"
    except FileNotFoundError:
        problem = None
    except OSError as error:
        problem = error.strerror
    if problem:
        raise ConfigError(f"no run can be in {str(directory)[:200]!r}: {problem}", hint="name another folder")
    return directory


def choose(config: RunConfig, machine: Machine) -> tuple[Engine, str]:
    """The engine for `config` on `machine`, and one sentence that says why. Raises `EngineMissing`."""
    engine = require_installed(AUTO if config.engine == "auto" else config.engine)
    asked = "chosen automatically" if config.engine == "auto" else "as configured"
    return engine, f"Engine {engine.name}, {asked}; GPUs seen: {_seen(machine)}."


def require_installed(name: str) -> Engine:
    """The engine called `name`. Raises `EngineMissing` when there is none or its packages are not installed."""
    engine = find_engine(name)
    if problem := engine.missing():
        raise EngineMissing(f"the {name} engine cannot run here: {problem}", hint="`rlguide doctor` tells more")
    return engine


def find_engine(name: str) -> Engine:
    """The engine called `name`. Raises `EngineMissing` for one that this version of rlguide does not have."""
    if name not in ENGINES:
        hint = f"use engine = {' or '.join(map(repr, ('auto', *ENGINES)))}"
        raise EngineMissing(f"this version of rlguide has no {name} engine yet", hint=hint)
    return ENGINES[name]


def _seen(machine: Machine) -> str:
    if machine.gpu_problem:
        return f"unknown ({machine.gpu_problem})"
    return ", ".join(f"{gpu.index} {gpu.name}" for gpu in machine.gpus) or "none"
