"""Settings as a TOML file: written anew with every key explained, or changed in place where a file is there.

A setting that is not set stands there too, as a comment with an example: the first of its field's `examples`.
"""

from typing import Any

import tomlkit
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from rlguide.view.written import as_toml


def explained_toml(settings: BaseModel) -> str:
    """All of `settings`, each under a comment that explains it; what is not set is a comment itself."""
    return tomlkit.dumps(_filled(tomlkit.document(), settings, explain=True))


def edited_toml(text: str, settings: BaseModel) -> str:
    """The file `text` with the values of `settings`; what says the same already is left as it stands.

    Raises what tomlkit does. TOML can be written in many ways, not all of which survive: look at what comes back.
    """
    return tomlkit.dumps(_filled(tomlkit.parse(text), settings, explain=False))


def _filled(table: Any, settings: BaseModel, *, explain: bool) -> Any:
    """A tomlkit table with the fields of `settings` put into it."""
    for name, field in type(settings).model_fields.items():
        value = getattr(settings, name)
        if value is None:
            table.pop(name, None)
            if explain:
                _explain(table, field)
                table.add(tomlkit.comment(f"{name} = {as_toml(field.examples[0])}"))
        elif isinstance(value, BaseModel):
            if name in table or explain or value.model_dump(exclude_none=True):
                _filled(table.setdefault(name, tomlkit.table()), value, explain=explain)
        elif name not in table or not _says(table[name], value):
            if explain:
                _explain(table, field)
            table[name] = _item(value, explain=explain)
    return table


def _explain(table: Any, field: FieldInfo) -> None:
    if field.description:
        table.add(tomlkit.comment(field.description.replace("\n", " ")))


def _item(value: Any, *, explain: bool) -> Any:
    """A value as tomlkit has it; a list of tables with their own explanations."""
    if not _holds_tables(value):
        return tomlkit.item(value)
    tables = tomlkit.aot()
    for settings in value:
        tables.append(_filled(tomlkit.table(), settings, explain=explain))
    return tables


def _says(held: Any, value: Any) -> bool:
    """True when what stands in the file is `value`."""
    there = held.unwrap()
    return value == ([type(value[0]).model_validate(table) for table in there] if _holds_tables(value) else there)


def _holds_tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], BaseModel)
