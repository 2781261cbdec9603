"""What the installed torch was built for, read from its files: importing it would take seconds, and may crash."""

import ast
import importlib.util
from pathlib import Path
from typing import NamedTuple

from rlguide.child import answer_of

ANSWER_S = 4.0
FIND = "import importlib.util as u; found = u.find_spec('torch'); print(found and found.origin or '')"


class TorchBuild(NamedTuple):
    """One build of torch."""

    version: str
    cuda: tuple[int, int] | None
    """`None` for a build without CUDA."""
    hip: str | None = None
    """Version of ROCm, for AMD's GPUs."""


def torch_build(folder: Path | None = None) -> TorchBuild | None:
    """The torch in `folder`, by default the one that this Python would import; `None` when there is none.

    Raises `ValueError` or `OSError` for one that does not say what it is.
    """
    if folder is None:
        spec = importlib.util.find_spec("torch")
        if spec is None or spec.origin is None:
            return None
        folder = Path(spec.origin).parent
    told = {name: value for node in ast.parse(_source(folder)).body for name, value in _assigned(node)}
    if not isinstance(told.get("__version__"), str) or "cuda" not in told:
        raise ValueError(f"{folder / 'version.py'} does not say what torch was built for")
    major, _, minor = (told["cuda"] or "").partition(".")
    cuda = (int(major), int(minor.partition(".")[0])) if major else None
    return TorchBuild(told["__version__"], cuda, told.get("hip"))


def torch_folder(python: Path) -> Path | None:
    """Where another Python has its torch; `None` for none. Raises `OSError` or `ValueError` if it cannot say."""
    answer = answer_of((python, "-P", "-c", FIND), limit_s=ANSWER_S)
    if answer.code != 0:
        raise ValueError(f"{python} does not say where its torch is: {answer.said or answer.code}")
    return Path(answer.out.strip()).parent if answer.out.strip() else None


def _source(folder: Path) -> str:
    return (folder / "version.py").read_text(encoding="utf-8")


def _assigned(node: ast.stmt) -> list[tuple[str, object]]:
    """Names and values of an assignment of a constant, such as `cuda: Optional[str] = "12.8"`."""
    if not isinstance(node, ast.Assign | ast.AnnAssign) or not isinstance(node.value, ast.Constant):
        return []
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return [(target.id, node.value.value) for target in targets if isinstance(target, ast.Name)]
