"""The reward: a table of hostile answers, and properties that hold for every answer."""

import pytest
from hostile_answers import HOSTILE, Case, tagged
from hypothesis import given
from hypothesis import strategies as st

from rlguide.environment.reward import extract_answer, prompt_messages, reward, right_form, similarity


@pytest.mark.parametrize("case", HOSTILE, ids=[case.why for case in HOSTILE])
def test_hostile_answer_gets_the_reward_worked_out_by_hand(case: Case) -> None:
    assert reward(case.completion, case.text) == pytest.approx(case.reward, abs=1e-12)


def test_table_names_each_case_once() -> None:
    assert len({case.why for case in HOSTILE}) == len(HOSTILE) >= 20


@given(st.text(), st.text(min_size=1))
def test_reward_is_between_0_and_1_and_0_without_tags(completion: str, text: str) -> None:
    found = reward(completion, text)

    assert 0 <= found <= 1
    assert right_form(completion) or found == 0


@given(
    st.text(st.characters(codec="ascii", exclude_characters="<>"), min_size=1).filter(lambda text: text == text.strip())
)
def test_exact_reversal_and_nothing_else_gets_1(text: str) -> None:
    assert reward(tagged(text[::-1]), text) == 1
    assert reward(tagged(text[::-1] + "x"), text) < 1


def test_right_form_is_about_the_form_only() -> None:
    assert right_form(tagged("wrong"))
    assert right_form(tagged(""))
    assert not right_form("<reversed_text>open")


def test_answer_is_none_without_tags_and_empty_with_empty_tags() -> None:
    assert extract_answer("dcba") is None
    assert extract_answer(tagged(" ")) == ""


def test_similarity_ignores_tags() -> None:
    assert similarity("dcba", "abcd") == 1


def test_prompt_is_the_published_system_turn_and_the_text_alone() -> None:
    system, user = prompt_messages("abcd")

    assert system["content"] == ("Reverse the text character-by-character. Put your answer in <reversed_text> tags.")
    assert user == {"role": "user", "content": "abcd"}
