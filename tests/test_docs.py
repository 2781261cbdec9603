"""Documents tell the truth: links lead somewhere, commands exist, words are explained."""

import re
from pathlib import Path

import pytest
from typer.main import get_command

from rlguide.cli import app
from rlguide.paths import TINY_POLICY
from rlguide.remote import PORT

ROOT = Path(__file__).resolve().parent.parent
CARD = TINY_POLICY / "README.md"
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), ROOT / "docs/verified-runs/README.md", CARD])
COMMANDS = set(get_command(app).commands)
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))

each_document = pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))


def prose(path: Path) -> list[str]:
    """Lines outside code blocks."""
    return re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL).splitlines()


def code(path: Path) -> list[str]:
    """What stands in code blocks and between backticks."""
    text = path.read_text(encoding="utf-8")
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    inline = re.findall(r"`([^`\n]+)`", "\n".join(prose(path)))
    return [line.strip() for block in blocks for line in block.splitlines()] + inline


def anchors(path: Path) -> set[str]:
    """Anchors of a document: those of its headings, as GitHub makes them, and those that it sets itself."""
    titles = [line.lstrip("#").strip() for line in prose(path) if line.startswith("#")]
    own = re.findall(r'<a id="([^"]+)"></a>', path.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles} | {*own}


def test_the_documents_are_there():
    names = {path.name for path in DOCUMENTS}

    assert {"README.md", "ARCHITECTURE.md", "GLOSSARY.md", "CHANGELOG.md", "CONTRIBUTING.md", "AGENTS.md"} <= names


@each_document
def test_links_inside_the_project_lead_somewhere(path: Path):
    for target in re.findall(r"(?:\]\(|src=\"|srcset=\")([^)\s\"]+)", "\n".join(prose(path))):
        if target.startswith(("http://", "https://")):
            continue
        name, _, anchor = target.partition("#")
        file = path.parent / name if name else path
        assert file.exists(), target
        assert not anchor or anchor in anchors(file), target


@each_document
def test_commands_in_documents_exist(path: Path):
    for line in code(path):
        if found := re.match(r"(?:\S*bin/)?rlguide ([a-z][a-z-]*)", line):
            assert found.group(1) in COMMANDS, line
        if found := re.match(r"make ([a-z-]+)", line):
            assert found.group(1) in TARGETS, line


@each_document
def test_options_in_documents_exist(path: Path):
    commands = get_command(app).commands
    for line in code(path):
        found = re.match(r"rlguide ([a-z-]+)(.*)", line)
        if found and not commands[found.group(1)].context_settings:
            options = {option for parameter in commands[found.group(1)].params for option in parameter.opts}
            options |= {option for parameter in commands[found.group(1)].params for option in parameter.secondary_opts}
            used = set(re.findall(r"(?<!\S)(--?[a-z][a-z-]*)", found.group(2).split("#")[0]))
            assert used <= options | {"--help"}, line


def test_the_readme_says_how_to_find_the_program_before_it_names_it_alone():
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    bare = next(number for number, line in enumerate(lines) if re.search(r"(^|`)rlguide [a-z]", line))

    assert any("source .venv/bin/activate" in line for line in lines[:bare])


def test_the_readme_stays_a_first_page():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 180


@pytest.mark.parametrize("word", ["warm start", "right form", "completion", "reward", "run guide", "float32"])
def test_the_readme_explains_a_word_where_it_first_stands(word: str):
    told = "\n".join(line for line in prose(ROOT / "README.md") if not line.startswith("<"))
    first = told[told.index(word) - 1 :]

    assert first.startswith((f"*{word}", f"[{word}](GLOSSARY.md#", f" {word}, the written record of"))


def test_the_readme_says_how_to_reach_a_jupyterlab_on_another_machine():
    assert f"ssh -N -L {PORT}:localhost:{PORT} HOST" in code(ROOT / "README.md")


def test_every_command_is_in_the_readme():
    told = "\n".join(code(ROOT / "README.md"))

    assert not [name for name in COMMANDS if f"rlguide {name}" not in told]


@each_document
def test_prose_has_one_sentence_a_line(path: Path):
    lines = [re.sub(r"`[^`]*`|\([^)]*\)", "", line) for line in prose(path) if not line.startswith(("|", "#"))]

    assert not [line for line in lines if re.search(r"[a-z)][.!?] [A-Z]", line)]


def glossary() -> dict[str, str]:
    lines = (ROOT / "GLOSSARY.md").read_text(encoding="utf-8").splitlines()
    rows = [re.fullmatch(r'- <a id="[\w-]+"></a>\*\*(.+?)\*\*: (.+)', line) for line in lines if line.startswith("- ")]
    assert all(rows)
    return {row.group(1): row.group(2) for row in rows}


def test_glossary_terms_are_in_order_and_explained():
    terms = glossary()

    assert list(terms) == sorted(terms, key=str.lower)
    assert all(30 <= len(text) <= 330 and text.endswith(".") for text in terms.values())


def test_the_words_of_the_plots_and_records_are_in_the_glossary():
    wanted = {
        "advantage", "batch", "checkpoint", "completion", "degenerate group", "engine", "environment", "evaluation",
        "group", "plan", "policy", "reward", "rollout", "run", "run directory", "similarity", "step", "truncation rate",
        "warm start", "weights",
    }  # fmt: skip

    assert wanted <= set(glossary())
