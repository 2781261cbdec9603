"""A form for the six settings that a beginner changes: ipywidgets that are checked as they are changed.

It edits a `RunConfig` in memory; whoever makes the form says what is done with every valid change.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

import ipywidgets
from IPython.display import DisplayHandle, display

from rlguide.config import RunConfig, from_preset
from rlguide.errors import ConfigError
from rlguide.view import written
from rlguide.view.elements import View, notes, page, table, tag

FIELDS = {
    "max_steps": ("Training steps", "each is one update of the weights"),
    "trainer.optim.lr": ("Learning rate", "above 0, at most 1; too high and the policy breaks"),
    "orchestrator.batch_size": ("Batch size", "completions a step; a multiple of the group size"),
    "orchestrator.rollouts_per_example": ("Group size", "completions of one text, compared with each other; 2 or more"),
    "orchestrator.train.sampling.max_completion_tokens": ("Longest completion", "tokens; longer ones are cut"),
    "seed": ("Seed", "the same seed on the same machine gives the same curve"),
}
"""Dotted key → label and what the reader should know of its values."""
LABELS = {name: label for key, (label, _) in FIELDS.items() for name in (key, key.rpartition(".")[2])}
KEY = re.compile(r"(?<![\w.])(" + "|".join(map(re.escape, LABELS)) + r")(?![\w.])")
FAR = 10
"""A learning rate more times the preset's than this, or the preset's times it, is worth a word."""


class Form:
    """Fields, a verdict that follows every change, and what differs from the preset.

    `config` is the latest valid configuration; a value that is not valid leaves it as it was. `fields` are the
    ipywidgets by dotted key. As HTML, `verdict` is what it says of the values as they stand, and `outlook` how long the
    run would take, and what is unusual in the last valid values.
    """

    def __init__(
        self,
        config: RunConfig,
        *,
        save: Callable[[RunConfig, RunConfig], str],
        estimate: Callable[[RunConfig], float | None] = lambda _: None,
    ):
        self.config = config
        self._save, self._estimate = save, estimate
        self.fields = {key: _field(config, key) for key in FIELDS}
        self._outlook, self._verdict = ipywidgets.HTML(), ipywidgets.HTML()
        self._below: list[DisplayHandle] = []
        rows = [ipywidgets.HBox([self.fields[key], _hint(key)]) for key in FIELDS]
        self.box = ipywidgets.VBox([*rows, self._outlook, self._verdict])
        self._accept(config)
        for field in self.fields.values():
            field.observe(self._changed, names="value")

    def _changed(self, _: Any) -> None:
        try:
            self._accept(self.config.replace({key: _read(field) for key, field in self.fields.items()}))
        except ConfigError as error:
            self._say("✗ not valid:", f"{in_labels(error.message)}. Nothing is saved; the last valid values stay.")

    def _accept(self, config: RunConfig) -> None:
        before, self.config = self.config, config
        self._say("✓ valid;", self._save(config, before))
        self.outlook = self._outlook.value = page(notes(outlook(config, self._estimate(config))))
        for handle in self._below:
            handle.update(self._view())

    def _say(self, verdict: str, why: str) -> None:
        self.verdict = self._verdict.value = page(tag("p", tag("strong", verdict), f" {why}", role="status"))

    def _view(self) -> View:
        head = ("setting", f"preset {self.config.preset}", "here", "note")
        values = table(self._rows(), caption="The six settings, and what else differs from the preset", head=head)
        return View(values, repr(self))

    def _rows(self) -> list[tuple[object, ...]]:
        """The fields as they were last valid, then every other key that differs from the preset."""
        every = {key: values for key, *values in self.config.settings()}
        keys = [*FIELDS, *(key for key, *_ in self.config.difference() if key not in FIELDS)]
        return [(_name(key), *every[key], _changed(*every[key])) for key in keys]

    def __repr__(self) -> str:
        return written.table(self._rows(), head=("setting", f"preset {self.config.preset}", "here", "note"))

    def _ipython_display_(self) -> None:
        """The fields, and below them what differs from the preset; that is also there where no widgets are shown."""
        display(self.box)
        self._below.append(DisplayHandle())
        self._below[-1].display(self._view())


def in_labels(message: str) -> str:
    """A message about keys with the labels of the form in their place."""
    return KEY.sub(lambda found: LABELS[found[1]], message)


def outlook(config: RunConfig, estimate_s: float | None) -> Iterator[str]:
    """How long the run would take, and what is unusual in its settings, one sentence each."""
    limit = written.duration(config.time_limit_s)
    expected = "expected time unknown" if estimate_s is None else f"about {written.duration(estimate_s)}"
    yield f"{expected}; time limit {limit}"
    if estimate_s is not None and estimate_s > config.time_limit_s:
        yield f"! It would be stopped after {limit}, before its last step: lower the steps, or raise time_limit_s."
    rate, usual = config.trainer.optim.lr, from_preset(config.preset).trainer.optim.lr
    if round(rate / usual, 6) > FAR:
        yield f"! The learning rate is more than {FAR} times the preset's {usual:g}: the policy may break."
    if round(usual / rate, 6) > FAR:
        yield f"! The learning rate is less than a tenth of the preset's {usual:g}: the policy may learn too slowly."


def _name(key: str) -> str:
    return f"{FIELDS[key][0]} ({key.rpartition('.')[2]})" if key in FIELDS else key


def _changed(preset: object, here: object) -> str:
    return "" if preset == here else "changed"


def _field(config: RunConfig, key: str) -> ipywidgets.ValueWidget:
    value: Any = config
    for part in key.split("."):
        value = getattr(value, part)
    kind: type[ipywidgets.ValueWidget] = ipywidgets.IntText
    if isinstance(value, float):  # a browser's field for numbers drops the comma of "0,001" and tells 1
        kind, value = ipywidgets.Text, repr(value)
    layout = ipywidgets.Layout(width="18em", flex="0 0 auto")
    style = {"description_width": "10em"}
    return kind(value=value, description=FIELDS[key][0], style=style, layout=layout, continuous_update=False)


def _read(field: ipywidgets.ValueWidget) -> object:
    """The value of a field; a text that is no number stays one, to be refused. The decimal sign may be a comma."""
    if not isinstance(field.value, str):
        return field.value
    try:
        return float(field.value.replace(",", "."))
    except ValueError:
        return field.value


def _hint(key: str) -> ipywidgets.HTML:
    """What the reader should know, in lines that break where the page is narrow; a label would be cut."""
    hint = tag("div", FIELDS[key][1], style="line-height:1.3;padding-top:.4em")
    return ipywidgets.HTML(hint, layout=ipywidgets.Layout(flex="1 1 10em"))
