"""How values are written for readers: numbers, durations, times, and tables in which numbers stand to the right."""

import json
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

BARS = "▁▂▃▄▅▆▇█"
ABSENT = "–"
"""Stands for what was not measured; never 0."""
NOT_THERE = "not there yet"
"""Stands for the size of what is not there yet."""
_NUMBER = r"[-+±(]*\d[\d.,]*(e[-+]?\d+)?%?\)?"
_BETWEEN = r"s|min|h|kB|MB|GB|GiB|of|in|to|files?|/|→|±|×|·|" + ABSENT
QUANTITY = re.compile(rf"({_NUMBER}|{ABSENT})( ({_NUMBER}|{_BETWEEN}))*|{NOT_THERE}")
"""What stands to the right in a table: numbers, with their units and whatever joins them."""


def is_quantity(cell: str) -> bool:
    """True for a number, with its unit or with others beside it, and for the signs that stand in its place."""
    return QUANTITY.fullmatch(cell) is not None


def written(value: object) -> str:
    """A value as a cell shows it; lists and tables as a configuration file has them."""
    if isinstance(value, float):
        return f"{value:g}"
    return ABSENT if value is None else as_toml(value) if isinstance(value, list | dict) else str(value)


def as_toml(value: object) -> str:
    """A value as TOML has it on one line; what is not set is left out."""
    if isinstance(value, dict):
        rows = [(key, as_toml(item)) for key, item in value.items() if item is not None]
        return f"{{{', '.join(f'{key} = {item}' for key, item in rows if item != '{}')}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(as_toml, value))}]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str | bool) else str(value)


def table(rows: Iterable[Sequence[object]], *, head: Sequence[str] = ()) -> str:
    """Rows in aligned columns: a column of numbers to the right with its heading, words to the left."""
    cells = [list(map(written, row)) for row in rows]
    lines = [list(head), *cells] if head else cells
    if not lines:
        return ""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    numeric = [bool(cells) and all(is_quantity(row[i]) for row in cells) for i in range(len(widths))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if number else cell.ljust(width)
            for cell, width, number in zip(line, widths, numeric, strict=True)
        ).rstrip()
        for line in lines
    )


def gpu_names(indices: Sequence[int | str]) -> str:
    """GPUs by their numbers: `GPU 0`, `GPUs 0 and 1`, `none`."""
    if not indices:
        return "none"
    *others, last = map(str, indices)
    return f"GPUs {', '.join(others)} and {last}" if others else f"GPU {last}"


def component_name(name: str) -> str:
    """What readers call a component of a run."""
    return {"inference": "inference server"}.get(name, name)


def duration(seconds: float | None) -> str:
    """Seconds for a reader: `48 s`, `2 min 05 s`, `1 h 10 min`."""
    if seconds is None:
        return ABSENT
    whole = round(seconds)
    if whole < 100:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def number(value: float | None, digits: int = 3) -> str:
    """A measured number, or the sign for "not measured"."""
    return ABSENT if value is None else f"{value:.{digits}f}"


def moment(iso: str | None) -> str:
    """A time in ISO 8601 for a reader, to the minute and with its zone: `2030-01-01 11:59 UTC+02:00`."""
    time = _time(iso)
    return f"{time:%Y-%m-%d %H:%M} {time.tzname()}" if time else iso or ABSENT


def moments(times: Sequence[str | None]) -> tuple[str, list[str]]:
    """Several times in the zone of the first one: the zone's name, and each time without it."""
    zone = next((time.tzinfo for time in map(_time, times) if time), UTC)
    name, read = zone.tzname(None), [(iso, _time(iso)) for iso in times]
    shown = [moment(time.astimezone(zone).isoformat()) if time else iso or ABSENT for iso, time in read]
    return name, [time.removesuffix(f" {name}") for time in shown]


def _time(iso: str | None) -> datetime | None:
    """`None` for what is no time with a zone, and for one so far off that other zones cannot say it."""
    try:
        time = datetime.fromisoformat(iso or "")
        time.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return time if time.tzinfo else None


def sparkline(values: Sequence[float | None]) -> str:
    """One character a value, from 0 (lowest bar) to 1 (highest); a value that was not measured is a gap."""
    return "".join(" " if v is None else BARS[min(7, max(0, int(v * 8)))] for v in values)
