"""Training frameworks behind one small interface: the list, the choice, and the plan that follows from it."""

import stat
from contextlib import suppress
from pathlib import Path

from rlguide import probe
from rlguide.config import RunConfig
from rlguide.engines.base import Engine, Tools
from rlguide.engines.prime_rl import PrimeRl, as_wanted, choose_gpus
from rlguide.engines.replay import Replay
from rlguide.engines.trl import Trl
from rlguide.errors import ConfigError, EngineMissing, RlguideError
from rlguide.gpus import cuda_name, devices
from rlguide.paths import RunFiles, absolute, outputs_root
from rlguide.records import Machine, Plan
from rlguide.store import read_record
from rlguide.view.written import gpu_names, written

ENGINES: dict[str, Engine] = {"trl": Trl(), "prime-rl": PrimeRl(), "replay": Replay()}
"""Name in the configuration → engine."""

AUTO = "trl"
"""The engine that runs on every machine."""


def plan(
    config: RunConfig, directory: Path | None = None, *, machine: Machine | None = None, elsewhere: bool = False
) -> Plan:
    """What launching `config` would start, where and for how long; nothing is started or written.

    `directory` defaults to the run's own folder below the outputs folder, `machine` to this one. With `elsewhere`,
    what prime-rl needs is assumed to be there, and the first note says so; folders and ports stay those of here.
    Raises `EngineMissing` when the engine does not run here, and `ConfigError` when it cannot run this configuration.
    """
    directory = _usable(absolute(directory or outputs_root() / config.run_name))
    machine, held, made = machine or probe.machine(), _plan_there(directory), None
    if held:
        alone, machine = _as_found_by(held, machine)
        with suppress(RlguideError):  # another engine, or other GPUs, are asked for
            made = _made(config, directory, alone, elsewhere)
    if not made or made.fingerprint != held.fingerprint:
        made = _made(config, directory, machine, elsewhere)
    wandb_user = (config.wandb.expected_user or "*") if config.wandb.mode == "online" else None
    files = {"config.toml": config.to_toml()} | made.files
    changes = tuple(f"{key} {written(there)} → {written(here)}" for key, there, here in config.difference())
    found = {"files": files, "wandb_user": wandb_user, "changes": changes}
    if taken := _why_taken(made, held):
        found["notes"] = (*made.notes, f"A launch will refuse: {taken}.")
    elif held:
        found |= {name: getattr(held, name) for name in ("processes", "files", "gpus", "ports", "notes")}
    return made.model_copy(update=found)


def why_taken(plan: Plan) -> str | None:
    """What a launch will refuse; `None` where nothing is in the way."""
    return _why_taken(plan, _plan_there(plan.directory))


def _why_taken(plan: Plan, held: Plan | None) -> str | None:
    is_other = held is not None and held.fingerprint != plan.fingerprint
    return f"{plan.directory.name!r} holds a run of another plan" if is_other else None


def _made(config: RunConfig, directory: Path, machine: Machine, elsewhere: bool) -> Plan:
    """The plan of the engine that fits; its first note says why that one."""
    if elsewhere and config.engine == PrimeRl.name:
        engine, (config, machine, why) = ENGINES[config.engine], as_wanted(config, machine)
    else:
        engine, why = choose(config, machine)
    made = engine.plan(config, directory, machine=machine)
    return made.model_copy(update={"notes": (why, *made.notes)})


def tools(plan: Plan) -> Tools:
    """The programs for the policies of a run. Raises `EvaluationError` for a recording, which has none."""
    return find_engine(plan.engine).tools(plan)


def _plan_there(directory: Path) -> Plan | None:
    """The plan of the run that `directory` holds: the same plan again is that run, on its GPUs and its port."""
    try:
        return read_record(RunFiles(directory)).plan
    except RlguideError:  # none there, or not to be read: a launch tells more
        return None


def _as_found_by(held: Plan, machine: Machine) -> tuple[Machine, Machine]:
    """`machine` with nobody on the GPUs of the run that is there: once with these alone, once with the others too."""
    own = [gpu for gpu in devices(machine.gpus) if cuda_name(gpu) in held.gpus]
    freed = tuple(gpu.model_copy(update={"owners": (), "free_gib": gpu.memory_gib}) for gpu in own)
    others = tuple(gpu for gpu in machine.gpus if gpu not in own)
    return machine.model_copy(update={"gpus": freed}), machine.model_copy(update={"gpus": (*freed, *others)})


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
    name, why = (config.engine, "as configured") if config.engine != "auto" else fitting(config, machine)
    engine = require_installed(name, config)
    return engine, f"Engine {name}, {why}; GPUs seen: {_seen(machine)}."


def fitting(config: RunConfig, machine: Machine) -> tuple[str, str]:
    """The engine that makes most of `machine`, and why."""
    try:
        gpus = gpu_names([gpu.index for gpu in choose_gpus(config, machine)])
    except ConfigError:
        return AUTO, "chosen automatically"
    problem = ENGINES["prime-rl"].missing(config)
    if problem:
        return AUTO, f"chosen automatically, because prime-rl, for {gpus}, is not ready ({problem})"
    return "prime-rl", f"chosen automatically for {gpus}"


def require_installed(name: str, config: RunConfig | None = None) -> Engine:
    """The engine called `name`. Raises `EngineMissing` when there is none or its packages are not installed."""
    engine = find_engine(name)
    if problem := engine.missing(config or RunConfig()):
        hint = f"`rlguide doctor --engine {name}` tells more"
        raise EngineMissing(f"the {name} engine cannot run here: {problem}", hint=hint)
    return engine


def find_engine(name: str) -> Engine:
    """The engine called `name`. Raises `EngineMissing` for one that this version of rlguide does not have."""
    if name not in ENGINES:
        hint = f"use engine = {' or '.join(map(repr, ('auto', *ENGINES)))}"
        raise EngineMissing(f"there is no {name} engine", hint=hint)
    return ENGINES[name]


def _seen(machine: Machine) -> str:
    if machine.gpu_problem:
        return f"unknown ({machine.gpu_problem})"
    return ", ".join(f"{gpu.index} {gpu.name}" for gpu in machine.gpus) or "none"
