"""Outputs that are drawn anew in place: a run while it trains, and the progress of other long work.

A view is told the state of things and shows it; it never looks by itself and never waits.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from IPython.display import DisplayHandle

from rlguide.history import History
from rlguide.records import Rollout, RunRecord
from rlguide.view.elements import View, join, notes, tag
from rlguide.view.html import all_metrics_html, card, logs_html, metrics_html
from rlguide.view.plots import RewardPlot, floors
from rlguide.view.text import run_text

REDRAW_S = 2.0
"""A redraw takes about 0.1 s of a core that also trains."""
FOLDED_S = 30.0
"""A redraw folds what the reader opened, so what is folded is redrawn rarely, and with every change of state."""
OUTPUTS = 3
"""How many outputs of one run are kept up to date; a cell that is run again replaces its output."""


class LiveRun:
    """The outputs that show one run. Several cells and threads may share one: every redraw goes to all of them."""

    def __init__(
        self,
        look: Callable[[], tuple[RunRecord, History]],
        *,
        logs: Callable[[], Mapping[str, Sequence[str]]],
        first_rollouts: Callable[[History], Sequence[Rollout]],
        stage: Callable[[], str | None] = lambda: None,
    ):
        self._stage = stage
        self._look, self._logs, self._first_rollouts = look, logs, first_rollouts
        self._plot = RewardPlot()
        self._handles: deque[tuple[DisplayHandle, DisplayHandle]] = deque(maxlen=OUTPUTS)
        self._lock = threading.Lock()
        self._seen: tuple[RunRecord, int] | None = None
        self._state: object = None
        self._drawn_at = self._folded_at = float("-inf")

    def show(self) -> None:
        """Add an output here; later updates redraw it too."""
        with self._lock:  # looks inside: a last redraw by another thread must not fall between the look and the output
            handles = DisplayHandle(), DisplayHandle()
            record, history = self._look()
            for handle, view in zip(handles, (self._main(record, history), self._more(history)), strict=True):
                handle.display(view)
            self._handles.append(handles)

    def update(self, record: RunRecord, history: History) -> None:
        """Redraw all outputs, unless nothing has changed or the last redraw was a moment ago; the end is drawn."""
        with self._lock:
            now, seen = time.monotonic(), (record, len(history))
            if seen == self._seen or (now < self._drawn_at + REDRAW_S and not record.state.is_over):
                return
            self._seen, self._drawn_at = seen, now
            self._redraw(0, self._main(record, history))
            if record.state is not self._state or now >= self._folded_at + FOLDED_S:
                self._state, self._folded_at = record.state, now
                self._redraw(1, self._more(history))

    def say(self, problem: str) -> None:
        """Show what ended the updates, instead of what is folded."""
        with self._lock:
            self._redraw(1, View(notes([problem]), problem))

    def _redraw(self, part: int, view: View) -> None:
        for handles in self._handles:
            handles[part].update(view)

    def _main(self, record: RunRecord, history: History) -> View:
        steps = history.steps
        curve = self._plot.html(record, steps, floors=floors(self._first_rollouts(history)))
        stage = None if record.state.is_over else self._stage()
        return View(join(card(record, steps), notes([stage]), curve, metrics_html(steps)), run_text(record, steps))

    def _more(self, history: History) -> View:
        logs = self._logs()
        return View(join(all_metrics_html(history.steps), logs_html(logs)), f"logs: {', '.join(logs)}")


class LiveProgress:
    """One line that says how far a piece of work is."""

    def __init__(self) -> None:
        self._handle: DisplayHandle | None = None
        self._drawn_at, self._what = float("-inf"), ""

    def __call__(self, what: str, done: int, total: int) -> None:
        """Show it, of the same work at most twice a second; the end always."""
        now = time.monotonic()
        if now < self._drawn_at + 0.5 and done < total and what == self._what:
            return
        told = f"{what}: {done} of {total}"
        view = View(tag("p", tag("progress", value=done, max=total, aria_label=what), f" {told}"), told)
        self._drawn_at, self._what = now, what
        if self._handle is None:
            self._handle = DisplayHandle()
            self._handle.display(view)
        else:
            self._handle.update(view)
