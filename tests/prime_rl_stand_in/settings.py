"""How the stand-ins read their configuration: files after `@`, flags, and refusals as prime-rl prints them."""

import json
import sys
import textwrap
import tomllib
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any, NoReturn

from prime_rl_stand_in.keys import ANY, LEAST, Keys

WIDTH = 76
"""Characters of a line in a box."""
NAMES = {int: "integer", float: "number", bool: "boolean", str: "string", list: "list", dict: "dictionary"}
WITHOUT_EFFECT = ("seq-len", "orchestrator.train.sampling.")
"""Beginnings of flags that the guide's release accepts, and then goes on with what the file says."""

Settings = dict[str, Any]


class Refused(Exception):
    """A configuration that prime-rl refuses."""


def read(arguments: list[str], keys: Keys, name: str) -> Settings:
    """The settings of a command line, checked against `keys`. Exits as prime-rl does when it refuses them."""
    if "--help" in arguments or "-h" in arguments:
        print(f"usage: {name} [-h] [@ FILE ...] [OPTIONS]")
        sys.exit(0)
    try:
        return _read(list(arguments), keys, name)
    except Refused as error:
        refuse(error)


def refuse(error: Refused) -> NoReturn:
    """Print it in a box and exit with 1."""
    print(_box("Config file error", str(error)), file=sys.stderr)
    sys.exit(1)


def _read(arguments: list[str], keys: Keys, name: str) -> Settings:
    settings: Settings = {}
    unknown, flags = [], []
    while arguments:
        argument = arguments.pop(0)
        if argument == "@":
            if not arguments:
                raise Refused("@ must be followed by a config file path")
            settings = merged(settings, _load(arguments.pop(0)))
        elif argument.startswith("--"):
            flag = _flag(argument, arguments, keys)
            (unknown if flag is None else flags).append(argument if flag is None else flag)
        else:
            unknown.append(argument)
    if unknown:
        print(_box("Unrecognized options", f"Unrecognized options: {', '.join(unknown)}"), file=sys.stderr)
        sys.exit(2)
    for path, value in flags:
        settings = merged(settings, nested(path, value))
    settings = without_none(settings)
    if problems := [problem for found in problems_in(settings, keys) for problem in found]:
        count = f"{len(problems) // 2} validation error{'s' if len(problems) > 2 else ''} for {name}"
        raise Refused("\n".join(["Failed to validate config from 'merged config':", "─" * WIDTH, count, *problems]))
    return settings


def _load(path: str) -> Settings:
    try:
        if not path.endswith((".toml", ".json")):
            raise Refused(f"Unsupported file type: {path}. Supported: .json, .yaml, .yml, .toml")
        text = Path(path).read_text(encoding="utf-8")
        return json.loads(text) if path.endswith(".json") else tomllib.loads(text)
    except FileNotFoundError:
        raise Refused(f"Config file not found: {path}") from None
    except ValueError as error:
        raise Refused(f"Invalid {'JSON' if path.endswith('.json') else 'TOML'} in {path}: {error}") from None


def _flag(argument: str, rest: list[str], keys: Keys) -> tuple[str, Any] | None:
    """Path and value of a flag, whose value is taken from `rest`; `None` for one that there is not."""
    name, _, given = argument.removeprefix("--").partition("=")
    path = name.replace("-", "_")
    kind, switch = _kind(path, keys), True
    if kind is None and name.startswith("no-"):
        path, switch = path.removeprefix("no_"), False
        kind = _kind(path, keys) if _kind(path, keys) is bool else None
    if kind is None:
        return None
    if kind is bool:
        return path, switch
    if isinstance(kind, dict) or kind is dict:
        return path, {}
    if not given and (not rest or rest[0].startswith("--")):
        print(_box("Missing value", f"Missing value for {argument}"), file=sys.stderr)
        sys.exit(2)
    text = given or rest.pop(0)
    ignored = any(name.startswith(start) for start in WITHOUT_EFFECT)
    return ("experimental", {}) if ignored else (path, _value(text, kind))


def _kind(path: str, keys: Any) -> Any:
    for part in path.split("."):
        if not isinstance(keys, dict) or part not in keys:
            return None
        keys = keys[part]
    return keys


def _value(text: str, kind: Any) -> Any:
    try:
        return kind(text) if kind in (int, float) else json.loads(text) if kind is list else text
    except ValueError:
        return text


def nested(path: str, value: Any) -> Settings:
    for part in reversed(path.split(".")):
        value = {part: value}
    return value


def merged(base: Settings, more: Settings) -> Settings:
    """Tables are merged, all else is replaced."""
    result = dict(base)
    for key, value in more.items():
        both = isinstance(value, dict) and isinstance(result.get(key), dict)
        result[key] = merged(result[key], value) if both else deepcopy(value)
    return result


def without_none(value: Any) -> Any:
    """TOML has no null: the word None stands for a block or value that is not there."""
    if isinstance(value, dict):
        return {key: without_none(part) for key, part in value.items() if part != "None"}
    return value


def problems_in(settings: Any, keys: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Pairs of path and message, one for each value that the keys do not allow."""
    if isinstance(keys, dict) and isinstance(settings, dict):
        for key, value in settings.items():
            inside = f"{path}.{key}".strip(".")
            if key in keys:
                yield from problems_in(value, keys[key], inside)
            elif "*" not in keys:
                yield inside, f"  Extra inputs are not permitted [type=extra_forbidden, {_shown(value)}]"
    elif isinstance(keys, list) and isinstance(settings, list):
        for number, value in enumerate(settings):
            yield from problems_in(value, keys[0], f"{path}.{number}")
    elif isinstance(keys, tuple):
        if settings not in keys:
            words = ", ".join(map(repr, keys))
            yield path, f"  Input should be {words} [type=literal_error, {_shown(settings)}]"
    elif keys is not ANY and not _fits(settings, keys):
        wanted = NAMES[type(keys) if isinstance(keys, dict | list) else keys]
        yield path, f"  Input should be a valid {wanted} [type={wanted}_type, {_shown(settings)}]"
    elif path in LEAST and settings < LEAST[path]:
        least = LEAST[path]
        yield path, f"  Input should be greater than or equal to {least} [type=greater_than_equal, {_shown(settings)}]"


def _fits(value: Any, kind: Any) -> bool:
    if isinstance(kind, dict | list):
        return isinstance(value, type(kind))
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return (number and (kind is float or value == int(value))) if kind in (int, float) else isinstance(value, kind)


def _shown(value: Any) -> str:
    return f"input_value={repr(value)[:50]}, input_type={type(value).__name__}"


def _box(title: str, text: str) -> str:
    lines = [part for line in text.split("\n") for part in textwrap.wrap(line, WIDTH) or [""]]
    top = f"╭─ {title} " + "─" * (WIDTH - len(title) - 1) + "╮"
    return "\n".join([top, *(f"│ {line:<{WIDTH}} │" for line in lines), f"╰{'─' * (WIDTH + 2)}╯"])


def to_toml(settings: Settings, path: str = "") -> str:
    """A table and the tables in it, as a text that `tomllib` reads."""
    tables = {key: value for key, value in settings.items() if isinstance(value, dict)}
    lists = {key: value for key, value in settings.items() if _is_tables(value)}
    plain = {key: value for key, value in settings.items() if key not in tables and key not in lists}
    text = "".join(f"{_key(key)} = {_inline(value)}\n" for key, value in plain.items())
    for key, table in tables.items():
        text += f"\n[{path}{_key(key)}]\n" + to_toml(table, f"{path}{_key(key)}.")
    for key, rows in lists.items():
        text += "".join(f"\n[[{path}{_key(key)}]]\n" + to_toml(row, f"{path}{_key(key)}.") for row in rows)
    return text


def _is_tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict) for row in value)


def _key(key: str) -> str:
    return key if key.replace("_", "").replace("-", "").isalnum() else json.dumps(key)


def _inline(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_inline, value))}]"
    return json.dumps(value, ensure_ascii=False)
