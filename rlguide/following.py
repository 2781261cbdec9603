"""What the engine of a run tells in its logs while it is followed: its steps, and that a component failed."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rlguide.history import StepMerger
from rlguide.parsing import ALARMS, DIALECTS, HOLDING
from rlguide.records import MetricSource, Plan, StepRecord
from rlguide.tail import LineReader

Logs = list[tuple[MetricSource, LineReader]]
Dialect = Callable[[str], Any]


class Follower:
    """Reads the logs of one attempt, each look from where the last one ended.

    `complain` is told why a log cannot be read now; its lines come later. It is told of logs that were cut, too.
    """

    def __init__(self, plan: Plan, *, attempt: int, complain: Callable[[str], None]):
        self._plan = plan
        self._attempt = attempt
        self._complain = complain
        self._metrics = [(source, self._reader(source)) for source in plan.metrics]
        self._alarms = [(source, self._reader(source)) for source in plan.alarms]
        self._merger = self._new_merger(attempt)
        self._old_alarms: set[str] = set()

    def catch_up(self) -> list[StepRecord]:
        """All that the attempts before have told: their steps. What comes later is told by this one."""
        merger = self._new_merger(self._attempt - 1)
        self._old_alarms = {line for _, line, _ in self._told(self._alarms, ALARMS)}
        return [*self._add(merger, elapsed_s=None), *merger.flush()]

    def steps(self, elapsed_s: float | None) -> list[StepRecord]:
        """The steps that are known since the last look; `elapsed_s` is noted in them."""
        return self._add(self._merger, elapsed_s=elapsed_s)

    def unfinished(self) -> list[StepRecord]:
        """The steps of which only some components told, for the end of a run."""
        return self._merger.flush()

    def failure(self) -> tuple[str, int | None, str] | None:
        """A component that failed since the last look: its name, exit code, and whose log is worth reading.

        That is the log of whoever told it, when the component has none. An alarm of the attempts before is none, also
        when a log was rewritten meanwhile and is read from its beginning.
        """
        for source, line, (name, code) in self._told(self._alarms, ALARMS):
            if line not in self._old_alarms:
                return name, code, name if name in self._plan.layout.logs else source.component
        return None

    def _reader(self, source: MetricSource) -> LineReader:
        holding = HOLDING.get(source.dialect, b"")
        return LineReader(self._plan.directory / source.path, holding=holding, tell=self._complain)

    def _new_merger(self, attempt: int) -> StepMerger:
        return StepMerger((source.component for source, _ in self._metrics), attempt=attempt)

    def _add(self, merger: StepMerger, *, elapsed_s: float | None) -> list[StepRecord]:
        told = self._told(self._metrics, DIALECTS)
        return [step for source, _, part in told for step in merger.add(source.component, part, elapsed_s=elapsed_s)]

    def _told(self, logs: Logs, dialects: Mapping[str, Dialect]) -> Iterator[tuple[MetricSource, str, Any]]:
        for source, reader in logs:
            for line in self._read(reader):
                if (found := dialects[source.dialect](line)) is not None:
                    yield source, line, found

    def _read(self, reader: LineReader) -> list[str]:
        try:
            return reader.read()
        except OSError as error:  # a disk over a network is away for a moment: the lines come later
            self._complain(f"cannot read, trying again: {error}")
            return []
