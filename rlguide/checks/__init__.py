"""Tests what an engine needs of this machine and judges it: one verdict, and a fix for whatever is missing.

A check looks and never changes anything, never raises, and has a deadline; what could not be found out is a warning.
"""

import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from rlguide import engines, probe
from rlguide.asking import Question, ask
from rlguide.checks.accounts import look_at_wandb
from rlguide.checks.hardware import (
    TRAINING_MEMORY_GIB,
    hub_cache,
    look_at_cores,
    look_at_disk,
    look_at_driver,
    look_at_gpus,
    look_at_hub_cache,
    look_at_memory,
    look_at_outputs,
    look_at_slot,
)
from rlguide.checks.network import look_at_loopback, look_at_port, look_at_services, services
from rlguide.checks.software import IMPORT_DEADLINE_S, IMPORTS, ImportTrial, look_at_checkpoint, look_at_python
from rlguide.checks.torch_build import torch_build
from rlguide.config import Wandb, from_preset
from rlguide.errors import ConfigError, EngineMissing
from rlguide.paths import TINY_POLICY, outputs_root
from rlguide.records import Check, Machine, MachineReport, Status

WANDB_DEADLINE_S = 10.0
"""W&B answers within 3 s; when nobody answers it takes 9 s to tell why."""
NETWORK_DEADLINE_S = 8.0

# A run with its evaluation needs these.
RUN_DISK_GIB = 0.5
TEMPORARY_DISK_GIB = 0.2
HUB_DISK_GIB = 2.0
"""For the run guide's policy and its texts, which the tiny policy does without."""
PORTS: dict[str, tuple[int, ...]] = {"prime-rl": (8000,)}
"""Engine → ports that it cannot choose itself."""


def check_machine(
    engine: str = "auto", *, only: Sequence[str] = (), wandb: Wandb | None = None, network: bool = False
) -> MachineReport:
    """Test what `engine` needs here, or `only` the named of it: one verdict, and every check. Changes nothing.

    A name of a check is its id, or the part before its dot. `wandb` is that part of a configuration; with mode `online`
    W&B is asked whose key is here. Unset, it is `off`.
    With `network`, the services on the internet are asked whether they answer; otherwise nobody outside is asked.
    """
    try:
        name = engines.find_engine(engines.AUTO if engine == "auto" else engine).name
    except EngineMissing as error:
        absent = Check(
            id="engine", title="engine", status=Status.FAIL, seen=error.message, wanted="an engine", fix=error.hint
        )
        return _report(engine, (absent,), None)
    machine = probe.machine()
    offered = questions(name, machine, wandb or Wandb(), network=network)
    known = _names(offered) | _names(questions(engines.AUTO, machine, Wandb(), network=True))
    if unknown := {*only} - known:
        raise ConfigError(f"there is no check {', '.join(sorted(unknown))}", hint="rlguide doctor --all lists them")
    asked = [question for question in offered if not only or _names([question]) & {*only}]
    return _report(name, ask(asked), None if only else machine)


def _names(asked: Sequence[Question]) -> set[str]:
    """By which a guard may name them: the ids, and what stands before the dot of an id."""
    return {name for question in asked for name in (question.id, question.id.split(".")[0])}


def require(*names: str, engine: str = "auto") -> MachineReport:
    """Stop with a hint unless the named checks (none: all) do not fail; the others are not made.

    A name is a check's id or the part before its dot: `"packages"` stands for `"packages.torch"` and the others.
    Raises `EngineMissing`, and `ConfigError` for a name that no check has.
    """
    report = check_machine(engine, only=names)
    if failed := [check for check in report.checks if check.status is Status.FAIL]:
        message = "\n".join(f"{check.title}: {check.seen} (wanted: {check.wanted})" for check in failed)
        raise EngineMissing(message, hint=failed[0].fix)
    return report


def _report(engine: str, checks: tuple[Check, ...], machine: Machine | None) -> MachineReport:
    failed = [check.title for check in checks if check.status is Status.FAIL]
    doubtful = [check.title for check in checks if check.status is Status.WARN]
    if failed:
        verdict = f"The {engine} engine cannot run here yet: {', '.join(failed)}."
    elif machine is None:
        titles = ", ".join(check.title for check in checks) or f"the {engine} engine needs none of it"
        verdict = f"Nothing is missing of what was asked: {titles}."
    else:
        took = engines.plan(from_preset("tiny"), machine=machine).estimate_s
        steps = f"20 steps of the tiny policy take about {took:.0f} s." if took else "No estimate of the time."
        verdict = f"The {engine} engine runs here. {steps}"
    if doubtful and not failed:
        verdict += f" In doubt: {', '.join(doubtful)}."
    return MachineReport(engine=engine, checks=checks, verdict=verdict)


def questions(engine: str, machine: Machine, wandb: Wandb, *, network: bool = False) -> list[Question]:
    """What `engine` needs, and what is worth knowing before a run."""
    root, temporary = outputs_root(), Path(tempfile.gettempdir())
    files = [
        Question("python", "Python", "3.11 to 3.13", look_at_python),
        Question("outputs", "outputs folder", "writable", partial(look_at_outputs, root)),
        Question("disk", "disk for outputs", f"{RUN_DISK_GIB} GiB free", partial(look_at_disk, root, RUN_DISK_GIB)),
    ]
    if engine == "replay":  # reads files and writes files
        return files
    needed = f"{TEMPORARY_DISK_GIB} GiB free"
    return [
        *files,
        Question(
            "temporary-disk", "disk for temporary files", needed, partial(look_at_disk, temporary, TEMPORARY_DISK_GIB)
        ),
        Question(
            "hub-disk",
            "disk for downloads",
            f"{HUB_DISK_GIB:.0f} GiB free for a policy from the Hub; none for the tiny one",
            lambda: look_at_hub_cache(hub_cache(), HUB_DISK_GIB),
        ),
        Question("cores", "processor cores", "2 or more", partial(look_at_cores, machine)),
        Question("memory", "memory", f"{TRAINING_MEMORY_GIB} GiB available", partial(look_at_memory, machine)),
        Question("processor", "processor for training", "not in use by another run", look_at_slot),
        Question("gpus", "GPUs", "none needed; one that is free is used", partial(look_at_gpus, machine)),
        Question(
            "driver", "driver for the GPUs", "the CUDA that torch needs", lambda: look_at_driver(machine, torch_build())
        ),
        *_packages(),
        Question("warm-start", "tiny policy", "complete", partial(look_at_checkpoint, TINY_POLICY)),
        Question("loopback", "connections to this machine", "work, without a proxy", look_at_loopback),
        *(
            Question(f"ports.{port}", f"port {port}", "free", partial(look_at_port, port))
            for port in PORTS.get(engine, ())
        ),
        Question("wandb", "W&B account", "yours, in mode online", partial(look_at_wandb, wandb), WANDB_DEADLINE_S),
        *([_network()] if network else []),
    ]


def _packages() -> list[Question]:
    trials = [ImportTrial(modules) for modules in IMPORTS]
    return [
        Question(f"packages.{name}", name, "imports", partial(trial.find, name), IMPORT_DEADLINE_S + 5)
        for trial in trials
        for name in trial.modules
    ]


def _network() -> Question:
    return Question(
        "network", "services on the internet", "answer", partial(look_at_services, services()), NETWORK_DEADLINE_S
    )
