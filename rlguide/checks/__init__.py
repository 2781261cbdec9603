"""Tests what an engine needs of this machine and judges it: one verdict, and a fix for whatever is missing.

A check looks and never changes anything, never raises, and has a deadline; what could not be found out is a warning.
"""

from collections.abc import Collection, Sequence

from rlguide import engines, probe
from rlguide.asking import Question, ask, once
from rlguide.checkout import DEFAULT, find_checkout, venv_python
from rlguide.checks import embedded, prime_rl
from rlguide.checks.common import RUN_GIB, About, Needs, files
from rlguide.checks.disk import Room
from rlguide.config import TINY, RunConfig, from_preset
from rlguide.errors import ConfigError, EngineMissing, RlguideError
from rlguide.paths import outputs_root
from rlguide.records import Check, Machine, MachineReport, Status

ANY = Machine(cores=1, memory_gib=1)
"""A recording is played alike on every machine."""
SEVERAL = 6
"""From so many on, checks are counted and not named."""


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
    `network`, the services on the internet whether they answer, and the Hub about the token. Otherwise nobody outside
    is asked.
    Raises `ConfigError` for a name that no check has.
    """
    config = config or from_preset(preset_for(engine))
    only = {name.lower() for name in only}
    about = About(config, once(probe.machine), network, only)
    try:
        name = _engine(engine if engine != "auto" else config.engine, about)
    except EngineMissing as error:
        absent = Check(
            id="engine", title="engine", status=Status.FAIL, seen=error.message, wanted="an engine", fix=error.hint
        )
        return _report(engine, (absent,), about, None)
    needs = _needs(name, about)
    offered = needs.questions
    if only - _names(offered) and (unknown := only - _names(there := _all(about))):
        ids = sorted({question.id.split(".")[0] for question in there})
        raise ConfigError(f"there is no check {', '.join(sorted(unknown))}", hint=f"checks: {', '.join(ids)}")
    asked = [question for question in offered if not only or _names([question]) & only]
    return _report(name, ask(asked), about, None if only else needs)


def preset_for(engine: str) -> str:
    """The preset that `engine` is tried with first."""
    return "guide" if engine == "prime-rl" else "tiny"


def _engine(name: str, about: About) -> str:
    """The engine that a run would have. The GPUs are looked at only where they decide. Raises `EngineMissing`."""
    if name != "auto":
        return engines.find_engine(name).name
    if engines.ENGINES["prime-rl"].missing(about.config):
        return engines.AUTO
    try:
        machine = about.machine()
    except Exception:  # the boundary of the promise not to raise; the checks of the machine say what it was
        return engines.AUTO
    return engines.fitting(about.config, machine)[0]


def _needs(engine: str, about: About) -> Needs:
    if engine == "replay":  # reads files and writes files
        return Needs(files([Room("disk", "outputs", outputs_root, RUN_GIB)]))
    if engine == "trl":
        return embedded.needs(about)
    try:
        checkout = find_checkout(about.config.prime_rl.checkout)
    except ConfigError:  # a check says it
        checkout = None
    return prime_rl.needs(about, checkout, venv_python(checkout or DEFAULT))


def _all(about: About) -> list[Question]:
    """The questions of every engine: a guard may name what this one does not need."""
    everything = about._replace(ask_outside=True)
    return [question for engine in engines.ENGINES for question in _needs(engine, everything).questions]


def _names(asked: Sequence[Question]) -> set[str]:
    """By which a guard may name them: the ids, what stands before the dot of an id, and the titles in small letters."""
    return {name for one in asked for name in (one.id, one.id.split(".")[0], one.title.lower())}


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


def _report(engine: str, checks: tuple[Check, ...], about: About, needs: Needs | None) -> MachineReport:
    failed = [check.title for check in checks if check.status is Status.FAIL]
    doubtful = [check.title for check in checks if check.status is Status.WARN]
    if failed:
        verdict = f"The {engine} engine cannot run here yet: {', '.join(failed)}."
    elif needs is None:
        named = ", ".join(check.title for check in checks) or f"the {engine} engine needs none of it"
        titles = named if len(checks) < SEVERAL else f"{len(checks)} checks"
        verdict = f"Nothing is missing of what was asked: {titles}."
    else:
        verdict = f"The {engine} engine runs here. {_how_long(engine, about, needs)}"
    if doubtful and not failed:
        verdict += f" In doubt: {', '.join(doubtful)}."
    return MachineReport(engine=engine, checks=checks, verdict=verdict)


def _how_long(engine: str, about: About, needs: Needs) -> str:
    """What a run takes, as far as that was measured, on a processor as fast as this one."""
    config = about.config
    machine = ANY if engine == "replay" else about.machine()
    try:
        plan = engines.find_engine(engine).plan(config, outputs_root() / config.run_name, machine=machine)
    except (RlguideError, OSError):  # OSError: no port is free
        return "No estimate of the time."
    if plan.estimate_s is None:
        return "No estimate of the time."
    seconds = plan.estimate_s * (needs.slowness() or 1)
    what = f"{plan.max_steps} steps of {'the tiny policy' if config.model.name == TINY else plan.policy} take"
    return f"{'The recording takes' if plan.recording else what} about {seconds:.0f} s."
