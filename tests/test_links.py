"""Links in a copy of a notebook lead where they led before, or to what was copied along."""

from pathlib import Path

import nbformat
import pytest

from rlguide.links import LINK, copy_notebook, relinked
from rlguide.paths import PACKAGE

HOME, FOLDER = Path("/a/project/notebooks"), Path("/a/project/outputs/my run/notebooks")


@pytest.mark.parametrize(
    ("link", "led"),
    [
        ("../GLOSSARY.md", "../../../GLOSSARY.md"),
        ("../GLOSSARY.md#reward", "../../../GLOSSARY.md#reward"),
        ("other.ipynb", "../../../notebooks/other.ipynb"),
        ("01_two.ipynb", "01_two.ipynb"),
        ("images/three.svg", "images/three.svg"),
        ("#below", "#below"),
        ("https://pytorch.org/x", "https://pytorch.org/x"),
        ("mailto:a@b.example", "mailto:a@b.example"),
    ],
)
def test_a_link_leads_where_it_led(link: str, led: str):
    prose = f"See [this]({link}), and ![that]({link})."

    made = relinked(prose, HOME, FOLDER, copied=("01_two.ipynb", "images"))

    assert made == f"See [this]({led}), and ![that]({led})."


def test_a_path_with_a_space_stays_one_link():
    made = relinked("[x](../a%20b.md)", Path("/p/notebooks"), Path("/q"))

    assert made == "[x](../p/a%20b.md)"


def test_text_without_links_stays_as_it_is():
    prose = "a list [1, 2] (and more) of `f(x)[0](y)`"

    assert relinked(prose.replace("](", "] ("), HOME, FOLDER) == prose.replace("](", "] (")


def test_every_link_of_every_notebook_still_leads_somewhere_in_its_copy(tmp_path: Path):
    pages = sorted((PACKAGE.parent / "notebooks").glob("*.ipynb"))
    folder = tmp_path / "outputs" / "one" / "notebooks"
    (folder / "images").mkdir(parents=True)
    for picture in (pages[0].parent / "images").iterdir():
        (folder / "images" / picture.name).touch()

    copies = [copy_notebook(page, folder, copied={"images", *(page.name for page in pages)}) for page in pages]

    links = [(copy.name, link) for copy in copies for link in _links(copy)]
    assert len(links) > 100
    assert not [(name, link) for name, link in links if not (folder / link).exists()]
    assert not [link for _, link in links if link.endswith(".ipynb") and "/" in link]


def _links(notebook: Path) -> list[str]:
    prose = "\n".join(cell.source for cell in nbformat.read(notebook, as_version=4).cells)
    return [match[1] for match in LINK.finditer(prose)]


def test_nothing_but_links_in_prose_is_changed(tmp_path: Path):
    page = next((PACKAGE.parent / "notebooks").glob("00_*.ipynb"))

    copy = nbformat.read(copy_notebook(page, tmp_path), as_version=4)

    nbformat.validate(copy)
    before = nbformat.read(page, as_version=4)
    assert [cell.source for cell in copy.cells if cell.cell_type == "code"] == [
        cell.source for cell in before.cells if cell.cell_type == "code"
    ]
    assert [LINK.sub("", cell.source) for cell in copy.cells] == [LINK.sub("", cell.source) for cell in before.cells]
