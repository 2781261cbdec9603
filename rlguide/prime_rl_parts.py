"""What prime-rl's installation is made of: source, packages, environment, verification and policy.

uv runs with the lock file of the release and without resolving anything, and never removes a package.
"""

import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, NoReturn

from rlguide.asking import Finding
from rlguide.checkout import HOME, REVISION, extras_of, reason_against, require_supported, venv_bin, venv_python
from rlguide.checks.hub import cached, is_on_hub
from rlguide.checks.tools import look_at_uv
from rlguide.child import answer_of, running
from rlguide.config import PRESETS
from rlguide.engines.policy import find_policy
from rlguide.errors import ConfigError, EngineMissing
from rlguide.files import refusals_told
from rlguide.paths import absolute, outputs_root
from rlguide.readiness import ENVIRONMENT, PARTS, problem_of, try_imports
from rlguide.records import Status
from rlguide.redact import redacted
from rlguide.tail import LineReader, last_lines, with_end
from rlguide.troubles import explained
from rlguide.wheel import checked_files, place_files, read_wheel

GUIDE_POLICY = PRESETS["guide"]["model.name"]
PACKAGES = "more than 4 GB, which takes several minutes"
"""For x86_64 the lock file names sizes of 4.0 GB in all, and none for torch, vLLM and flash-attn."""
POLL_S = 0.2
QUIET_S = 2.0
"""Seconds without a new line after which a progress bar is shown as it stands."""
SHORT_S = 120.0
LOG_LINES = 200

Say = Callable[[str], object]
"""Called with each line for the reader."""


class Home(NamedTuple):
    """Where the parts come from: prime-rl's own home at the guide's release, and what its lock file names."""

    url: str = HOME
    revision: str = REVISION
    wheel: str = (
        "https://hub.primeintellect.ai/primeintellect/reverse-text/@e3cd3fe4/reverse_text-0.1.5-py2.py3-none-any.whl"
    )
    sha256: str | None = "f48c5a203603551219df30f734ff5f74b825ea2a29fec05c7a6b2cd4bb657a34"
    platform: str = "linux"
    """The only one, as in `sys.platform`, for which there are packages."""


GUIDE = Home()


class Work(NamedTuple):
    """What one part takes."""

    title: str
    why: str
    commands: tuple[tuple[str, ...], ...]
    there: Callable[[], str | None]
    """What is there already; `None` when it is to be done. Raises `EngineMissing` when something else is."""
    act: Callable[[], object]
    require: Callable[[], object] = lambda: None
    """Looks whether `act` can be done here, and changes nothing. Raises `EngineMissing`."""
    download: str = ""
    """How much; empty for nothing."""
    is_long: bool = False
    """True for what nobody should begin by accident."""

    @property
    def command(self) -> str:
        """As a shell takes it."""
        return " &&\n  ".join(map(shlex.join, self.commands))


class Parts:
    """One installation of prime-rl, in one checkout."""

    def __init__(self, checkout: Path, *, policy: str, wheel: str | None, say: Say, home: Home):
        self.checkout, self.say, self.home = checkout, say, home
        self.policy = find_policy(policy)
        self.wheel, self.sha256 = (_address(wheel), None) if wheel else (home.wheel, home.sha256)
        self._imports: dict[str, Finding] | None = None

    @property
    def imports(self) -> dict[str, Finding]:
        """How the imports go; looked at anew after every command."""
        if self._imports is None:
            self._imports = try_imports(self.checkout)
        return self._imports

    def work(self) -> Iterator[Work]:
        """The parts, in their order; each is made when the one before is done."""
        parts = (self._source, self._packages, self._environment, self._verification, self._policy)
        return (part() for part in parts)

    # ---------------------------------------------------------------------------------------------------- source

    def _source(self) -> Work:
        part = self.checkout.with_name(f".{self.checkout.name}.part")
        git = ("git", "-C", str(part))
        commands = (
            ("git", "init", "--quiet", str(part)),
            (*git, "fetch", "--progress", "--depth", "1", self.home.url, self.home.revision),
            (*git, "checkout", "--quiet", "--detach", self.home.revision),
            ("mv", str(part), str(self.checkout)),
        )

        def there() -> str | None:
            problem = reason_against(self.checkout)
            if problem is None:
                return str(require_supported(self.checkout, pinned=self.home.revision))
            if self.checkout.exists() and not (self.checkout.is_dir() and not any(self.checkout.iterdir())):
                told = f"{self.checkout} is no checkout of prime-rl ({problem}), and not empty"
                raise EngineMissing(told, look=self.checkout, hint="name another folder with --checkout")
            return None

        def require() -> None:
            if shutil.which("git") is None:
                raise EngineMissing("git is not installed, or not on PATH", hint=f"install git, or copy {HOME} there")

        def act() -> None:
            shutil.rmtree(part, ignore_errors=True)  # of an attempt that did not get to its end
            if self.checkout.exists():
                self.checkout.rmdir()
            self._run("source", *commands, env={"GIT_TERMINAL_PROMPT": "0"})

        why = f"the guide's release, from {self.home.url}"
        return Work("source", why, commands, there, act, require, "2 MB")

    # -------------------------------------------------------------------------------------------------- packages

    def _packages(self) -> Work:
        uv = ("env", "UV_PROJECT_ENVIRONMENT=.venv", "uv", "--directory", str(self.checkout))
        commands = ((*uv, "sync", "--frozen", "--inexact", "--extra", "flash-attn"),)

        def there() -> str | None:
            return None if problem_of(self._found(*PARTS)) else f"{', '.join(PARTS)} can be imported"

        def act() -> None:
            self._run("packages", *commands)
            if problem := problem_of(self._found(*PARTS)):
                hint = "flash-attn has a ready-made wheel for Linux on x86_64 only" if "flash" in problem else None
                raise EngineMissing(f"uv ended well, and yet: {problem}", look=self._log("packages"), hint=hint)

        why = f"exactly those of its lock file, into {self.checkout / '.venv'} and nowhere else"
        return Work("packages", why, commands, there, act, self._require_uv, PACKAGES, is_long=True)

    def _require_uv(self) -> None:
        if sys.platform != self.home.platform:
            told = f"prime-rl's packages are made for {self.home.platform} only, and this is {sys.platform}"
            raise EngineMissing(told, hint="install it on the machine with the GPUs, by the same command")
        found = look_at_uv(self.checkout if self.checkout.exists() else None)
        if found.status is Status.FAIL:
            raise EngineMissing(f"uv: {found.seen}", hint=f"{found.fix}; then install again")
        if found.status is Status.WARN:
            self.say(f"uv: {found.seen}; trying it all the same")

    # ----------------------------------------------------------------------------------------------- environment

    def _environment(self) -> Work:
        named = f"{self.wheel}#sha256={self.sha256}" if self.sha256 else self.wheel
        python = venv_python(self.checkout)
        commands = (("uv", "pip", "install", "--python", str(python), "--no-deps", "--reinstall", named),)

        def there() -> str | None:
            found = self._found(ENVIRONMENT)
            return None if problem_of(found) else found[ENVIRONMENT].seen

        def require(*, from_afar: bool = False) -> None:
            if not self.sha256 and ("://" in self.wheel) == from_afar:
                checked_files(read_wheel(self.wheel), ENVIRONMENT)  # uv itself believes what a wheel says of itself

        def act() -> None:
            require(from_afar=True)
            try:
                self._run("environment", *commands)
            except EngineMissing as error:
                self.say(error.message.splitlines()[0])
                self.say(f"unpacking the wheel instead, as the guide does: {self.wheel}")
                self._unpack(python)
            if problem := problem_of(self._found(ENVIRONMENT)):
                raise EngineMissing(f"the wheel is installed, and yet: {problem}", look=python.parent.parent)

        why = "the texts and the reward; the wheel alone, because the packages bring all that it needs"
        return Work("environment", why, commands, there, act, require, "some kB")

    def _unpack(self, python: Path) -> None:
        files = checked_files(read_wheel(self.wheel, sha256=self.sha256), ENVIRONMENT)
        where = [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
        hint = "make room, or let it be written, then install again"
        with refusals_told("unpack the wheel", self.checkout / ".venv", EngineMissing, hint=hint):
            place_files(files, ENVIRONMENT, Path(answer_of(where, limit_s=SHORT_S).out.strip()))
        self._imports = None

    # -------------------------------------------------------------------------------------- verification, policy

    def _verification(self) -> Work:
        rl = (str(venv_bin(self.checkout) / "rl"), "--help")
        hint = f"move {self.checkout / '.venv'} away, then install again"

        def there() -> str | None:
            if problem_of(self.imports):  # which the parts before repair
                return None
            with refusals_told("start prime-rl", self.checkout, EngineMissing, hint=hint):
                answer = answer_of(rl, limit_s=SHORT_S)
            if answer.code != 0:
                cannot(f"{shlex.join(rl)} ended with {answer.code}: {answer.said}")
            return f"all {len(self.imports)} imports, and rl answers"

        def cannot(problem: str | None) -> NoReturn:
            raise EngineMissing(f"prime-rl cannot start: {problem}", look=self.checkout, hint=hint)

        why = "by the Python that will train"
        return Work("verification", why, (rl,), there, lambda: cannot(problem_of(self.imports)))

    def _policy(self) -> Work:
        commands = ((str(venv_bin(self.checkout) / "hf"), "download", self.policy),)

        def there() -> str | None:
            if not is_on_hub(self.policy):
                return f"no download: {self.policy}"
            found = cached(self.policy)
            return found.told if found.is_whole else None

        def act() -> None:
            self._run("policy", *commands)
            if there() is None:
                told = f"{self.policy} is {cached(self.policy).told}, after its download"
                raise EngineMissing(told, look=self._log("policy"), hint="try again: it goes on where it stopped")

        why = "the warm start, from the Hub, so that no run has to wait for it"
        size = "1.2 GB" if self.policy == GUIDE_POLICY else "an unknown size"
        return Work("policy", why, commands, there, act, download=size, is_long=True)

    # ------------------------------------------------------------------------------------------------ underneath

    def _found(self, *modules: str) -> dict[str, Finding]:
        return {module: self.imports[module] for module in modules}

    def _log(self, name: str) -> Path:
        return outputs_root() / "installation" / f"{name}.log"

    def _run(self, name: str, *commands: tuple[str, ...], env: dict[str, str] | None = None) -> None:
        """Run the commands one after the other, their output shown and kept. Raises `EngineMissing`."""
        log, self._imports = self._log(name), None
        for argv in commands:
            with refusals_told(f"run {argv[0]}", log, EngineMissing, hint="look at what is said"):
                code = self._followed(argv, log, env or {})
            if code:
                trouble = explained("\n".join(last_lines(log, LOG_LINES)), extras_of(self.checkout))
                told = f"{shlex.join(argv)} ended with {code}: {trouble.told}"
                raise EngineMissing(with_end(told, log), look=log, hint=trouble.hint)

    def _followed(self, argv: tuple[str, ...], log: Path, env: dict[str, str]) -> int:
        """Run a program, say its lines as they come, and what a progress bar shows; returns the exit code."""
        with running(argv, log, env=env) as child:
            reader, shown, spoke = LineReader(log), "", time.monotonic()
            while True:
                with suppress(subprocess.TimeoutExpired):
                    child.wait(POLL_S)
                lines = [redacted(line) for line in reader.read()]
                if not lines and time.monotonic() - spoke > QUIET_S:
                    lines = [line for line in last_lines(log, 1) if line != shown]
                for shown in lines:
                    self.say(shown)
                    spoke = time.monotonic()
                if child.returncode is not None:
                    return child.returncode


def _address(wheel: str) -> str:
    """A wheel's address, or its absolute path. Raises `ConfigError` for an address that holds a password."""
    if "://" not in wheel:
        return str(absolute(Path(wheel)))
    if "@" in wheel.split("/")[2]:
        hint = "download it yourself, and give the file"
        raise ConfigError("the address of the wheel holds a password, which others could see", hint=hint)
    return wheel
