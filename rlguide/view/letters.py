"""Which letters of an answer count as right: the matching behind the reward, in pieces and as plain text."""

from collections.abc import Iterator
from difflib import SequenceMatcher

from rlguide.environment.reward import similarity


def letters_text(answer: str, text: str) -> str:
    """An answer below what was wanted; `=` stands under letters that count as right, `x` under the others."""
    shown = answer.replace("\n", "⏎")
    marks = "".join(("=" if right else "x") * len(piece) for piece, right in pieces(answer, text))
    return f"wanted  {text[::-1]}\nanswer  {shown}\n        {marks}\nsimilarity {similarity(answer, text):.3f}"


def pieces(answer: str, text: str) -> Iterator[tuple[str, bool]]:
    """The answer in pieces, each with whether the reward counts it: the same matching that `similarity` does."""
    end = 0
    for block in SequenceMatcher(None, answer, text[::-1]).get_matching_blocks():
        if block.a > end:
            yield answer[end : block.a], False
        if block.size:
            yield answer[block.a : block.a + block.size], True
        end = block.a + block.size
