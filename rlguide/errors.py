"""Every error that rlguide raises on purpose.

An error has four parts: what happened, the value seen, where to look and what to do next (the `hint:` line).
Each class also inherits the standard class that a caller would expect to catch.
"""

from pathlib import Path

from rlguide.redact import redacted


class RlguideError(Exception):
    """Base of all errors below.

    `message` says what happened and the value seen, `look` is a file or folder that tells more,
    `hint` is one thing to do next. None of them holds a secret of the environment.
    """

    def __init__(self, message: str, *, look: str | Path | None = None, hint: str | None = None):
        self.message = redacted(message)
        super().__init__(self.message)
        self.look = look
        self.hint = hint and redacted(hint)

    def __str__(self) -> str:
        lines = [self.message]
        if self.look is not None:
            lines.append(f"look: {self.look}")
        if self.hint is not None:
            lines.append(f"hint: {self.hint}")
        return "\n".join(lines)

    def _render_traceback_(self) -> list[str]:
        """What IPython shows of it: no traceback, for where our own code stood helps no reader. The cell fails."""
        return f"{type(self).__name__}: {self}".splitlines()


def interrupted(sentence: str) -> KeyboardInterrupt:
    """An interrupt of which IPython shows this sentence and no traceback."""
    error = KeyboardInterrupt(sentence)
    error._render_traceback_ = lambda: [f"KeyboardInterrupt: {sentence}"]
    return error


class ConfigError(RlguideError, ValueError):
    """A configuration, or a parameter, that cannot be used."""


class TextError(RlguideError, ValueError):
    """A text that the policy's tokenizer cannot spell."""


class EngineMissing(RlguideError, ImportError):
    """The engine that was asked for is not installed, or does not run on this machine."""


class RunNotFound(RlguideError, FileNotFoundError):
    """A directory that holds no run."""


class RunDamaged(RlguideError, ValueError):
    """A run directory whose record cannot be read."""


class RunOccupied(RlguideError, FileExistsError):
    """A run directory that holds another run, or one in a state that does not allow what was asked."""


class LaunchError(RlguideError, RuntimeError):
    """A run that could not be started."""


class Busy(RlguideError, RuntimeError):
    """Something that only one process may use at a time is in use."""


class ServerError(RlguideError, RuntimeError):
    """An inference server that did not start, or does not serve the policy that was asked for."""


class EvaluationError(RlguideError, RuntimeError):
    """An evaluation without a usable result."""


class WaitTimeout(RlguideError, TimeoutError):
    """A wait that reached its limit; what was waited for goes on."""


class NotebookFailed(RlguideError, RuntimeError):
    """A notebook that was executed headlessly and did not get to its end."""
