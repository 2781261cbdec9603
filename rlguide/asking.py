"""Asks questions about a machine all at once, each with a deadline; a look that raises or hangs is a doubt."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from rlguide.errors import RlguideError
from rlguide.records import Check, Status
from rlguide.redact import redacted

Found = TypeVar("Found")
LONGEST = 500
"""Characters of what was seen; a program may have said anything."""
ASK_US = "try again; if it stays so, ask others and paste what `rlguide doctor --report` prints"

LIMITS = "look at how many processes, and how much memory, are allowed (ulimit -a)"


class Finding(NamedTuple):
    """What one look at the machine gave."""

    status: Status
    seen: str
    fix: str | None = None


class Question(NamedTuple):
    """One thing to find out, and within how many seconds."""

    id: str
    title: str
    wanted: str
    look: Callable[[], Finding]
    deadline_s: float = 5.0


def ask(asked: Sequence[Question]) -> tuple[Check, ...]:
    """Answer all questions at once; one that does not end in time is answered with a warning."""
    answers: dict[str, Check] = {}
    threads = [threading.Thread(target=_answer, args=(question, answers), daemon=True) for question in asked]
    started = time.monotonic()
    for question, thread in zip(asked, threads, strict=True):
        try:
            thread.start()
        except RuntimeError as error:  # no more threads, or no memory for one
            answers[question.id] = _check(question, Finding(Status.WARN, f"could not be asked: {error}", LIMITS), 0.0)
    for question, thread in zip(asked, threads, strict=True):
        if question.id not in answers:
            thread.join(max(0.0, started + question.deadline_s - time.monotonic()))
    return tuple(answers.get(question.id) or _late(question) for question in asked)


def once(find: Callable[[], Found]) -> Callable[[], Found]:
    """`find`, called by whoever needs its result first; the others wait for it, and get the same."""
    lock, found = threading.Lock(), []

    def get() -> Found:
        with lock:
            if not found:
                found.append(find())
        return found[0]

    return get


def _answer(question: Question, answers: dict[str, Check]) -> None:
    started = time.monotonic()
    try:
        finding = question.look()
    except RlguideError as error:
        finding = Finding(Status.WARN, f"could not be found out: {error.message}", error.hint or ASK_US)
    except Exception as error:  # the boundary of the promise that a check never raises
        finding = Finding(Status.WARN, f"could not be found out: {type(error).__name__}: {error}", ASK_US)
    answers[question.id] = _check(question, finding, time.monotonic() - started)


def _late(question: Question) -> Check:
    seconds = question.deadline_s
    return _check(question, Finding(Status.WARN, f"no answer within {seconds:g} s", ASK_US), seconds)


def _check(question: Question, finding: Finding, seconds: float) -> Check:
    return Check(
        id=question.id,
        title=question.title,
        status=finding.status,
        seen=_in_a_line(finding.seen),
        wanted=question.wanted,
        fix=None if finding.status is Status.PASS or finding.fix is None else _in_a_line(finding.fix),
        seconds=round(seconds, 3),
    )


def _in_a_line(text: str) -> str:
    """`text` as a reader may see it: without secrets, line breaks and what a terminal would obey."""
    words = " ".join(redacted(text).split())
    return "".join(letter if letter.isprintable() else "�" for letter in words)[:LONGEST]
