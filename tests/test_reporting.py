"""The report: one page that stands alone, tells the result first, and is honest about what is not there."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from finished import HOSTILE, finished_run
from toy import nothing_left, toy_plan

import rlguide
from rlguide.config import load_config
from rlguide.errors import RunNotFound
from rlguide.run import launch

__all__ = ["nothing_left"]
pytestmark = pytest.mark.usefixtures("nothing_left")


class Page(HTMLParser):
    """What a browser would see of a page."""

    VOID = ("meta", "img", "br")

    def __init__(self, text: str):
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data if self.open and self.open[-1] not in {"style", "title"} else ""

    def attributes(self, name: str) -> list[str]:
        return [value for _, attributes in self.tags for key, value in attributes.items() if key == name and value]


@pytest.fixture
def page(outputs: Path) -> Page:
    """The report of a run that succeeded, with another seed than its preset."""
    return Page(rlguide.report(finished_run(outputs / "one", seed=7)).read_text())


def test_the_result_comes_first(page: Page, outputs: Path):
    verdict = rlguide.evaluate(outputs / "one").verdict

    assert page.words.index(verdict) < page.words.index("The reward while training")
    assert verdict.startswith("The reward rose from 0.100 to 0.800")


def test_the_page_stands_alone(page: Page):
    links = page.attributes("src") + page.attributes("href")

    assert not {tag for tag, _ in page.tags} & {"script", "link", "iframe"}
    assert [link for link in links if link.startswith("data:image/png;base64,")]
    assert not [link for link in links if re.match(r"(?!data:)[a-z]+:|/", link)]


def test_the_page_is_whole_and_what_policies_wrote_is_text(page: Page):
    assert page.open == []
    assert HOSTILE in page.words


def test_the_page_follows_the_readers_light_or_dark(outputs: Path):
    text = rlguide.report(finished_run(outputs / "one")).read_text()

    assert "color-scheme:light dark" in text
    assert "@media (prefers-color-scheme:dark)" in text


def test_before_and_after_have_intervals_and_are_split(page: Page):
    assert re.search(r"0\.100 \(0\.\d+ to 0\.\d+\)", page.words)
    assert re.search(r"0\.800 \(0\.\d+ to 0\.\d+\)", page.words)
    assert "choosing the right form more often+0.700" in page.words


def test_settings_show_what_differs_from_the_preset(page: Page):
    changed = page.words.split("What differs from preset tiny")[1].split("all settings")[0]

    assert changed.endswith("run_namereverse-textoneseed07")


def test_every_setting_is_there(page: Page):
    assert all(key in page.words for key, _, _ in load_config().settings())


def test_versions_times_and_files_are_there(page: Page, outputs: Path):
    assert f"rlguide{rlguide.__version__}" in page.words
    assert "evaluation of the warm start12 s" in page.words
    assert str(outputs / "one") in page.words
    assert "steps.jsonl" in page.words


def test_executed_notebooks_are_linked(outputs: Path):
    run = finished_run(outputs / "one")
    run.files.notebooks.mkdir()
    (run.files.notebooks / "00_a.ipynb").write_text('{"metadata": {"papermill": {"duration": 12.2}}}')
    (run.files.notebooks / "01_b.ipynb").write_text("{")

    page = Page(rlguide.report("one").read_text())

    assert page.attributes("href") == ["notebooks/00_a.ipynb", "notebooks/01_b.ipynb"]
    assert "notebooks/00_a.ipynb12 s" in page.words


def test_a_run_that_was_not_evaluated_says_so(outputs: Path):
    page = Page(rlguide.report(finished_run(outputs / "one", evaluated=False)).read_text())

    assert "Not evaluated yet" in page.words
    assert "rlguide evaluate one" in page.words
    assert "Choosing or improving" not in page.words


def test_a_run_that_failed_says_why_and_shows_the_end_of_its_log(outputs: Path):
    run = launch(toy_plan(outputs / "one", exit_at=1, exit_code=3))
    reason = run.wait(30).reason

    page = Page(rlguide.report(run).read_text())

    assert f"No result. State of the run: failed. {reason}" in page.words
    assert "step 0" in page.words
    assert "The configuration of this run is not there." in page.words


def test_a_run_without_a_step_says_so(outputs: Path):
    run = launch(toy_plan(outputs / "one", exit_at=0, exit_code=3))
    run.wait(30)

    assert "No training step was recorded." in Page(rlguide.report(run).read_text()).words


def test_a_secret_never_reaches_the_page(outputs: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WANDB_API_KEY", "abcdef-0123")
    run = launch(toy_plan(outputs / "one", exit_at=1, exit_code=3))
    run.wait(30)
    (run.directory / run.record.plan.processes[0].log).write_text("key abcdef-0123 refused\n")

    text = rlguide.report(run).read_text()

    assert "abcdef-0123" not in text
    assert "key [WANDB_API_KEY] refused" in text


def test_where_there_is_no_run_there_is_no_report(outputs: Path):
    with pytest.raises(RunNotFound):
        rlguide.report("absent")


def test_no_public_name_is_the_name_of_a_module():
    modules = {path.stem for path in Path(rlguide.__file__).parent.glob("*.py")}

    assert not modules & set(rlguide.__all__)
