"""The parts that all HTML forms are made of: escaped elements, tables with captions, and the one style sheet.

Readable in light and in dark themes: colours are the reader's own, or tints beside another mark.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from rlguide.view.written import is_quantity, written

DARKER = "invert(.93) hue-rotate(180deg)"
"""Turns a picture drawn on white into one for a dark page; its colours keep their hue."""
STYLE = """
div.rlg{max-width:60em;line-height:1.45}
div.rlg.rlg table{border-collapse:collapse;margin:.4em 0 .8em;font-size:.93em;color:inherit}
div.rlg.rlg caption{caption-side:top;text-align:left;font-weight:600;padding:.2em 0;color:inherit}
div.rlg.rlg th,div.rlg.rlg td{text-align:left;vertical-align:top;padding:.25em .7em;min-width:5.5em;max-width:46em;
border-bottom:1px solid rgba(128,128,128,.4);white-space:normal;overflow-wrap:anywhere}
div.rlg.rlg th{font-weight:600;min-width:0;overflow-wrap:break-word}div.rlg.rlg th[scope=col]{white-space:nowrap}
div.rlg.rlg .n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap;min-width:0}
div.rlg .card{border:1px solid rgba(128,128,128,.5);border-left-width:5px;
border-radius:4px;padding:.5em .9em;margin:.3em 0}
div.rlg .card p,div.rlg p{margin:.25em 0}div.rlg .scroll{overflow-x:auto}div.rlg progress{width:14em;max-width:60%}
div.rlg .text{font-family:monospace;white-space:pre-wrap;overflow-wrap:anywhere}div.rlg .soft{opacity:.75}
div.rlg u{background:rgba(46,160,67,.25);text-decoration:underline;text-decoration-thickness:2px}
div.rlg s{background:rgba(224,60,60,.3);text-decoration:line-through;text-decoration-thickness:2px}
div.rlg b{background:rgba(210,150,0,.3);border:1px dashed;border-radius:3px;padding:0 .15em;margin:0 .15em;cursor:help}
div.rlg pre{font-family:monospace;font-size:.85em;max-height:24em;overflow:auto;white-space:pre-wrap;margin:.3em 0;
color:inherit;background:none}
div.rlg summary{cursor:pointer}div.rlg figure{margin:.4em 0}div.rlg img{width:700px;max-width:100%;border-radius:6px}
[data-jp-theme-light=false] div.rlg img,.vscode-dark div.rlg img{filter:DARKER}
""".replace("DARKER", DARKER)


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
