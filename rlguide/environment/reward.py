"""The task's prompt and reward: what is asked of the policy, and how similar an answer is to the true reversal.

The standard library only. The verifiers environment scores with these functions, so by hand, in training and in an
evaluation the same completion gets the same reward.
"""

import re
from difflib import SequenceMatcher

SYSTEM_PROMPT = "Reverse the text character-by-character. Put your answer in <reversed_text> tags."
"""Word for word what the published environment and warm start use; another wording would be another task."""
TAG = "reversed_text"
OPEN_TAG, CLOSE_TAG = f"<{TAG}>", f"</{TAG}>"
ANSWER = re.compile(f"{OPEN_TAG}(.*?){CLOSE_TAG}", re.DOTALL)


def prompt_messages(text: str) -> list[dict[str, str]]:
    """The chat that asks for the reversal of `text`."""
    return [{"role": "system", "content": SYSTEM_PROMPT}, {"role": "user", "content": text}]


def extract_answer(completion: str) -> str | None:
    """What stands in the first pair of tags, without blanks around it; `None` without such a pair.

    >>> extract_answer("<reversed_text> cba </reversed_text>")
    'cba'
    """
    found = ANSWER.search(completion)
    return found.group(1).strip() if found else None


def right_form(completion: str) -> bool:
    """True when the completion holds an answer between the tags, be it a wrong or an empty one."""
    return extract_answer(completion) is not None


def similarity(answer: str, text: str) -> float:
    """How similar `answer` is to the true reversal of `text`: 0 to 1, 1 only for the exact reversal.

    This is `difflib`'s ratio 2·M / T, with M the matched characters and T those of both strings, with its default
    heuristic: in a reversal of 200 characters or more, characters that make up over 1 % of it start no match.

    >>> similarity("cba", "abc")
    1.0
    """
    return SequenceMatcher(None, answer, text[::-1]).ratio()


def reward(completion: str, text: str) -> float:
    """Reward of one completion, 0 to 1: the similarity of its answer, and 0 without an answer in tags."""
    answer = extract_answer(completion)
    return similarity(answer, text) if answer else 0.0
