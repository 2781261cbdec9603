"""Progress of long work in a terminal, on standard error: a live bar for people, plain lines for logs.

For the command line, and for what it executes without a browser.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial

from rlguide.history import History
from rlguide.records import RunRecord
from rlguide.view.text import left_text
from rlguide.view.written import duration, number

Advance = Callable[[str, int, int], None]
"""Called with what is going on, how much is done, and how much there is in all.

What goes on begins with the name of a piece of work; after a comma may follow what changes while it lasts, and last,
what is counted."""
MOMENT_S = 0.5
"""What is over sooner needs no word."""
SILENCE_S = 60.0
"""After so long without a line, a reader of a log wonders whether anything goes on."""


@contextmanager
def beside(tell: Callable[[threading.Event], object]) -> Iterator[None]:
    """Runs `tell` in a thread beside the block; the event that it gets is set when the block is over."""
    over = threading.Event()
    with ThreadPoolExecutor() as pool:
        pool.submit(tell, over)
        try:
            yield
        finally:
            over.set()


def waiting(told: str) -> AbstractContextManager[None]:
    """Shows one line on a terminal while the block takes longer than a moment, and erases it in the end."""
    return beside(partial(_tell_until, told)) if sys.stderr.isatty() else nullcontext()


def _tell_until(told: str, over: threading.Event) -> None:
    if not over.wait(MOMENT_S):
        print(told, end="", file=sys.stderr, flush=True)
        over.wait()
        print(f"\r{' ' * len(told)}\r", end="", file=sys.stderr, flush=True)


@contextmanager
def shown() -> Iterator[Advance]:
    """Shows what the yielded function is told, until the block ends: on a terminal a bar a piece of work."""
    if not sys.stderr.isatty():
        yield lines()
        return
    from rich.console import Console  # here, because most commands draw no bar
    from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
    from rich.table import Column

    what = TextColumn("{task.description}", table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis"))
    columns = (what, BarColumn(bar_width=10), TextColumn("{task.completed}/{task.total}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), expand=True) as bar:
        tasks: dict[str, TaskID] = {}

        def tell(what: str, done: int, total: int) -> None:
            work = _work(what)
            if work not in tasks:
                tasks[work] = bar.add_task(what, total=total)
            bar.update(tasks[work], description=what, completed=done, total=total)

        yield tell


def lines(silence_s: float = SILENCE_S) -> Advance:
    """For logs: a line when a piece of work begins and when it is done, and one after `silence_s` seconds without."""
    begun: dict[str, float] = {}
    done_with: set[str] = set()
    told_at = float("-inf")

    def tell(what: str, done: int, total: int) -> None:
        nonlocal told_at
        work, now = _work(what), time.monotonic()
        if work in done_with or (work in begun and done < total and now < told_at + silence_s):
            return
        line = f"{what}: {done} of {total}" if done or work in begun else f"{what}: begun"
        begun.setdefault(work, now)
        if done >= total:
            done_with.add(work)
            line = f"{what}: done, {duration(now - begun[work])}"
        told_at = now
        print(line, file=sys.stderr, flush=True)

    return tell


def _work(what: str) -> str:
    """The piece of work in what is told: all before the first comma."""
    return what.partition(",")[0]


def of_run(advance: Advance) -> Callable[[RunRecord, History], None]:
    """Tells `advance` about every change of a run; for `Run.wait`."""

    def update(record: RunRecord, history: History) -> None:
        reward = f", reward {number(history.last.reward)}" if history.last else ""
        counted = "" if record.state.is_over else ", steps"
        told = f"{record.name}, {record.state}{reward}{left_text(record, history.steps)}{counted}"
        advance(told, history.completed_updates, record.plan.max_steps)

    return update
