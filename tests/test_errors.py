"""Errors have four parts and can be caught by the standard class that a caller expects."""

import inspect
from pathlib import Path

import pytest

from rlguide import errors
from rlguide.errors import ConfigError, RlguideError

CLASSES = [
    found for _, found in inspect.getmembers(errors, inspect.isclass) if issubclass(found, RlguideError)
]  # fmt: skip


def test_an_error_says_what_happened_where_to_look_and_what_to_do():
    error = ConfigError("lr = 7: too large", look=Path("rl.toml"), hint="use 3e-4")

    assert str(error) == "lr = 7: too large\nlook: rl.toml\nhint: use 3e-4"


def test_parts_that_are_not_given_leave_no_line():
    assert str(ConfigError("lr = 7: too large")) == "lr = 7: too large"


@pytest.mark.parametrize("kind", [kind for kind in CLASSES if kind is not RlguideError])
def test_every_error_is_also_a_standard_one(kind: type[RlguideError]):
    standard = [base for base in kind.__mro__ if base.__module__ == "builtins"]

    assert set(standard) - {Exception, BaseException, object}
    assert kind.__doc__
