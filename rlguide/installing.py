"""Installs an engine, part by part: each says its command, is left out when it is there already, and can be repeated.

Only prime-rl is installed; the embedded engine comes with rlguide, and is looked at.
"""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rlguide import checks
from rlguide.checkout import DEFAULT, VARIABLE, difference_page, reason_against, venv_python
from rlguide.errors import EngineMissing
from rlguide.paths import absolute
from rlguide.prime_rl_parts import GUIDE, GUIDE_POLICY, Home, Parts, Say, Work
from rlguide.readiness import Import
from rlguide.records import Record
from rlguide.view.elements import Markup, View, join, notes, table, tag
from rlguide.view.written import table as written_table

Ask = Callable[[str], object]
"""Called with a question; raises to end."""


class Part(Record):
    """One part of an installation, and where it stands."""

    title: str
    state: Literal["there", "done", "to do", "refused"]
    command: str
    """As a shell takes it."""
    why: str
    seen: str | None = None
    """What is there, or why not."""


@dataclass(frozen=True, repr=False)
class Installation(View):
    """What was found and done, or what would be."""

    parts: tuple[Part, ...]
    imports: Mapping[str, Import]

    @property
    def is_complete(self) -> bool:
        """True when nothing is left to do."""
        return all(part.state in {"there", "done"} for part in self.parts)


def install(
    engine: str = "auto",
    *,
    checkout: str | Path | None = None,
    policy: str | None = None,
    wheel: str | None = None,
    dry_run: bool = False,
    ask: Ask | None = None,
    say: Say = print,
    home: Home = GUIDE,
) -> Installation:
    """Install prime-rl in `checkout` (default: `$RLGUIDE_PRIME_RL`, else `~/prime-rl`); another engine is looked at.

    `policy` is downloaded too, unless it is a folder (default: the run guide's). `wheel` is an address or a file of
    the environment, instead of the run guide's. With `dry_run` nothing is changed. `ask` is called before what takes
    long. Raises `EngineMissing` with what failed and what to do; another call goes on from there.

    >>> install("prime-rl", dry_run=True).parts[0].title  # doctest: +SKIP
    'source'
    """
    if engine != "prime-rl":
        return _embedded(engine)
    place = absolute(Path(checkout or os.environ.get(VARIABLE) or DEFAULT))
    found = Parts(place, policy=policy or GUIDE_POLICY, wheel=wheel, say=say, home=home)
    parts: list[Part] = []
    for work in found.work():
        parts.append(_carried_out(work, dry_run=dry_run, ask=ask, say=say))
        if parts[-1].state == "refused":
            break
    html, plain = _shown(place, parts, found.imports)
    return Installation(html=html, text=plain, parts=tuple(parts), imports=found.imports)


def _embedded(engine: str) -> Installation:
    """What an engine that comes with rlguide is made of. Raises `EngineMissing` when something cannot be imported."""
    report = checks.require("packages", engine=engine)
    imports = {check.title: Import(True, check.seen) for check in report.checks}
    parts = tuple(Part(title=c.title, state="there", command="", why=c.wanted, seen=c.seen) for c in report.checks)
    rows = [(part.title, part.seen) for part in parts]
    head = f"What the engine {report.engine} imports, and from where" if rows else f"{engine} needs no packages"
    html = table(rows, caption=head)
    return Installation(html=html, text=f"{head}\n{written_table(rows)}".rstrip(), parts=parts, imports=imports)


def _carried_out(work: Work, *, dry_run: bool, ask: Ask | None, say: Say) -> Part:
    def part(state: str, seen: str | None) -> Part:
        return Part(title=work.title, state=state, command=work.command, why=work.why, seen=seen)

    try:
        if seen := work.there():
            return part("there", seen)
    except EngineMissing as error:
        if dry_run:
            return part("refused", error.message.partition("\n")[0])
        raise
    if dry_run:
        return part("to do", None)
    say(f"{work.title}: {work.command}")
    if ask and work.takes:
        ask(f"This takes {work.takes}. Go on?")
    work.act()
    return part("done", work.there())


def _shown(place: Path, parts: Sequence[Part], imports: Mapping[str, Import]) -> tuple[Markup, str]:
    """The HTML and the plain form."""
    if parts[-1].state == "refused" and reason_against(place) is None:
        page = difference_page(place)
        return page.html, page.text
    head = f"prime-rl in {place}; it runs in {venv_python(place)}, and this program in {sys.executable}."
    rows = [(part.title, part.state, part.seen or part.why) for part in parts]
    tried = [(name, found.seen) for name, found in imports.items()] if venv_python(place).exists() else []
    commands = [f"{part.title}:\n  {part.command}" for part in parts if part.state == "to do"]
    drawn = [notes([head]), table(rows, caption="Parts of the installation of prime-rl")]
    drawn += [table(tried, caption="What its Python imports")] if tried else []
    drawn += [tag("pre", "\n".join(commands))] if commands else []
    return join(*drawn), "\n".join([head, *map(written_table, filter(None, (rows, tried))), *commands])
