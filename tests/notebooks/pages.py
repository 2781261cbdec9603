"""The notebooks as the tests read them: cells, prose, code, and the answers of the exercises."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode
from toy import processes_below

from rlguide.paths import OUTPUTS_VARIABLE

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))


def cells(page: Path, kind: str | None = None) -> list[NotebookNode]:
    """The cells of a notebook; of one kind, `code` or `markdown`, when asked."""
    return [cell for cell in nbformat.read(page, as_version=4).cells if kind in {None, cell.cell_type}]


def tags(cell: NotebookNode) -> list[str]:
    return cell.metadata.get("tags", [])


def code_lines(cell: NotebookNode) -> int:
    """Lines that are not blank."""
    return sum(bool(line.strip()) for line in cell.source.splitlines())


def prose(page: Path) -> str:
    """All prose without code blocks, in the order of reading."""
    text = "\n\n".join(cell.source for cell in cells(page, "markdown"))
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


def answers(page: Path) -> list[str]:
    """The code in the answers of the exercises, which stand folded below `<details>`."""
    text = "\n\n".join(cell.source for cell in cells(page, "markdown"))
    folded = re.findall(r"<details>.*?</details>", text, re.DOTALL)
    return [code for part in folded for code in re.findall(r"^```python\n(.*?)^```", part, re.MULTILINE | re.DOTALL)]


@contextmanager
def outputs_in(folder: Path, **variables: str) -> Iterator[Path]:
    """An outputs folder for a whole series, and what else the environment says; nothing that works there is left."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {OUTPUTS_VARIABLE: str(folder / "outputs"), "TMPDIR": str(folder), **variables}.items():
            patch.setenv(name, value)
        yield folder / "outputs"
        left = processes_below(folder)
        for process in left:
            process.kill()
    assert not left
