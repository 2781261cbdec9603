"""The warm start's mixture: practice texts, shares, and telling behaviours apart."""

from collections import Counter
from random import Random

import pytest

from rlguide.environment import generator
from rlguide.environment.texts import load_texts
from rlguide.programs.behaviours import BEHAVIOURS, OTHER, classify, draw_behaviour, frozen_texts, practice_text


class FrozenFirst(Random):
    """Says "a sentence" once, and then repeats the very numbers that the frozen texts were made of."""

    asked = False

    def random(self) -> float:
        if self.asked:
            return super().random()
        self.asked = True
        return 0.99


def test_warm_start_never_practises_a_frozen_text() -> None:
    assert generator.text(Random(generator.FROZEN_SEED)) in frozen_texts()

    practised = practice_text(FrozenFirst(generator.FROZEN_SEED))

    assert practised not in frozen_texts()


def test_practice_texts_are_fixed_by_their_seed_and_hold_all_printable_characters() -> None:
    rng, again = Random(5), Random(5)

    practised = [practice_text(rng) for _ in range(2000)]

    assert practised == [practice_text(again) for _ in range(2000)]
    assert set("".join(practised)) == {chr(code) for code in range(32, 127)}
    assert all(text == text.strip() and 1 <= len(text) <= 80 for text in practised)


def test_behaviours_are_drawn_as_often_as_their_weights_say() -> None:
    rng, weights = Random(3), {"echo": 3.0, "copied in tags": 1.0, "reversed in tags": 0.0}

    drawn = Counter(draw_behaviour(rng, weights) for _ in range(8000))

    assert drawn["echo"] / 8000 == pytest.approx(0.75, abs=0.02)
    assert drawn["reversed in tags"] == 0


@pytest.mark.parametrize("name", BEHAVIOURS)
def test_each_behaviour_is_recognised_also_with_a_wrong_letter(name: str) -> None:
    text = load_texts("heldout")[0]
    completion = BEHAVIOURS[name].completion(text)

    assert classify(completion, text) == name
    assert classify(completion.replace("4", "#"), text) == name
    assert classify("something else altogether", text) == OTHER
