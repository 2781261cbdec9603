"""Installs an engine, part by part: each says its command, is left out when it is there already, and can be repeated.

Only prime-rl is installed; the embedded engine comes with rlguide, and is looked at.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from rlguide import checks
from rlguide.asking import Finding
from rlguide.checkout import checkout_place, difference_page, reason_against, venv_python
from rlguide.errors import EngineMissing
from rlguide.prime_rl_parts import GUIDE, GUIDE_POLICY, Home, Parts, Say, Work
from rlguide.records import Record
from rlguide.view.elements import Markup, View, join, notes, table, tag
from rlguide.view.written import table as written_table

UNSEEN = "Disk, network and GPUs are looked at by: rlguide doctor --engine prime-rl --network"
"""Below what an installation would do."""

Ask = Callable[[str], object]
"""Called with a question; raises to end."""


class Part(Record):
    """One part of an installation, and where it stands."""

    title: str
    state: Literal["there", "done", "to do", "cannot be done"]
    command: str
    """As a shell takes it."""
    why: str
    download: str = ""
    """How much the command gets from the internet; empty for nothing."""
    seen: str | None = None
    """What is there, or why it cannot be done here."""
    fix: str | None = None
    """What to do when it cannot be done."""

    @property
    def told(self) -> str:
        """What is there, what is to be done, or what is in the way."""
        return f"{self.seen}; fix: {self.fix}" if self.fix else self.seen or self.why


@dataclass(frozen=True, repr=False)
class Installation(View):
    """What was found and done, or what would be."""

    parts: tuple[Part, ...]
    imports: Mapping[str, Finding]

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
    place = checkout_place(checkout)
    found = Parts(place, policy=policy or GUIDE_POLICY, wheel=wheel, say=say, home=home)
    parts: list[Part] = []
    for work in found.work():
        parts.append(_carried_out(work, dry_run=dry_run, ask=ask, say=say))
        if parts[0].state == "cannot be done" and place.exists():  # it holds something else: no place for the rest
            break
    html, plain = _shown(place, parts, found.imports)
    return Installation(html=html, text=plain, parts=tuple(parts), imports=found.imports)


def _embedded(engine: str) -> Installation:
    """What an engine that comes with rlguide is made of. Raises `EngineMissing` when something cannot be imported."""
    report = checks.require("packages", engine=engine)
    imports = {check.title: Finding(check.status, check.seen) for check in report.checks}
    parts = tuple(Part(title=c.title, state="there", command="", why=c.wanted, seen=c.seen) for c in report.checks)
    rows = [(part.title, part.seen) for part in parts]
    head = f"What the engine {report.engine} imports, and from where" if rows else f"{engine} needs no packages"
    html = table(rows, caption=head)
    return Installation(html=html, text=f"{head}\n{written_table(rows)}".rstrip(), parts=parts, imports=imports)


def _carried_out(work: Work, *, dry_run: bool, ask: Ask | None, say: Say) -> Part:
    part = partial(Part, title=work.title, command=work.command, why=work.why, download=work.download)
    try:
        if seen := work.there():
            return part(state="there", seen=seen)
        work.require()
    except EngineMissing as error:
        if dry_run:
            return part(state="cannot be done", seen=error.message.partition("\n")[0], fix=error.hint)
        raise
    if dry_run:
        return part(state="to do")
    say(f"{work.title}: {work.command}")
    if ask and work.is_long:
        ask(f"This downloads {work.download}. Go on?")
    work.act()
    return part(state="done", seen=work.there())


def _shown(place: Path, parts: Sequence[Part], imports: Mapping[str, Finding]) -> tuple[Markup, str]:
    """The HTML and the plain form."""
    if parts[0].state == "cannot be done" and reason_against(place) is None:
        page = difference_page(place)
        return page.html, page.text
    head = f"prime-rl in {place}; it runs in {venv_python(place)}, and this program in {sys.executable}."
    rows = [(part.title, part.state, part.told) for part in parts]
    tried = [(name, found.seen) for name, found in imports.items()] if venv_python(place).exists() else []
    titles = ((part, f", downloads {part.download}" * bool(part.download)) for part in parts)
    commands = [f"{p.title}{size}:\n  {p.command}" for p, size in titles if p.state not in {"there", "done"}]
    commands += [UNSEEN] if commands else []
    drawn = [notes([head]), table(rows, caption="Parts of the installation of prime-rl")]
    drawn += [table(tried, caption="What its Python imports")] if tried else []
    drawn += [tag("pre", "\n".join(commands))] if commands else []
    return join(*drawn), "\n".join([head, *map(written_table, filter(None, (rows, tried))), *commands])
