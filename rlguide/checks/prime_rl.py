"""What prime-rl needs: two GPUs, and a checkout with a virtual environment of its own, whose Python is asked."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from rlguide.asking import Finding, Question, once
from rlguide.checkout import absent_programs, find_checkout, named_place, require_supported, venv_python
from rlguide.checks import hardware
from rlguide.checks.common import About, Needs, of_the_machine, packages, questions
from rlguide.checks.disk import Room
from rlguide.checks.network import look_at_port
from rlguide.checks.tools import GIT, OLDEST_UV, RSYNC, SSH, TMUX, Tool, asked_by, look_at_uv
from rlguide.child import answer_of
from rlguide.errors import ConfigError, RlguideError
from rlguide.import_trial import ImportTrial
from rlguide.records import Status

IMPORTS = (
    ("torch", "flash_attn"), ("verifiers", "reverse_text"), ("vllm", "prime_rl.entrypoints.rl"),
)  # fmt: skip
"""Packages to import, one child process a group."""
INSTALL = "rlguide install --engine prime-rl"
INSTALL_GIB = 10.0
ANSWER_S = 4.0


def needs(about: About) -> Needs:
    """What a run with prime-rl needs, in the Python of its own."""
    config = about.config
    named = config.prime_rl.checkout
    checkout, python = once(partial(_checkout, named)), venv_python(named_place(named))
    is_installed = once(lambda: checkout() is not None and absent_programs(checkout()) is None)
    target = once(partial(look_at_target, checkout, python))
    venv = Room("venv-disk", "the virtual environment of prime-rl", lambda: python.parent,
                lambda: 0 if is_installed() else INSTALL_GIB,
                why_none="nothing is written: it is installed")  # fmt: skip
    trials = [ImportTrial(modules, python=python, fix=INSTALL) for modules in IMPORTS]
    driver = partial(hardware.look_at_driver, python=python, must=True, install=INSTALL)
    own = [
        of_the_machine("gpus", "GPUs", "two that are free, undivided", about,
                       partial(hardware.look_at_two_gpus, config=config)),
        of_the_machine("driver", "driver for the GPUs", "the CUDA that prime-rl's torch needs", about,
                       lambda machine: _not_tried(target) or driver(machine)),
        Question("checkout", "checkout of prime-rl", "the guide's release", partial(look_at_checkout, named)),
        Question("venv", "Python of prime-rl", "as the checkout asks, with prime-rl beside it", target),
        *_programs(about, checkout, is_installed),
        *packages(trials, partial(_not_tried, target)),
        Question(f"ports.{config.inference.port}", f"port {config.inference.port}", "free",
                 partial(look_at_port, config.inference.port, is_wish=True)),
    ]  # fmt: skip
    return Needs(questions(about, venv, own))


def look_at_checkout(named: str | None) -> Finding:
    """Whether there is a checkout, and of the release that rlguide drives."""
    try:
        checkout = find_checkout(named)
        if checkout is None:
            return Finding(Status.FAIL, "there is no checkout of prime-rl here", INSTALL)
        return Finding(Status.PASS, f"{require_supported(checkout)} at {checkout}")
    except RlguideError as error:
        return Finding(Status.FAIL, error.message.partition("\n")[0], error.hint)


def _checkout(named: str | None) -> Path | None:
    """The checkout, `None` also for one that is none: a check says so."""
    try:
        return find_checkout(named)
    except ConfigError:
        return None


def look_at_target(found: Callable[[], Path | None], python: Path) -> Finding:
    """Whether the Python of prime-rl starts, is what the checkout asks for, and has the programs of a run beside it."""
    from packaging.specifiers import SpecifierSet

    checkout = found()
    if checkout is None:
        return Finding(Status.SKIP, "there is none: it comes with the checkout")
    try:
        if not python.exists():
            return Finding(Status.FAIL, f"there is no {python}", INSTALL)
        answer = answer_of((python, "-P", "-c", "import platform as p; print(p.python_version())"), limit_s=ANSWER_S)
    except OSError as error:
        return Finding(Status.FAIL, f"{python} cannot be started: {error.strerror}", INSTALL)
    version = (answer.out.split() or [""])[-1]  # Python may print more when it starts
    if answer.code is None:
        return Finding(Status.WARN, f"{python} did not answer within {ANSWER_S:g} s", f"see why it hangs: {python}")
    if answer.code != 0:
        return Finding(Status.FAIL, f"{python} does not work: {answer.said or answer.code}", INSTALL)
    wanted = asked_by(checkout, "project", "requires-python")
    if not SpecifierSet(wanted).contains(version, prereleases=True):
        return Finding(Status.FAIL, f"{version} at {python}, and the checkout asks for {wanted}", INSTALL)
    absent = absent_programs(checkout)
    return Finding(Status.FAIL if absent else Status.PASS, absent or f"{version} at {python}", INSTALL)


def _not_tried(target: Callable[[], Finding]) -> Finding | None:
    """What stands in for a look by prime-rl's own Python, where that was found wanting."""
    found = target()
    return None if found.status is Status.PASS else Finding(Status.SKIP, f"not tried: {found.seen}")


def _programs(about: About, checkout: Callable[[], Path | None], is_installed: Callable[[], bool]) -> list[Question]:
    """Programs on PATH: two to install, one to look at logs, two to copy to another machine."""

    def lacking() -> Status:
        return Status.SKIP if is_installed() else Status.FAIL

    return [
        Question("uv", "uv", f"{OLDEST_UV} or later, to install", lambda: look_at_uv(checkout(), lacking=lacking())),
        Question("git", "git", "here to install", lambda: GIT.look(lacking=lacking())),
        Question("tmux", "tmux", "only to look at logs in a window", partial(TMUX.look, lacking=Status.SKIP)),
        *(_to_copy(tool, about) for tool in (RSYNC, SSH)),
    ]


def _to_copy(tool: Tool, about: About) -> Question:
    """A program that only a copy to another machine needs; looked at when the caller named it."""
    unasked = Finding(Status.SKIP, "not looked at: only `rlguide sync` needs it")
    return Question(tool.name, tool.name, "only to copy to another machine",
                    tool.look if tool.name in about.named else lambda: unasked)  # fmt: skip
