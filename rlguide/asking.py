"""Asks questions about a machine all at once, each with a deadline; a look that raises or hangs is a doubt."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from rlguide.records import Check, Status


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
    for thread in threads:
        thread.start()
    for question, thread in zip(asked, threads, strict=True):
        thread.join(max(0.0, started + question.deadline_s - time.monotonic()))
    late = "no answer within {0:.0f} s"
    return tuple(
        answers.get(q.id) or _check(q, Finding(Status.WARN, late.format(q.deadline_s)), q.deadline_s) for q in asked
    )


def _answer(question: Question, answers: dict[str, Check]) -> None:
    started = time.monotonic()
    try:
        finding = question.look()
    except Exception as error:  # the boundary of the promise that a check never raises
        finding = Finding(Status.WARN, f"could not be found out: {type(error).__name__}: {error}")
    answers[question.id] = _check(question, finding, time.monotonic() - started)


def _check(question: Question, finding: Finding, seconds: float) -> Check:
    return Check(
        id=question.id,
        title=question.title,
        status=finding.status,
        seen=finding.seen,
        wanted=question.wanted,
        fix=None if finding.status is Status.PASS else finding.fix,
        seconds=round(seconds, 3),
    )
