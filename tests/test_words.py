"""One word for one idea in all that a reader sees: help, messages, notebooks and documents."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest

from rlguide.config import from_preset
from rlguide.paths import PACKAGE
from rlguide.records import State, StoppedBy
from rlguide.view.text import STATES, STOPPED

ROOT = Path(__file__).resolve().parent.parent
AVOIDED = re.compile(r"\b(time cap|wall-clock cap|cap of|mend(ed|s|ing)?)\b", re.IGNORECASE)
"""Say "time limit", "fix" or "repair"."""
STORED = "TIME_LIMIT = "
"""The one line that keeps an old word, because stored runs have it."""


def texts_of(module: Path) -> Iterator[str]:
    """String constants of a module, without the values of `StoppedBy`, which are stored and mapped when shown."""
    source = module.read_text(encoding="utf-8")
    lines = source.splitlines()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and STORED not in lines[node.lineno - 1]:
            yield node.value


def what_readers_see() -> Iterator[tuple[str, str]]:
    """Rows (where, text)."""
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.relative_to(PACKAGE).parts[0] not in {"environment", "engines"}:
            yield from ((path.name, text) for text in texts_of(path))
    for path in [ROOT / "README.md", ROOT / "GLOSSARY.md"]:
        yield path.name, path.read_text(encoding="utf-8")
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        yield from ((path.name, cell.source) for cell in nbformat.read(path, as_version=4).cells)
    yield "config.toml", from_preset("tiny").to_toml()


def test_readers_meet_one_word_for_one_idea():
    assert not [(where, text[:80]) for where, text in what_readers_see() if AVOIDED.search(text)]


def glossary() -> dict[str, str]:
    return dict(re.findall(r"\*\*(.+?)\*\*: (.+)", (ROOT / "GLOSSARY.md").read_text(encoding="utf-8")))


@pytest.mark.parametrize("state", [state for state in State if state.is_over])
def test_the_glossary_tells_the_end_of_a_run_in_the_words_of_the_screen(state: State):
    shown = STATES[state].removeprefix(str(state)).strip(" :")

    assert shown in glossary()[state]


def test_the_glossary_names_all_that_may_stop_a_run():
    assert all(by in glossary()["stopped"] for by in STOPPED.values())
    assert set(STOPPED) == set(StoppedBy)
