"""Whose W&B account a run reports to: asked for before a launch, in a child process, so that nobody is mistaken.

wandb takes a key from wherever it finds one, on a shared machine often a colleague's.
"""

import json
import sys
import tempfile
from pathlib import Path

from rlguide.child import answer_of
from rlguide.errors import ConfigError
from rlguide.paths import PACKAGE, install_command
from rlguide.records import Plan, Record

PROGRAM = PACKAGE / "programs" / "wandb_account.py"
LIMIT_S = 20.0
"""Seconds for the whole question; it takes 2 when W&B answers, and 9 when nobody does."""
ANY = "*"
"""As the expected user: whoever's key it is."""
MARK = "W&B: "
"""How the note of a plan begins that names the account."""
OFFLINE = "set wandb.mode to offline (`wandb sync` sends the run later) or to off"
NEW_KEY = f"take a new key from your W&B settings page, or {OFFLINE}"
PROBLEMS = {
    "absent": ("the package wandb is not installed", f"{install_command('wandb')}, or {OFFLINE}"),
    "broken": ("the package wandb cannot be imported ({told})", f"install it anew, or {OFFLINE}"),
    "address": ("WANDB_BASE_URL is no address that wandb takes: {told}", f"correct or unset it, or {OFFLINE}"),
    "missing": (
        "there is no W&B key for {host}: neither in WANDB_API_KEY, nor in the netrc file, nor in W&B's settings",
        f"log in with `wandb login` in a terminal, or {OFFLINE}",
    ),
    "malformed": (
        "the W&B key from {source} holds a space or a line break",
        "set it again without, or unset it to use your saved login",
    ),
    "rejected": ("{host} does not accept the W&B key from {source} ({told})", NEW_KEY),
    "nobody": ("{host} knows no account for the W&B key from {source}", NEW_KEY),
    "page": (
        "{address} answers with something that is not W&B's, perhaps a login page of this network",
        f"open it in a browser, or correct WANDB_BASE_URL, or {OFFLINE}",
    ),
    "late": ("{host} does not answer in time, so that the account of the W&B key is not known", OFFLINE),
    "unreachable": ("W&B cannot be reached at {address}: {told}", f"check network and proxy, or {OFFLINE}"),
    "trouble": ("{host} cannot say whose W&B key it is ({told})", f"try again later, or {OFFLINE}"),
    "refused": ("wandb refuses the key from {source}: {told}", f"set another key, or {OFFLINE}"),
}
"""Kind of failure → what is said, and what to do."""


class WandbAccount(Record):
    """A W&B account, as W&B itself names it."""

    user: str
    entity: str | None
    """Where a run lands: the account itself, or a team of it."""
    source: str
    """Where the key was found: a variable, a file, or W&B's settings; never the key."""
    host: str

    @property
    def told(self) -> str:
        """One sentence for the reader."""
        lands = f"{self.user}'s account" + (f", in {self.entity}" if self.entity not in {None, self.user} else "")
        return f"the run reports to {lands}, on {self.host}; the key is from {self.source}."


def wandb_account(*, limit_s: float = LIMIT_S) -> WandbAccount:
    """The account that W&B's own object would report to from here, and where its key was found.

    Asks within `limit_s` seconds and never prompts. Raises `ConfigError`, with its own words for each kind of failure.
    """
    with tempfile.TemporaryDirectory(prefix="rlguide-wandb-") as name:
        folder, answer = Path(name), Path(name, "answer.json")
        quiet = {"WANDB_MODE": "online", "WANDB_ERROR_REPORTING": "false", "WANDB_CACHE_DIR": name, "TMPDIR": name}
        done = answer_of((sys.executable, "-P", PROGRAM, answer), limit_s=limit_s, env=quiet, folder=folder)
        if done.code is None:
            raise _problem({"problem": "late", "host": "W&B"})
        if done.code != 0:
            said = " ".join(done.err.strip().splitlines()[-1:]) or f"exit code {done.code}"
            raise _problem({"problem": "trouble", "host": "W&B's own program", "told": said})
        found = json.loads(answer.read_text(encoding="utf-8"))
    if "problem" in found:
        raise _problem(found)
    return WandbAccount(**found)


def _problem(found: dict[str, str | None]) -> ConfigError:
    message, hint = PROBLEMS[str(found["problem"])]
    return ConfigError(message.format_map({"host": "W&B", "source": "its settings", "told": ""} | found), hint=hint)


def expected_account(user: str, *, limit_s: float = LIMIT_S) -> WandbAccount:
    """The account, when it is that of `user`, or `user` is `*`. Asks within `limit_s` seconds.

    Raises `ConfigError` for another account, and when it cannot be found out.
    """
    account = wandb_account(limit_s=limit_s)
    if user not in {ANY, account.user}:
        hint = f"set WANDB_API_KEY to a key of {user}, correct wandb.expected_user, or {OFFLINE}"
        raise ConfigError(f"the W&B key from {account.source} belongs to {account.user}", hint=hint)
    return account


def with_account(plan: Plan) -> Plan:
    """`plan`, with a note that says whose W&B account it reports to, if it reports to W&B.

    Raises `ConfigError` when that is another than expected, or cannot be found out.
    """
    if plan.wandb_user is None:
        return plan
    told = f"{MARK}{expected_account(plan.wandb_user).told}"
    notes = (*(note for note in plan.notes if not note.startswith(MARK)), told)  # an earlier attempt's is old
    return plan.model_copy(update={"notes": notes})


def account_note(plan: Plan) -> str | None:
    """The note about the account, `None` where there is none."""
    return next((note for note in plan.notes if note.startswith(MARK)), None)
