"""The parameters of a notebook, checked: unknown names and wrong types are refused before anything starts.

papermill only warns about a name that it does not know and takes 2.5 for a whole number; both are seen here, in the
variables of the cell that calls `parameters(globals())`. Pure: nothing is imported, read or started.
"""

import ast
import difflib
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise, takewhile
from typing import Any

from pydantic import ValidationError

from rlguide.errors import ConfigError
from rlguide.records import Parameters
from rlguide.redact import looks_secret

NAMES = tuple(Parameters.model_fields)
INJECTED = "# Parameters"
"""First line of the cell that papermill adds."""
PLAIN = (bool, int, float, str, list, tuple, dict, type(None))


def parameters(namespace: Mapping[str, Any]) -> Parameters:
    """The parameters that a notebook sets; call it as `parameters(globals())` in the cell after them.

    In a notebook these are the names assigned in the cells of plain assignments right before the current one, or
    right before an earlier run of it, so that running all cells twice works. Elsewhere they are all names bound to
    plain data. Raises `ConfigError` for an unknown name, a wrong type, or values that a later cell overwrites.
    """
    cells = namespace.get("In")
    names = _names_in_cells(cells) if isinstance(cells, list) else set()
    return check_parameters({name: namespace[name] for name in names or _plain_names(namespace) if name in namespace})


def check_parameters(values: Mapping[str, Any]) -> Parameters:
    """`values` as `Parameters`. Raises `ConfigError` that lists every unknown name, wrong type and empty sentence.

    Which letters a policy can spell is its own matter: trying a text says so before it loads anything.
    """
    problems = [_unknown(name) for name in values if name not in NAMES]
    try:
        checked = Parameters.model_validate({name: value for name, value in values.items() if name in NAMES})
    except ValidationError as error:
        wrong = dict.fromkeys(str(problem["loc"][0]) for problem in error.errors())
        problems += [_wrong_type(name, values[name]) for name in wrong]
    if isinstance(sentence := values.get("sentence"), str) and not sentence.strip():
        problems.append(f"sentence = {sentence!r}: nothing to reverse; type a sentence")
    if not problems:
        return checked
    hint = f"parameters: {', '.join(NAMES)}"
    if any(looks_secret(name) for name in values if name not in NAMES):
        hint = "a secret is never a parameter: set it in the environment, and delete the notebook that holds it"
    raise ConfigError("\n".join(problems), hint=hint)


def _unknown(name: str) -> str:
    if looks_secret(name):
        return f"{name!r} is called like a secret, and papermill would write its value into the notebook"
    close = difflib.get_close_matches(name, NAMES, n=1)
    return f"unknown parameter {name!r}" + (f"; did you mean {close[0]!r}?" if close else "")


def _wrong_type(name: str, value: Any) -> str:
    annotation = Parameters.model_fields[name].annotation
    wanted = str(annotation).replace(" | None", " or None")
    return f"{name} = {value!r} is of type {type(value).__name__}; wanted: {wanted}"


def _names_in_cells(cells: Sequence[str]) -> set[str]:
    """Names assigned in the parameter cells of the latest run of the current cell, the last one of `cells`."""
    runs = [number for number, source in enumerate(cells) if source == cells[-1]]
    for before, here in reversed(list(pairwise([-1, *runs]))):
        window = cells[before + 1 : here]
        block = list(takewhile(_is_literal, reversed(window)))
        names = {name for source in block for name in _assigned(source)}
        if names & set(NAMES):
            _refuse_overwritten(window[: len(window) - len(block)])
            return names
    return set()


def _refuse_overwritten(earlier: Sequence[str]) -> None:
    """papermill puts its values first in a notebook without a tagged cell, and the notebook's own undo them."""
    injected = [source for source in earlier if source.startswith(INJECTED) and _is_literal(source)]
    lost = sorted({name for source in injected for name in _assigned(source)})
    if lost:
        hint = "give the notebook's parameters cell the tag `parameters`"
        told = f"parameters from papermill came before the notebook's own and have no effect: {', '.join(lost)}"
        raise ConfigError(told, hint=hint)


def _is_literal(source: str) -> bool:
    """True for a cell that only assigns plain data to names; comments and blank cells too."""
    try:
        nodes = ast.parse(source).body
        return all(isinstance(node, ast.Assign | ast.AnnAssign) and _literal(node) for node in nodes)
    except (SyntaxError, ValueError):  # a magic, or something other than plain data
        return False


def _literal(node: ast.Assign | ast.AnnAssign) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    if node.value is not None:
        ast.literal_eval(node.value)
    return all(isinstance(target, ast.Name) for target in targets)


def _assigned(source: str) -> Iterator[str]:
    return (
        node.id
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    )


def _plain_names(namespace: Mapping[str, Any]) -> set[str]:
    return {
        name
        for name, value in namespace.items()
        if not name.startswith("_") and name not in {"In", "Out"} and isinstance(value, PLAIN)
    }
