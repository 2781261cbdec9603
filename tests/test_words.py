"""One word for one idea in all that a reader sees: help, messages, notebooks and documents."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest

from rlguide.config import from_preset
from rlguide.paths import PACKAGE, TINY_POLICY
from rlguide.records import State, Status, StoppedBy
from rlguide.view.text import STATES, STOPPED

ROOT = Path(__file__).resolve().parent.parent
AVOIDED = re.compile(
    r"\b(time cap|wall-clock cap|cap of|mend(ed|s|ing)?|rewarded form|(\d[\d,]*|[mb]illion) parameters)\b",
    re.IGNORECASE,
)
"""Say "time limit", "fix" or "repair", "right form", "weights"."""
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
    pages = [
        ROOT / "README.md",
        ROOT / "GLOSSARY.md",
        *sorted((ROOT / "docs").rglob("*.md")),
        TINY_POLICY / "README.md",
    ]
    for path in pages:
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


def outcomes_told(text: str, row: str) -> dict[str, str]:
    """Outcome of a check → what a page says that it means, without the sentence's capital and its end."""
    return {name: told[:1].lower() + told[1:].rstrip(".;") for name, told in re.findall(row, text, re.MULTILINE)}


def test_the_doctors_page_and_the_notebook_explain_the_outcomes_of_a_check_alike():
    page = (ROOT / "docs" / "doctor.md").read_text(encoding="utf-8")
    notebook = nbformat.read(ROOT / "notebooks" / "01_check_your_machine.ipynb", as_version=4)
    (prose,) = [cell.source for cell in notebook.cells if cell.id == "01-doctor-seen"]

    told = outcomes_told(page, r"^\| (pass|warn|fail|skip) \| (.+?) \|$")

    assert set(told) == set(Status)
    assert told == outcomes_told(prose, r"^- \*\*(\w+)\*\*: (.+)$")


def test_the_glossary_names_all_that_may_stop_a_run():
    assert all(by in glossary()["stopped"] for by in STOPPED.values())
    assert set(STOPPED) == set(StoppedBy)
