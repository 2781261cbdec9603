"""The environment `reverse-text`, under the top-level name by which verifiers finds it.

`vf-eval reverse-text …` calls `load_environment`. It is not the Hub's module of the same name, which the prime-rl
installer puts into prime-rl's own virtual environment.
"""

from __future__ import annotations  # a type alone must not load verifiers' clients of services, which takes a second

from typing import Literal

import datasets
import verifiers as vf

from rlguide.environment.reward import SYSTEM_PROMPT, TAG, similarity
from rlguide.environment.texts import load_texts
from rlguide.errors import ConfigError

HUB_DATASET = "PrimeIntellect/Reverse-Text-RL"


def load_environment(dataset: Literal["rlguide", "hub"] = "rlguide") -> vf.Environment:
    """One turn: a text goes in, its reversal in tags is wanted.

    `dataset="rlguide"` trains and evaluates on the packaged splits, in their fixed order, without a network;
    `"hub"` trains on the Hub's data set, which has no held-out part, so that verifiers evaluates on training rows.
    Raises `ConfigError` for any other name.
    """
    if dataset not in ("rlguide", "hub"):
        raise ConfigError(f"unknown dataset {dataset!r}", hint='use "rlguide" or "hub"')
    packaged = dataset == "rlguide"
    parser = vf.XMLParser([TAG], answer_field=TAG)
    return vf.SingleTurnEnv(
        dataset=(lambda: rows(load_texts("train"))) if packaged else hub_rows,
        eval_dataset=(lambda: rows(load_texts("heldout"))) if packaged else None,
        system_prompt=SYSTEM_PROMPT,
        parser=parser,
        rubric=vf.Rubric(funcs=[similarity_reward], parser=parser),
    )


def similarity_reward(parser: vf.Parser, completion: vf.Messages, answer: str) -> float:
    """Similarity of the answer in tags to `answer`, the true reversal; 0 without an answer."""
    found = parser.parse_answer(completion)
    return similarity(found, answer[::-1]) if found else 0.0


def rows(texts: tuple[str, ...]) -> datasets.Dataset:
    """One row a text, with its true reversal as the answer."""
    return datasets.Dataset.from_dict({"question": list(texts), "answer": [text[::-1] for text in texts]})


def hub_rows() -> datasets.Dataset:
    """The training rows of the Hub's data set; downloads it."""
    return rows(tuple(datasets.load_dataset(HUB_DATASET, split="train")["prompt"]))
