"""The parts that all HTML forms are made of: escaped elements, tables with captions, and the one style sheet.

Readable in light and in dark themes: colours are the reader's own, or tints beside another mark.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from rlguide.view.written import is_quantity, written

DARKER = "invert(.93) hue-rotate(180deg)"
"""Turns a picture drawn on white into one for a dark page; its colours keep their hue."""


def stylesheet(name: str) -> str:
    """The style sheet beside this module; `DARKER` in it stands for the filter."""
    return Path(__file__).with_name(f"{name}.css").read_text(encoding="utf-8").replace("DARKER", DARKER)


STYLE = stylesheet("elements")


class Markup(str):
    """Text that is HTML already."""


@dataclass(frozen=True)
class View:
    """Something to look at: HTML in a notebook, plain text elsewhere."""

    html: Markup
    text: str

    def _repr_html_(self) -> str:
        return page(self.html)

    def __repr__(self) -> str:
        return self.text


def page(content: Markup) -> str:
    """One output, with the style that it needs."""
    return f"<style>{STYLE}</style>{tag('div', content, class_='rlg')}"


def tag(name: str, *content: object, **attributes: object) -> Markup:
    """An element around `content`, escaped unless it is `Markup`; an attribute of `None` is left out."""
    told = "".join(
        f' {k.strip("_").replace("_", "-")}="{escape(str(v))}"' for k, v in attributes.items() if v is not None
    )
    return Markup(f"<{name}{told}>{join(*content)}</{name}>")


def join(*content: object) -> Markup:
    """The contents one after the other, escaped unless they are `Markup`."""
    return Markup("".join(part if isinstance(part, Markup) else escape(written(part)) for part in content))


def table(rows: Iterable[Sequence[object]], *, caption: str, head: Sequence[str] = ()) -> Markup:
    """A table whose first column names its rows: a column of numbers to the right with its heading, words to the left.

    A table without rows has its caption only.
    """
    rows = [[cell if isinstance(cell, Markup) else written(cell) for cell in row] for row in rows]
    kinds = ["n" if all(map(_is_quantity, column)) else None for column in zip(*rows, strict=True)]
    lines = [tag("tr", *(tag("th", cell, scope="col", class_=k) for cell, k in zip(head, kinds, strict=False)))]
    for row in rows:
        name, *cells = zip(row, kinds, strict=True)
        drawn = (tag("td", cell, class_=kind) for cell, kind in cells)
        lines.append(tag("tr", tag("th", name[0], scope="row", class_=name[1]), *drawn))
    return tag("div", tag("table", tag("caption", caption), *(lines if head else lines[1:])), class_="scroll")


def _is_quantity(cell: str) -> bool:
    return not isinstance(cell, Markup) and is_quantity(cell)


def notes(sentences: Iterable[str | None]) -> Markup:
    """One paragraph a sentence."""
    return join(*(tag("p", sentence) for sentence in sentences if sentence))


def folded(title: object, *content: object, opened: bool = False) -> Markup:
    """Content behind a title that opens it."""
    return tag("details", tag("summary", title), *content, open="" if opened else None)
