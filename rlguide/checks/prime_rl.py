"""What prime-rl needs: two GPUs, and a checkout with a virtual environment of its own, whose Python is asked."""

from functools import partial
from pathlib import Path

from rlguide.asking import Finding, Question
from rlguide.checkout import find_checkout, require_supported
from rlguide.checks import hardware
from rlguide.checks.common import About, Needs, of_the_machine, packages, questions
from rlguide.checks.disk import Room
from rlguide.checks.network import look_at_port
from rlguide.checks.tools import GIT, OLDEST_UV, RSYNC, SSH, TMUX, Tool, asked_by, look_at_uv
from rlguide.child import answer_of
from rlguide.errors import RlguideError
from rlguide.import_trial import ImportTrial
from rlguide.paths import absolute
from rlguide.records import Status

IMPORTS = (
    ("torch", "flash_attn"), ("verifiers", "reverse_text"), ("vllm", "prime_rl.entrypoints.rl"),
)  # fmt: skip
"""Packages to import, one child process a group."""
INSTALL = "rlguide install --engine prime-rl"
INSTALL_GIB = 10.0
ANSWER_S = 4.0


def needs(about: About, checkout: Path | None, python: Path) -> Needs:
    """What a run with the prime-rl in `checkout` needs, where `python` is its own."""
    config = about.config
    is_installed = python.exists()
    venv = Room("venv-disk", "the virtual environment of prime-rl", lambda: absolute(python.parent),
                0 if is_installed else INSTALL_GIB, why_none="nothing is written: it is installed")  # fmt: skip
    trials = [ImportTrial(modules, python=python, fix=INSTALL) for modules in IMPORTS]
    nothing = Finding(Status.SKIP, f"not tried: there is no {python}")
    own = [
        Question("checkout", "checkout of prime-rl", "the guide's release",
                 partial(look_at_checkout, config.prime_rl.checkout)),
        Question("venv", "Python of prime-rl", "as the checkout asks", partial(look_at_target, checkout, python)),
        *_programs(about, checkout, is_needed=not is_installed),
        of_the_machine("gpus", "GPUs", "two that are free, undivided", about,
                       partial(hardware.look_at_two_gpus, config=config)),
        of_the_machine("driver", "driver for the GPUs", "the CUDA that prime-rl's torch needs", about,
                       partial(hardware.look_at_driver, python=python, must=True, install=INSTALL) if is_installed
                       else lambda _: nothing),
        *packages(trials, lambda: None if is_installed else nothing),
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


def look_at_target(checkout: Path | None, python: Path) -> Finding:
    """Whether the Python in the virtual environment starts, and is what the checkout asks for."""
    from packaging.specifiers import SpecifierSet

    if checkout is None:
        return Finding(Status.SKIP, "it comes with the checkout")
    if not python.exists():
        return Finding(Status.FAIL, f"there is no {python}", INSTALL)
    try:
        answer = answer_of((python, "-P", "-c", "import platform as p; print(p.python_version())"), limit_s=ANSWER_S)
    except OSError as error:
        return Finding(Status.FAIL, f"{python} cannot be started: {error.strerror}", INSTALL)
    version = (answer.out.split() or [""])[-1]  # Python may print more when it starts
    if answer.code != 0:
        return Finding(Status.FAIL, f"{python} does not work: {answer.said or answer.code}", INSTALL)
    wanted = asked_by(checkout, "project", "requires-python")
    if SpecifierSet(wanted).contains(version, prereleases=True):
        return Finding(Status.PASS, f"{version} at {python}")
    return Finding(Status.FAIL, f"{version} at {python}, and the checkout asks for {wanted}", INSTALL)


def _programs(about: About, checkout: Path | None, *, is_needed: bool) -> list[Question]:
    """Programs on PATH: two to install, one to look at logs, two to copy to another machine."""
    lacking = Status.FAIL if is_needed else Status.SKIP
    wanted = "here to install" if is_needed else "not needed: prime-rl is installed"
    uv = partial(look_at_uv, checkout, lacking=lacking)
    return [
        Question("uv", "uv", f"{OLDEST_UV} or later, {wanted}", uv),
        Question("git", "git", wanted, partial(GIT.look, lacking=lacking)),
        Question("tmux", "tmux", "only to look at logs in a window", partial(TMUX.look, lacking=Status.SKIP)),
        *(_to_copy(tool, about) for tool in (RSYNC, SSH)),
    ]


def _to_copy(tool: Tool, about: About) -> Question:
    """A program that only a copy to another machine needs; looked at when the caller named it."""
    unasked = Finding(Status.SKIP, "not looked at: only `rlguide sync` needs it")
    return Question(tool.name, tool.name, "only to copy to another machine",
                    tool.look if tool.name in about.named else lambda: unasked)  # fmt: skip
