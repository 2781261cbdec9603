"""Checks of accounts: whose key a run would report with."""

from rlguide.accounts import ANY, expected_account
from rlguide.asking import Finding
from rlguide.config import Wandb
from rlguide.errors import ConfigError
from rlguide.records import Status

ANSWER_S = 7.0
"""W&B answers within 3 s; later than this, the reason does not matter any more."""


def look_at_wandb(wandb: Wandb) -> Finding:
    """Whose W&B account a run would report to."""
    if wandb.mode != "online":
        return Finding(Status.PASS, f"none is needed: the mode is {wandb.mode}")
    try:
        return Finding(Status.PASS, expected_account(wandb.expected_user or ANY, limit_s=ANSWER_S).told)
    except ConfigError as error:
        return Finding(Status.FAIL, error.message, error.hint)
