"""A pytest plugin: faults are told in a table at the end, with what was expected of each and what was seen.

A fault is a test with the marker `fault(name, expected)`. What it saw it adds to its properties under `SEEN`.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from io import StringIO

import pytest
from rich.console import Console
from rich.table import Table

NAME, EXPECTED, SEEN = "fault", "expected", "seen"
LEAST_WIDTH = 150


@dataclass(frozen=True)
class Outcome:
    """One row of the table. `survived` is `None` for a fault that could not be injected on this machine."""

    name: str
    expected: str
    seen: str
    survived: bool | None


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "fault(name, expected): what the test injects, and what must be found then")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Name and expectation go with every report, also with that of a test which is not let begin."""
    if marker := item.get_closest_marker("fault"):
        item.user_properties += zip((NAME, EXPECTED), map(str, marker.args), strict=True)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports: dict[str, list[pytest.TestReport]] = defaultdict(list)
    for report in (one for group in terminalreporter.stats.values() for one in group):
        if NAME in dict(getattr(report, "user_properties", ())):
            reports[report.nodeid].append(report)
    if reports:
        terminalreporter.write_line(table(map(outcome, reports.values()), terminalreporter._tw.fullwidth))


def outcome(reports: list[pytest.TestReport]) -> Outcome:
    """What became of one fault, from the reports of its test's beginning, body and end."""
    told = {name: value for report in reports for name, value in report.user_properties}
    left_out = next((report.longrepr[2] for report in reports if report.skipped), None)
    survived = None if left_out else all(report.passed for report in reports)
    return Outcome(told[NAME], told[EXPECTED], left_out or told.get(SEEN) or "nothing: it did not get so far", survived)


def table(outcomes: Iterable[Outcome], width: int) -> str:
    """The faults with what was expected and seen, and the count under them."""
    rows = list(outcomes)
    drawn = Table("fault", "expected", "seen", "", title="What a run survives", expand=True, show_lines=True)
    for row in rows:
        word = {True: "survived", False: "LOST", None: "not injected"}[row.survived]
        drawn.add_row(row.name, row.expected, row.seen, word)
    console = Console(file=StringIO(), width=max(width, LEAST_WIDTH), markup=False, highlight=False)
    console.print(drawn)
    injected = [row for row in rows if row.survived is not None]
    console.print(f"survived {sum(bool(row.survived) for row in injected)} of {len(injected)} injected")
    return console.file.getvalue()
