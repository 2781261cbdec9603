"""A form for the six settings that a beginner changes: ipywidgets that are checked as they are changed.

It edits a `RunConfig` in memory; whoever makes the form says what is done with every valid change.
"""

from collections.abc import Callable
from typing import Any

import ipywidgets
from IPython.display import DisplayHandle, display

from rlguide.config import RunConfig
from rlguide.errors import ConfigError
from rlguide.view import written
from rlguide.view.elements import View, join, page, table, tag
from rlguide.view.html import toml_html

FIELDS = {
    "max_steps": ("Training steps", "each is one update of the weights"),
    "trainer.optim.lr": ("Learning rate", "above 0, at most 1; too high and the policy breaks"),
    "orchestrator.batch_size": ("Batch size", "completions a step; a multiple of the group size"),
    "orchestrator.rollouts_per_example": ("Group size", "completions of one text, compared with each other; 2 or more"),
    "orchestrator.train.sampling.max_completion_tokens": ("Longest completion", "tokens; longer ones are cut"),
    "seed": ("Seed", "the same seed on the same machine gives the same curve"),
}
"""Dotted key → label and what the reader should know of its values."""


class Form:
    """Fields, a verdict that follows every change, and what differs from the preset.

    `config` is the latest valid configuration; a value that is not valid leaves it as it was. `fields` are the
    ipywidgets by dotted key.
    """

    def __init__(self, config: RunConfig, *, save: Callable[[RunConfig], str]):
        self.config = config
        self._save = save
        self.fields = {key: _field(config, key) for key in FIELDS}
        self._verdict = ipywidgets.HTML()
        self._below: list[DisplayHandle] = []
        rows = [ipywidgets.HBox([self.fields[key], _hint(key)]) for key in FIELDS]
        self.box = ipywidgets.VBox([*rows, self._verdict])
        self._accept(config)
        for field in self.fields.values():
            field.observe(self._changed, names="value")

    @property
    def verdict(self) -> str:
        """What the form says of the values as they stand, as HTML."""
        return self._verdict.value

    def _changed(self, _: Any) -> None:
        try:
            self._accept(self.config.replace({key: field.value for key, field in self.fields.items()}))
        except ConfigError as error:
            self._say("✗ not valid:", f"{error.message}. Nothing is saved; the last valid values stay.")

    def _accept(self, config: RunConfig) -> None:
        self.config = config
        self._say("✓ valid;", self._save(config))
        for handle in self._below:
            handle.update(self._view())

    def _say(self, verdict: str, why: str) -> None:
        self._verdict.value = page(tag("p", tag("strong", verdict), f" {why}", role="status"))

    def _view(self) -> View:
        head = ("setting", f"preset {self.config.preset}", "here", "note")
        values = table(self._rows(), caption="The six settings, and what else differs from the preset", head=head)
        return View(join(values, toml_html(self.config)), repr(self))

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


def _name(key: str) -> str:
    return f"{FIELDS[key][0]} ({key.rpartition('.')[2]})" if key in FIELDS else key


def _changed(preset: object, here: object) -> str:
    return "" if preset == here else "changed"


def _field(config: RunConfig, key: str) -> ipywidgets.ValueWidget:
    value: Any = config
    for part in key.split("."):
        value = getattr(value, part)
    kind = ipywidgets.FloatText if isinstance(value, float) else ipywidgets.IntText
    layout = ipywidgets.Layout(width="18em", flex="0 0 auto")
    return kind(value=value, description=FIELDS[key][0], style={"description_width": "10em"}, layout=layout)


def _hint(key: str) -> ipywidgets.HTML:
    """What the reader should know, in lines that break where the page is narrow; a label would be cut."""
    hint = tag("div", FIELDS[key][1], style="line-height:1.3;padding-top:.4em")
    return ipywidgets.HTML(hint, layout=ipywidgets.Layout(flex="1 1 10em"))
