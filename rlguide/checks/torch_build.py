"""What the installed torch was built for, read from its files: importing it would take seconds, and may crash."""

import ast
import importlib.util
from pathlib import Path
from typing import NamedTuple

from rlguide.child import answer_of

ANSWER_S = 4.0
FIND = "import importlib.util as u; found = u.find_spec('torch'); print('torch at', found and found.origin or '')"


class TorchBuild(NamedTuple):
    """One build of torch."""

    version: str
    cuda: tuple[int, int] | None
    """`None` for a build without CUDA."""
    hip: str | None = None
    """Version of ROCm, for AMD's GPUs."""


def torch_build(folder: Path | None) -> TorchBuild | None:
    """The torch in `folder`; `None` for none. Raises `ValueError` or `OSError` for one that does not say what it is."""
    if folder is None:
        return None
    told = {name: value for node in ast.parse(_source(folder)).body for name, value in _assigned(node)}
    if not isinstance(told.get("__version__"), str) or "cuda" not in told:
        raise ValueError(f"{folder / 'version.py'} does not say what torch was built for")
    major, _, minor = (told["cuda"] or "").partition(".")
    cuda = (int(major), int(minor.partition(".")[0])) if major else None
    return TorchBuild(told["__version__"], cuda, told.get("hip"))


def torch_folder(python: Path | None = None) -> Path | None:
    """Where this Python, or another, has its torch; `None` for none. Raises `OSError` or `ValueError` if unknown."""
    if python is None:
        spec = importlib.util.find_spec("torch")
        return Path(spec.origin).parent if spec and spec.origin else None
    answer = answer_of((python, "-P", "-c", FIND), limit_s=ANSWER_S)
    if answer.code != 0:
        raise ValueError(f"{python} does not say where its torch is: {answer.said or answer.code}")
    told = answer.out.rpartition("torch at ")[2].strip()  # Python may print more when it starts
    return Path(told).parent if told else None


def _source(folder: Path) -> str:
    return (folder / "version.py").read_text(encoding="utf-8")


def _assigned(node: ast.stmt) -> list[tuple[str, object]]:
    """Names and values of an assignment of a constant, such as `cuda: Optional[str] = "12.8"`."""
    if not isinstance(node, ast.Assign | ast.AnnAssign) or not isinstance(node.value, ast.Constant):
        return []
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return [(target.id, node.value.value) for target in targets if isinstance(target, ast.Name)]
