"""Which letters of an answer count as right, and where some are missing: the matching behind the reward, in pieces
and as plain text."""

from collections.abc import Iterator
from difflib import SequenceMatcher
from enum import Enum

from rlguide.environment.reward import similarity

CARET = "‸"
"""Stands where letters are missing, as a proof-reader writes it."""


class Mark(Enum):
    """What a piece of an answer is worth; the value is its sign in plain text."""

    RIGHT = "="
    WRONG = "x"
    MISSING = CARET
    """Letters of what was wanted that are not in the answer."""


def letters_text(answer: str, text: str) -> str:
    """An answer below what was wanted, each letter with its sign below it, and a caret where letters are missing."""
    shown, signs = "", ""
    for piece, mark in pieces(answer.replace("\n", "⏎"), text):
        shown += CARET if mark is Mark.MISSING else piece
        signs += " " if mark is Mark.MISSING else mark.value * len(piece)
    key = f"        = counts as right, x does not, {CARET} letters are missing here"
    lines = (f"wanted  {text[::-1]}", f"answer  {shown}", f"        {signs}".rstrip(), key)
    return "\n".join([*lines, f"similarity {similarity(answer, text):.3f}"])


def pieces(answer: str, text: str) -> Iterator[tuple[str, Mark]]:
    """The answer in pieces, with those that are missing in it: the same matching that `similarity` does."""
    wanted, end, wanted_end = text[::-1], 0, 0
    for block in SequenceMatcher(None, answer, wanted).get_matching_blocks():
        if block.a > end:
            yield answer[end : block.a], Mark.WRONG
        if block.b > wanted_end:
            yield wanted[wanted_end : block.b], Mark.MISSING
        if block.size:
            yield answer[block.a : block.a + block.size], Mark.RIGHT
        end, wanted_end = block.a + block.size, block.b + block.size
