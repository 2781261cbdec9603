"""The form of the notebooks: small cells, prose first, no logic, nothing run, every word explained and linked."""

import ast
import json
import re
from itertools import chain
from pathlib import Path
from statistics import median

import nbformat
import pytest
from pages import PAGES, ROOT, answers, cells, code_lines, prose, tags

import rlguide
from rlguide.checks.embedded import IMPORTS
from rlguide.paths import DATA
from rlguide.records import Parameters
from rlguide.view.text import plan_rows

TAGS = {"parameters", "needs-gpu", "cleanup", "provenance", "raises-exception"}
SHOWN_FUNCTION = ("00_meet_the_task", "similarity")
"""The one function that a notebook may define; it is asserted equal to the packaged one."""
TERMS = {
    "advantage", "checkpoint", "completion", "degenerate group", "entropy", "evaluation", "gradient norm",
    "held-out texts", "inference server", "learning rate", "orchestrator", "policy", "preset", "reward", "right form",
    "rollout", "supervisor", "token", "trainer", "truncation rate", "warm start", "weights",
}  # fmt: skip
"""Words of the trade that have no other meaning: linked where a notebook first uses them."""

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)


def anchors() -> dict[str, str]:
    """Word of the glossary, in small letters, → the anchor that it has there."""
    entries = re.findall(
        r'^- <a id="([\w-]+)"></a>\*\*(.+?)\*\*', (ROOT / "GLOSSARY.md").read_text("utf-8"), re.MULTILINE
    )
    return {word.lower(): anchor for anchor, word in entries}


def glossary() -> set[str]:
    return set(anchors())


def links_to_the_glossary(page: Path) -> list[tuple[str, str]]:
    """Rows (word that is linked, in small letters, anchor or nothing) in the order of reading."""
    found = re.findall(r"\[([^\]]+)\]\(\.\./GLOSSARY\.md#?([^)]*)\)", prose(page))
    return [(word.lower(), anchor) for word, anchor in found]


def trees(page: Path) -> list[ast.Module]:
    return [ast.parse(cell.source) for cell in cells(page, "code")]


def test_the_series_is_whole():
    assert [page.stem for page in PAGES] == [
        "00_meet_the_task", "01_check_your_machine", "02_install_the_engine", "03_configure_the_run",
        "04_launch_training", "05_monitor_the_run", "06_evaluate_the_policy",
    ]  # fmt: skip


@each_page
def test_a_notebook_is_valid_and_nothing_in_it_was_run(page: Path):
    notebook = nbformat.read(page, as_version=4)
    nbformat.validate(notebook)

    assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)
    assert notebook.metadata.kernelspec.name == "python3"
    assert set(notebook.metadata) == {"kernelspec", "language_info"}
    assert all(not cell.outputs and cell.execution_count is None for cell in cells(page, "code"))


@each_page
def test_cells_are_named_for_good_and_known_by_their_tags(page: Path):
    names = [cell.id for cell in cells(page)]

    assert len(set(names)) == len(names)
    assert all(re.fullmatch(rf"{page.stem[:2]}-[a-z][a-z-]+", name) for name in names)
    assert {tag for cell in cells(page) for tag in tags(cell)} <= TAGS
    assert all(set(cell.metadata) <= {"tags"} for cell in cells(page))


@each_page
def test_cells_are_few_and_small(page: Path):
    lines = [code_lines(cell) for cell in cells(page, "code")]

    assert 14 <= len(cells(page)) <= 28
    assert median(lines) <= 4
    assert max(lines) <= 15


@each_page
def test_there_is_more_prose_than_code(page: Path):
    lines = sum(map(code_lines, cells(page, "code")))

    assert len(prose(page).split()) >= 8 * lines


@each_page
def test_prose_stands_between_code_cells(page: Path):
    kinds = [cell.cell_type for cell in cells(page)]
    pairs = [number for number in range(1, len(kinds)) if kinds[number - 1] == kinds[number] == "code"]
    closing = len(kinds) - 2

    assert kinds[0] == kinds[-1] == "markdown"
    assert pairs[0] == 2, "the imports and the parameters are the opening pair"
    assert set(pairs) <= {2, closing}


@each_page
def test_a_notebook_opens_with_its_imports_its_parameters_and_their_check(page: Path):
    imports, parameters, check, *rest = cells(page, "code")
    names = {target.id for node in ast.parse(parameters.source).body for target in node.targets}

    assert imports.source == "import rlguide"
    assert tags(parameters) == ["parameters"]
    assert names == set(Parameters.model_fields)
    assert check.source.startswith("settings = rlguide.parameters(globals())")
    assert not any("parameters" in tags(cell) for cell in rest)


def test_the_parameters_are_the_same_everywhere():
    assert len({cells(page, "code")[1].source for page in PAGES}) == 1


@each_page
def test_a_notebook_that_works_leaves_nothing_running(page: Path):
    source = "\n".join(cell.source for cell in cells(page, "code"))
    acts = re.search(r"rlguide\.(evaluate|monitor)|\.wait\(", source)

    assert bool(acts) == any("cleanup" in tags(cell) for cell in cells(page))


def test_every_package_that_is_looked_at_is_explained_on_the_page_that_shows_them():
    (told,) = [cell.source for cell in cells(PAGES[2], "markdown") if cell.id == "02-files-seen"]
    explained = set(re.findall(r"`(\w+)`", "\n".join(re.findall(r"^\| (`.+?) \|", told, re.MULTILINE))))

    assert explained == {name.partition(":")[0] for name in chain(*IMPORTS)} | {"wandb"}


def test_every_row_of_a_plan_is_read_aloud_on_the_page_that_shows_one():
    (told,) = [cell.source for cell in cells(PAGES[4], "markdown") if cell.id == "04-plan-seen"]
    rows = {name for name, _ in plan_rows(rlguide.plan(rlguide.load_config("tiny", {"engine": "trl"})))}

    assert rows <= set(re.findall(r"\*\*\[?([a-z ]+)", told))


def test_versions_are_recorded_where_packages_are_looked_at_and_where_results_are_told():
    recording = [page.stem for page in PAGES for cell in cells(page, "code") if "provenance" in tags(cell)]
    calling = [
        page.stem for page in PAGES for cell in cells(page, "code") if cell.source.startswith("rlguide.provenance(")
    ]

    assert recording == calling == ["02_install_the_engine", "06_evaluate_the_policy"]


@each_page
def test_a_live_view_stays_in_sight(page: Path):
    order = cells(page)
    monitored = any("monitor(" in cell.source for cell in cells(page, "code"))  # a wait is one line then
    shows = re.compile(r"monitor\(|evaluate\(" if monitored else r"\.wait\(|evaluate\(")
    live = [number for number, cell in enumerate(order) if shows.search(cell.source)]

    assert not [
        number
        for number in live
        if order[number].cell_type == "code" and "Ctrl + Enter" not in order[number - 1].source
    ]


@each_page
def test_logic_lives_in_the_package(page: Path):
    nodes = [node for tree in trees(page) for node in ast.walk(tree)]
    defined = [node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)]
    allowed = [SHOWN_FUNCTION[1]] if page.stem == SHOWN_FUNCTION[0] else []

    assert defined == allowed
    assert not [node for node in nodes if isinstance(node, ast.For | ast.While | ast.If | ast.Try | ast.With)]


@each_page
def test_what_a_form_holds_is_asked_of_the_form(page: Path):
    names = {node.id for tree in trees(page) for node in ast.walk(tree) if isinstance(node, ast.Name)}

    assert not {"form", "config"} <= names, "a configuration of the page's own stays behind when a cell is left out"


@each_page
def test_no_cell_talks_to_a_shell_or_to_other_packages(page: Path):
    source = "\n".join(cell.source for cell in cells(page, "code"))
    imported = {
        name
        for tree in trees(page)
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in [getattr(node, "module", None) or node.names[0].name]
    }

    assert imported <= {"rlguide", "difflib"}
    assert not re.search(r"^\s*[!%]|get_ipython|subprocess|os\.system", source, re.MULTILINE)
    assert not re.search(r"api_?key|token|password|secret", source, re.IGNORECASE)


@each_page
def test_every_public_name_in_a_cell_exists(page: Path):
    used = {
        node.attr
        for tree in [*trees(page), *map(ast.parse, answers(page))]
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "rlguide"
    }

    assert used <= set(rlguide.__all__)


@each_page
def test_a_notebook_says_what_it_does_needs_and_leads_to(page: Path):
    title, text = cells(page)[0].source, prose(page)

    assert re.match(r"# [A-Z][a-z]+ [a-z ]+\n", title), "a verb first, sentence case"
    for part in ("**What you'll do**", "**What you'll learn", "**What you'll need:**", "minutes", "GPU", "GLOSSARY.md"):
        assert part in title or (part in {"GLOSSARY.md", "GPU"} and part in text), part
    for heading in ("## Recap", "## In practice", "## On your own", "## Next"):
        assert text.count(heading) == 1, heading
    recap = text.split("## Recap")[1].split("## ")[0]
    assert len(re.findall(r"^- ", recap, re.MULTILINE)) == 3
    assert re.search(r"\d\d_\w+\.ipynb", text.split("## Next")[1])


@each_page
def test_an_exercise_has_an_answer_that_checks_itself(page: Path):
    assert len(answers(page)) == 1
    assert "assert " in answers(page)[0]


@each_page
def test_claims_are_asserted(page: Path):
    assert any("assert " in cell.source for cell in cells(page, "code"))


@each_page
def test_links_lead_somewhere(page: Path):
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        assert target.startswith("https://") or (page.parent / target.partition("#")[0]).exists(), target


@each_page
def test_words_that_lead_to_the_glossary_lead_to_their_entry(page: Path):
    known = {f"{word}s": anchor for word, anchor in anchors().items()} | anchors() | {"glossary": ""}

    assert not [(word, anchor) for word, anchor in links_to_the_glossary(page) if known.get(word) != anchor]


@each_page
def test_words_of_the_trade_are_linked_where_they_first_appear(page: Path):
    text = re.sub(r"`[^`]*`|^#.*$|\]\([^)]*ipynb\)|Weights & Biases", "", prose(page), flags=re.MULTILINE)
    first = {term: re.search(rf"\[?\b{term}s?\b(\]\(\.\./GLOSSARY)?", text, re.IGNORECASE) for term in TERMS}

    assert glossary() >= TERMS
    assert not [term for term, use in first.items() if use and not use.group(1)]


def test_the_page_that_plays_the_recording_says_in_what_it_is_not_the_readers_own_run():
    recorded = json.loads((DATA / "recordings" / "prime-rl-two-gpus" / "manifest.json").read_text("utf-8"))
    (told,) = [cell.source for cell in cells(PAGES[0], "markdown") if "## The same on two GPUs" in cell.source]

    assert re.search(r"[\d.]+ million", recorded["policy"])[0] in told
    assert recorded["texts"].partition(",")[0] in told
    assert "docs/verified-runs" in told


def test_the_first_notebook_uses_no_word_of_the_trade_before_it_explains_it():
    links = [word for word, _ in links_to_the_glossary(PAGES[0])]

    assert {"policy", "prompt", "completion", "warm start", "reward", "right form", "advantage", "group"} <= set(links)
    assert links.index("completion") < links.index("policy") < links.index("warm start") < links.index("advantage")


@each_page
def test_prose_has_one_sentence_a_line(page: Path):
    plain = re.sub(r"`[^`]*`|\([^)]*\)|\*\*.*?\*\*", "", prose(page))
    lines = [line for line in plain.splitlines() if not line.lstrip().startswith(("|", "#", "-", ">", "<", "!"))]

    assert not [line for line in lines if re.search(r"[a-z)][.!?] [A-Z]", line) and not re.match(r"\d\. ", line)]
