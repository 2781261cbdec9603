"""Settings as a TOML file: written anew with every key explained, or changed in place where a file is there.

A setting that is not set stands there too, as a comment with an example: the first of its field's `examples`.
"""

from typing import Any

import tomlkit
from pydantic import BaseModel

from rlguide.view.written import as_toml


def explained_toml(settings: BaseModel) -> str:
    """All of `settings`, each under a comment that explains it; what is not set is a comment itself."""
    document = tomlkit.document()
    _fill(document, settings, explain=True)
    return tomlkit.dumps(document)


def edited_toml(text: str, settings: BaseModel) -> str:
    """The file `text` with the values of `settings`; what says the same already is left as it stands.

    Raises what tomlkit does. TOML can be written in many ways, not all of which survive: look at what comes back.
    """
    document = tomlkit.parse(text)
    _fill(document, settings, explain=False)
    return tomlkit.dumps(document)


def _fill(table: Any, settings: BaseModel, *, explain: bool) -> None:
    """Put the fields of `settings` into a tomlkit table."""
    for name, field in type(settings).model_fields.items():
        value = getattr(settings, name)
        if isinstance(value, BaseModel):
            if name in table or explain or value.model_dump(exclude_none=True):
                _fill(table.setdefault(name, tomlkit.table()), value, explain=explain)
        elif isinstance(value, list) and isinstance(value[0], BaseModel):
            for inner, each in zip(table.setdefault(name, [{} for _ in value]), value, strict=True):
                _fill(inner, each, explain=explain)
        else:
            if explain and field.description:
                table.add(tomlkit.comment(field.description.replace("\n", " ")))
            if value is None and explain:
                table.add(tomlkit.comment(f"{name} = {as_toml(field.examples[0])}"))
            elif value is None:
                table.pop(name, None)
            elif name not in table or table[name] != value:
                table[name] = tomlkit.item(value)
