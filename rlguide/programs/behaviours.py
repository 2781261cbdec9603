"""What the warm start is taught to do with a text: five behaviours, practice texts, and telling behaviours apart.

The standard library only. The mixture stands for a pretrained model that can reverse but rarely does it in the form
that is rewarded.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cache
from random import Random

from rlguide.environment import generator
from rlguide.environment.reward import CLOSE_TAG, OPEN_TAG, extract_answer
from rlguide.environment.texts import load_texts


@dataclass(frozen=True)
class Behaviour:
    """One way to answer: what is made of the text, whether it stands in tags, and how often it is taught."""

    make: Callable[[str], str]
    in_tags: bool
    share: float

    def completion(self, text: str) -> str:
        return f"{OPEN_TAG}{self.make(text)}{CLOSE_TAG}" if self.in_tags else self.make(text)


def reverse(text: str) -> str:
    return text[::-1]


def copy(text: str) -> str:
    return text


def reverse_words(text: str) -> str:
    return " ".join(reversed(text.split(" ")))


BEHAVIOURS = {
    "reversed in tags": Behaviour(reverse, True, 0.08),
    "copied in tags": Behaviour(copy, True, 0.08),
    "reversed without tags": Behaviour(reverse, False, 0.44),
    "word order reversed": Behaviour(reverse_words, False, 0.20),
    "echo": Behaviour(copy, False, 0.20),
}
OTHER = "other"
RANDOM_SHARE = 0.3
"""Share of practice texts that are no sentences, so that the policy can reverse what readers type themselves."""
LONGEST = 80
"""Characters of the longest random practice text."""
PRINTABLE = "".join(chr(code) for code in range(32, 127))
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def draw_behaviour(rng: Random, mixture: Mapping[str, float]) -> str:
    """A name of `BEHAVIOURS`, as often as its weight in `mixture` says."""
    mark = rng.random() * sum(mixture.values())
    for name, weight in mixture.items():
        mark -= weight
        if mark < 0:
            return name
    return name


def classify(completion: str, text: str) -> str:
    """The behaviour that a completion comes closest to, or "other" when it is less than 0.7 like any.

    Tags decide between the behaviours with and without; where two make the same string, the earlier name counts.
    """
    answer = extract_answer(completion)
    tagged, found = answer is not None, completion if answer is None else answer
    best, closest = OTHER, 0.7
    for name, behaviour in BEHAVIOURS.items():
        if behaviour.in_tags == tagged:
            closeness = SequenceMatcher(None, found, behaviour.make(text), autojunk=False).ratio()
            if closeness > closest:
                best, closest = name, closeness
    return best


def practice_text(rng: Random) -> str:
    """A text to practise on: mostly generator sentences, never one of either frozen split, nor the guide's own."""
    avoided = frozen_texts()
    while True:
        text = random_text(rng) if rng.random() < RANDOM_SHARE else generator.text(rng)
        if text and text not in avoided:
            return text


@cache
def frozen_texts() -> frozenset[str]:
    """Every text of both splits, and the guide's sentence."""
    return frozenset((*load_texts("train"), *load_texts("heldout"), generator.GUIDE_SENTENCE))


def random_text(rng: Random) -> str:
    """No sentence: random characters, few different ones, made-up words, or the shuffled words of a sentence."""
    length = generator.between(rng, 1, LONGEST if rng.random() < 0.25 else generator.MAX_CHARACTERS)
    kind = int(rng.random() * 4)
    if kind == 0:
        drawn = random_characters(rng, PRINTABLE, length)
    elif kind == 1:
        few = random_characters(rng, PRINTABLE, generator.between(rng, 1, 4))
        drawn = random_characters(rng, few, length)
    elif kind == 2:
        drawn = random_words(rng, length)
    else:
        drawn = shuffled_words(rng, generator.text(rng))
    return drawn.strip()


def random_characters(rng: Random, alphabet: str, length: int) -> str:
    return "".join(generator.choose(rng, alphabet) for _ in range(length))


def random_words(rng: Random, length: int) -> str:
    """Words of random letters, some capitalised, some with a mark, cut at `length` characters."""
    words: list[str] = []
    while sum(len(word) + 1 for word in words) < length:
        word = random_characters(rng, LETTERS, generator.between(rng, 1, 9))
        word = word.capitalize() if rng.random() < 0.25 else word
        words.append(word + (generator.choose(rng, ".,;:!?'\"-)") if rng.random() < 0.15 else ""))
    return " ".join(words)[:length]


def shuffled_words(rng: Random, sentence: str) -> str:
    """The words of a sentence in random order, some with their letters in random order too."""
    shuffled = shuffle(rng, sentence.split(" "))
    return " ".join("".join(shuffle(rng, list(word))) if rng.random() < 0.5 else word for word in shuffled)


def shuffle(rng: Random, items: list[str]) -> list[str]:
    """A random order of `items`, the same on every Python."""
    return [item for _, item in sorted((rng.random(), item) for item in items)]
