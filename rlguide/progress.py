"""Progress of long work in a terminal, on standard error: a live bar for people, plain lines for logs.

For the command line only.
"""

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from rlguide.history import History
from rlguide.records import RunRecord
from rlguide.view.written import number

Advance = Callable[[str, int, int], None]
"""Called with what is going on, how much is done, and how much there is in all."""
MOMENT_S = 0.5
"""What is over sooner needs no word."""


@contextmanager
def waiting(told: str) -> Iterator[None]:
    """Shows one line on a terminal while the block takes longer than a moment, and erases it in the end."""
    over = threading.Event()
    with ThreadPoolExecutor() as pool:
        if sys.stderr.isatty():
            pool.submit(_tell_until, over, told)
        try:
            yield
        finally:
            over.set()


def _tell_until(over: threading.Event, told: str) -> None:
    if not over.wait(MOMENT_S):
        print(told, end="", file=sys.stderr, flush=True)
        over.wait()
        print(f"\r{' ' * len(told)}\r", end="", file=sys.stderr, flush=True)


@contextmanager
def shown() -> Iterator[Advance]:
    """Shows what the yielded function is told, until the block ends."""
    if not sys.stderr.isatty():
        yield _lines()
        return
    from rich.console import Console  # here, because most commands draw no bar
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total}"))
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True)) as bar:
        task = bar.add_task("starting", total=None)
        yield lambda what, done, total: bar.update(task, description=what, completed=done, total=total)


def _lines() -> Advance:
    """One line for each tenth of the work."""
    told: set[str] = set()

    def tell(what: str, done: int, total: int) -> None:
        line = f"{what}: {done} of {total}"
        tenth = f"{what.split(',')[0]} {10 * done // max(1, total)}"
        if tenth not in told:
            told.add(tenth)
            print(line, file=sys.stderr, flush=True)

    return tell


def of_run(advance: Advance) -> Callable[[RunRecord, History], None]:
    """Tells `advance` about every change of a run; for `Run.wait`."""

    def update(record: RunRecord, history: History) -> None:
        reward = f", reward {number(history.last.reward)}" if history.last else ""
        advance(f"{record.name} {record.state}{reward}", history.completed_updates, record.plan.max_steps)

    return update
