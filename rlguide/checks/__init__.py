"""Tests what an engine needs of this machine and judges it: one verdict, and a fix for whatever is missing.

A check looks and never changes anything, never raises, and has a deadline; what could not be found out is a warning.
"""

import difflib
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import partial

from rlguide import engines, probe
from rlguide.asking import Finding, Question, ask, once
from rlguide.checks import embedded, prime_rl
from rlguide.checks.common import MACHINE_DEADLINE_S, RUN_GIB, About, Needs, files, the_policy
from rlguide.checks.disk import Room
from rlguide.config import RunConfig, from_preset
from rlguide.errors import ConfigError, EngineMissing, RlguideError
from rlguide.paths import outputs_root
from rlguide.records import Check, Machine, MachineReport, Status
from rlguide.view.text import report_text

ANY = Machine(cores=1, memory_gib=1)
"""A recording is played alike on every machine."""
SEVERAL = 6
"""From so many on, checks are counted and not named."""
OUTSIDE = {"network", "services on the internet", "hub-token", "hugging face token"}
"""Whoever names one of these wants somebody outside to be asked."""
PLAN = Question("plan", "plan", "can be made", lambda: Finding(Status.SKIP, "not made: first comes what is missing"),
                MACHINE_DEADLINE_S)  # fmt: skip
"""Asked last: what keeps a run from being planned, though all that it needs is there; and how long it takes."""


class Report(MachineReport):
    """A report that prints as the doctor shows it."""

    def __str__(self) -> str:
        return report_text(self)


def check_machine(
    engine: str = "auto",
    *,
    config: RunConfig | None = None,
    only: Collection[str] = (),
    network: bool = False,
) -> MachineReport:
    """Test what a run needs here, or `only` the named of it: one verdict, and every check. Changes nothing.

    `config` is the run's configuration, by default the preset for `engine`. A name of a check is its id, the part
    before its dot, or its title; capitals do not count. In W&B's mode `online` it is asked whose key is here; with
    `network`, or where one of these checks is named, the services on the internet whether they answer, and the Hub
    about the token and the policy. Otherwise nobody outside is asked.
    Raises `ConfigError` for a name that no check has.
    """
    config = config or from_preset(preset_for(engine))
    only = {name.lower() for name in ([only] if isinstance(only, str) else only)}
    about = About(config, once(probe.machine), network or bool(only & OUTSIDE), only)
    look = partial(_look_at_engine, engine if engine != "auto" else config.engine, about)
    (choice,) = ask([Question("engine", "engine", "one that fits this machine", look, MACHINE_DEADLINE_S)])
    if choice.status is Status.FAIL:
        return _report(engine, (choice,), is_whole=True)
    engine, checks = (choice.seen, ()) if choice.status is Status.PASS else (engines.AUTO, (choice,))
    needs = _needs(engine, about)
    offered = [*needs.questions, PLAN]
    if unknown := {name for name in only if not _called(name, offered)}:
        _require_known(unknown, about)
    asked = [one for one in offered if not only or any(one in _called(name, offered) for name in only)]
    checks += ask([one for one in asked if one is not PLAN])
    if PLAN in asked:
        slowness = (lambda: 1.0) if only else needs.slowness
        last = PLAN._replace(look=partial(_look_at_plan, engine, about, slowness))
        checks += ask([PLAN if any(check.status is Status.FAIL for check in checks) and not only else last])
    return _report(engine, checks, is_whole=not only)


def preset_for(engine: str) -> str:
    """The preset that `engine` is tried with first."""
    return "guide" if engine == "prime-rl" else "tiny"


def _look_at_engine(name: str, about: About) -> Finding:
    """Which engine a run would have. The GPUs are looked at only where they decide."""
    try:
        if name != "auto":
            return Finding(Status.PASS, engines.find_engine(name).name)
    except EngineMissing as error:
        return Finding(Status.FAIL, error.message, error.hint)
    if engines.ENGINES["prime-rl"].missing(about.config):
        return Finding(Status.PASS, engines.AUTO)
    return Finding(Status.PASS, engines.fitting(about.config, about.machine())[0])


def _needs(engine: str, about: About) -> Needs:
    if engine == "replay":  # reads files and writes files
        return Needs(files([Room("disk", "outputs", outputs_root, lambda: RUN_GIB)]))
    return (embedded if engine == "trl" else prime_rl).needs(about)


def _called(name: str, there: Sequence[Question]) -> list[Question]:
    """Those of that id, or with that before the dot of an id; without one, those of that title."""
    found = [one for one in there if name in {one.id, one.id.split(".")[0]}]
    return found or [one for one in there if name == one.title.lower()]


def _require_known(names: Collection[str], about: About) -> None:
    """Raises `ConfigError` unless another engine has checks of these names: a guard may name what this one has not."""
    there = [question for engine in engines.ENGINES for question in _needs(engine, about).questions]
    if unknown := sorted(name for name in names if not _called(name, there) and name not in OUTSIDE):
        ids = sorted({question.id.split(".")[0] for question in (*there, PLAN)} | {"network"})
        alike = difflib.get_close_matches(
            unknown[0], [*ids, *(name for one in there for name in (one.id, one.title.lower()))], n=1
        )
        hint = f"did you mean {alike[0]}? " if alike else ""
        raise ConfigError(f"there is no check {', '.join(unknown)}", hint=f"{hint}checks: {', '.join(ids)}")


def require(*names: str, engine: str = "auto", config: RunConfig | None = None) -> MachineReport:
    """Stop with a hint unless the named checks (none: all) do not fail; the others are not made.

    `engine` and `config` are those of `check_machine`. A name is a check's id or the part before its dot: `"packages"`
    stands for `"packages.torch"` and the others.
    Raises `EngineMissing`, and `ConfigError` for a name that no check has.
    """
    report = check_machine(engine, config=config, only=names)
    if failed := [check for check in report.checks if check.status is Status.FAIL]:
        message = "\n".join(f"{check.title}: {check.seen} (wanted: {check.wanted})" for check in failed)
        raise EngineMissing(message, hint=failed[0].fix)
    return report


def _look_at_plan(engine: str, about: About, slowness: Callable[[], float]) -> Finding:
    """Whether a run can be planned, and how long it takes on this processor, as far as that was measured."""
    config = about.config.replace({"engine": engine})
    try:
        plan = engines.plan(config, machine=ANY if engine == "replay" else about.machine())
    except RlguideError as error:
        return Finding(Status.FAIL, error.message, error.hint)
    if taken := engines.why_taken(plan):
        return Finding(Status.WARN, taken, "choose another run_name, or remove that run: `rlguide clean`")
    what = "the recording takes" if plan.recording else f"{plan.max_steps} steps of {the_policy(config)} take"
    late = f"the run is stopped after {config.time_limit_s:.0f} s"
    fix = "give it more time with time_limit_s, or lower max_steps"
    if plan.estimate_s is None:
        if plan.gpus:
            return Finding(Status.PASS, "no estimate of the time")
        return Finding(Status.WARN, f"{what} hours on the processor, unless it is very small; {late}", fix)
    seconds = plan.estimate_s
    with suppress(OSError):  # the import that measures it could not be started, which a check says
        seconds *= slowness()
    seen = f"{what} about {seconds:.0f} s"
    if seconds > config.time_limit_s:
        return Finding(Status.WARN, f"{seen}; {late}", fix)
    return Finding(Status.PASS, seen)


def _report(engine: str, checks: tuple[Check, ...], *, is_whole: bool) -> MachineReport:
    """One verdict about all that a run needs, or about what was named."""
    failed, doubtful = ([one.title for one in checks if one.status is status] for status in (Status.FAIL, Status.WARN))
    well = [one.title for one in checks if one.title not in {*failed, *doubtful}]
    verdict = []
    if failed:
        start = f"The {engine} engine cannot run here yet" if is_whole else "Missing of what was asked"
        verdict = [f"{start}: {', '.join(failed)}."]
    elif is_whole:
        told = next((one.seen for one in checks if one.id == PLAN.id), "")
        verdict = [f"The {engine} engine runs here.", f"{told[:1].upper()}{told[1:]}."]
    elif well or not checks:
        named = ", ".join(well) or f"the {engine} engine needs none of it"
        verdict = [f"Nothing is missing of what was asked: {named if len(well) < SEVERAL else f'{len(well)} checks'}."]
    if doubtful and not failed:
        verdict.append(f"In doubt: {', '.join(doubtful)}.")
    return Report(engine=engine, checks=checks, verdict=" ".join(verdict))
