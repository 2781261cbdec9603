"""What the engines need alike, as questions; nothing is looked at until they are asked."""

import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from pathlib import Path
from tempfile import gettempdir
from typing import NamedTuple

from rlguide.asking import Finding, Question
from rlguide.checks.accounts import ANSWER_S, look_at_wandb
from rlguide.checks.disk import Room, look_at_outputs, look_at_room
from rlguide.checks.hub import hub_cache, is_wanted, look_at_policy, look_at_token, weights_gib
from rlguide.checks.network import look_at_loopback, look_at_services, services
from rlguide.config import TINY, RunConfig
from rlguide.errors import ConfigError
from rlguide.gpus import LIMIT_S
from rlguide.import_trial import ImportTrial
from rlguide.paths import outputs_root
from rlguide.records import Machine, Status

WANDB_DEADLINE_S = ANSWER_S + 2
NETWORK_DEADLINE_S = 8.0
MACHINE_DEADLINE_S = LIMIT_S + 2

RUN_GIB, TEMPORARY_GIB = 0.5, 0.2
"""What a run of the tiny policy writes with its evaluation."""
COPIES = 10
"""Of the weights, at most: 6 in a checkpoint with optimizer, in float32; 1 at the end; 3 on the way to a server."""
POLICY_GIB = 1.2
"""The run guide's, and so the guess for any other on the Hub."""
TMPDIR_FIX = "set TMPDIR to a folder on a disk with room"
HUB_FIX = "set HF_HOME to a folder on a disk with room that you may write to"


class About(NamedTuple):
    """What is asked for, and how."""

    config: RunConfig
    machine: Callable[[], Machine]
    ask_outside: bool
    """Whether services on the internet may be asked."""
    named: Collection[str]
    """Checks that the caller named."""


class Needs(NamedTuple):
    """The questions of one engine."""

    questions: list[Question]
    slowness: Callable[[], float] = lambda: 1.0
    """Once they are answered: how many times as long as in the estimates the processor takes, at least 1."""


def questions(about: About, packages: Room, own: Iterable[Question]) -> list[Question]:
    """All of one engine: its `own` between what every one that trains needs. Its packages go to the room `packages`."""
    return [*files(_rooms(about.config.model.name, packages)), *own, *_elsewhere(about)]


def _rooms(policy: str, packages: Room) -> list[Room]:
    """What a run writes, and the installation of its packages where they are not there."""
    is_here = "nothing is downloaded: the policy is here"
    return [
        Room("disk", "outputs", outputs_root, lambda: RUN_GIB + COPIES * weights_gib(policy, POLICY_GIB), RUN_GIB),
        Room("temporary-disk", "temporary files", _temporary, lambda: TEMPORARY_GIB, fix=TMPDIR_FIX),
        packages,
        Room("hub-disk", "downloads", hub_cache, lambda: POLICY_GIB * is_wanted(policy), fix=HUB_FIX, why_none=is_here),
    ]


def files(rooms: Sequence[Room]) -> list[Question]:
    """Python, and what is written where."""
    looks = {room: partial(look_at_room, room, rooms) for room in rooms}
    return [
        Question("python", "Python", "3.11 to 3.13", _look_at_python),
        Question("outputs", "outputs folder", "writable", look_at_outputs),
        *(Question(room.check, f"disk for {room.title}", "enough room", look) for room, look in looks.items()),
    ]


def _look_at_python() -> Finding:
    good = (3, 11) <= sys.version_info[:2] <= (3, 13)
    seen = f"{sys.version.split()[0]} at {sys.executable}"
    return Finding(Status.PASS if good else Status.WARN, seen, "make the virtual environment with Python 3.11 to 3.13")


def of_the_machine(name: str, title: str, wanted: str, about: About, look: Callable[[Machine], Finding]) -> Question:
    """A question to what the machine is; all of them wait for the same look."""
    return Question(name, title, wanted, lambda: look(about.machine()), MACHINE_DEADLINE_S)


def packages(trials: Iterable[ImportTrial], when: Callable[[], Finding | None] = lambda: None) -> list[Question]:
    """Imports of packages; `when` says in their place why they are not tried."""
    return [
        Question(f"packages.{name}", name, "imports", partial(_try, trial, name, when), trial.limit_s + 5)
        for trial in trials
        for name in trial.modules
    ]


def _try(trial: ImportTrial, name: str, when: Callable[[], Finding | None]) -> Finding:
    return when() or trial.find(name)


def the_policy(config: RunConfig) -> str:
    """What a reader calls it."""
    return "the tiny policy" if config.model.name == TINY else "the policy"


def _temporary() -> Path:
    """Where programs put temporary files. Raises `ConfigError` for one that was removed while this one runs."""
    folder = Path(gettempdir())
    if not folder.is_dir():
        raise ConfigError(f"{folder} is not there any more", hint="make it again, or start this program anew")
    return folder


def _elsewhere(about: About) -> list[Question]:
    """The policy, connections and accounts."""
    config, ask = about.config, about.ask_outside
    policy, limit_s = the_policy(config), NETWORK_DEADLINE_S if ask else 5.0
    asked = [
        Question("warm-start", policy, "complete", partial(look_at_policy, config.model.name, ask=ask), limit_s),
        Question("loopback", "connections to this machine", "work, without a proxy", look_at_loopback),
        Question("wandb", "W&B account", "yours, in mode online", partial(look_at_wandb, config.wandb),
                 WANDB_DEADLINE_S),
        Question("hub-token", "Hugging Face token", "none, or one that the Hub accepts",
                 partial(look_at_token, config.model.name, ask=ask), limit_s),
    ]  # fmt: skip
    if ask:
        look = partial(look_at_services, services())
        asked.append(Question("network", "services on the internet", "answer", look, NETWORK_DEADLINE_S))
    return asked
