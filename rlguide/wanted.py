"""One line for a setting that cannot be used: the key, the value seen and what is wanted, in words of our own."""

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Any

from rlguide.view.written import as_toml

WANTED = {
    "int_type": "a whole number",
    "float_type": "a number",
    "string_type": "a text in quotes",
    "list_type": "a list, in brackets",
    "model_type": "a table of keys",
    "literal_error": "{expected}",
    "greater_than": "more than {gt}",
    "greater_than_equal": "{ge} or more",
    "less_than": "less than {lt}",
    "less_than_equal": "{le} or less",
    "string_too_short": "not empty",
    "too_short": "at least {min_length} entry",
    "too_long": "at most {max_length} entry",
    "string_pattern_mismatch": "letters, digits, . _ - only, the first a letter or a digit, at most 100",
}
"""Kind of a problem, by pydantic → what is wanted instead; every kind that `RunConfig` can have."""


def explained(problem: Mapping[str, Any], known_keys: Iterable[str]) -> str:
    """A problem that pydantic found; `known_keys` are those that an unknown one may have been meant to be."""
    key, kind, seen = ".".join(map(str, problem["loc"])), problem["type"], problem["input"]
    if kind == "extra_forbidden":
        return f"unknown key {key!r}{_meant(difflib.get_close_matches(key, list(known_keys), n=1))}"
    if kind == "value_error":  # our own words already
        return problem["msg"].removeprefix("Value error, ")
    wanted = WANTED.get(kind, problem["msg"]).format(**problem.get("ctx", {}))
    meant = _meant([as_name(seen)]) if kind == "string_pattern_mismatch" else ""
    return f"{key} = {as_toml(seen) if isinstance(seen, list | dict) else repr(seen)}; wanted: {wanted}{meant}"


def as_name(text: str) -> str:
    """The name of a run that is nearest to `text`; empty when it has no letter and no digit."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-._")[:100]


def _meant(names: list[str]) -> str:
    return f"; did you mean {names[0]!r}?" if names and names[0] else ""
