"""Copies a notebook to another folder in such a way that the links in its prose still lead somewhere."""

import json
import os
import re
from collections.abc import Collection
from pathlib import Path
from urllib.parse import quote, unquote

LINK = re.compile(r"(?<=\]\()(?![a-z]+:|[#/])([^)\s#]+)")
"""The path of a relative link or picture in Markdown."""


def copy_notebook(notebook: Path, folder: Path, *, copied: Collection[str] = ()) -> Path:
    """Copy a notebook into `folder`; its links lead to what is `copied` there too, or else where they led before."""
    content = json.loads(notebook.read_text(encoding="utf-8"))
    for cell in content["cells"]:
        if cell["cell_type"] == "markdown":
            cell["source"] = relinked("".join(cell["source"]), notebook.parent, folder, copied=copied)
    copy = folder / notebook.name
    copy.write_text(json.dumps(content, indent=1), encoding="utf-8")
    return copy


def relinked(prose: str, home: Path, folder: Path, *, copied: Collection[str] = ()) -> str:
    """`prose` from the folder `home`, for a copy in `folder`: each relative link leads where it led before.

    Links to what is `copied` along, files and folders by name, stay as they are and lead to the copy.
    """

    def led(link: re.Match[str]) -> str:
        path = Path(unquote(link[1]))
        return link[1] if path.parts[0] in copied else quote(Path(os.path.relpath(home / path, folder)).as_posix())

    return LINK.sub(led, prose)
