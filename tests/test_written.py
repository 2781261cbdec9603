"""Lists and tables of a configuration are shown as its file has them, so that they can be typed again."""

import tomllib

import pytest
import typer

from rlguide.config import load_config
from rlguide.console import changes_asked
from rlguide.errors import ConfigError
from rlguide.view.html import difference_html
from rlguide.view.text import difference_text
from rlguide.view.written import as_toml, written

HUBS = [{"id": "reverse-text", "args": {"dataset": "hub"}}]
SHOWN = '[{id = "reverse-text", args = {dataset = "hub"}}]'


@pytest.mark.parametrize(
    "value",
    [HUBS, [1, 2], [], {"a": {"b": [True, 1.5, 'say "é"\n']}}, "plain", [["x"], {"y": False}]],
    ids=str,
)
def test_what_is_shown_reads_as_toml_again(value: object):
    assert tomllib.loads(f"value = {as_toml(value)}") == {"value": value}


def test_what_is_not_set_is_left_out():
    assert written([{"id": "reverse-text", "args": {"dataset": None}}]) == '[{id = "reverse-text"}]'
    assert [written(value) for value in (None, 0.5, "text", 3, True)] == ["–", "0.5", "text", "3", "True"]


def test_an_environment_that_was_set_is_shown_as_it_was_typed_wherever_differences_are():
    config = load_config("tiny", {"orchestrator.train.env": HUBS})

    plain = difference_text(config.difference(), base="preset tiny")

    assert plain.splitlines()[1].split(maxsplit=1) == ["orchestrator.train.env", f'[{{id = "reverse-text"}}]  {SHOWN}']
    assert SHOWN.replace('"', "&quot;") in difference_html(config)


def test_an_environment_that_cannot_be_used_is_told_as_it_was_typed():
    with pytest.raises(ConfigError) as refused:
        load_config("tiny", {"orchestrator.train.env": HUBS * 2})

    assert f"orchestrator.train.env = [{SHOWN[1:-1]}, {SHOWN[1:-1]}]; wanted: at most 1 entry" in refused.value.message


def test_a_key_that_is_given_twice_is_told_as_it_was_typed():
    typed = [f"orchestrator.train.env={SHOWN}", 'orchestrator.train.env=[{id = "reverse-text"}]']

    with pytest.raises(typer.BadParameter) as refused:
        changes_asked(typed)

    assert f'given twice, as {SHOWN} and as [{{id = "reverse-text"}}]' in refused.value.message
