"""Measures what a policy does on the held-out texts: its behaviours, its reward, and what that reward is made of."""

import time
from collections import Counter
from pathlib import Path
from statistics import fmean

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerFast, set_seed

from rlguide.environment.generator import GUIDE_SENTENCE
from rlguide.environment.reward import OPEN_TAG, prompt_messages, reward, right_form
from rlguide.environment.texts import load_texts
from rlguide.programs.behaviours import BEHAVIOURS, OTHER, classify
from rlguide.programs.complete import complete


def measure(folder: Path, *, seed: int, samples_per_text: int, limit: int | None = None) -> dict[str, object]:
    """Samples the policy in `folder` at temperature 1, and greedily with a begun answer: on `limit` texts, or all."""
    set_seed(seed)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).to(device).eval()
    texts = list(load_texts("heldout"))[:limit]
    started = time.monotonic()
    repeated = [text for text in texts for _ in range(samples_per_text)]
    sampled = complete(model, tokenizer, [*map(prompt_messages, repeated)], greedy=False)
    return {
        "texts": len(texts),
        "samples_per_text": samples_per_text,
        "temperature": 1.0,
        "seed": seed,
        **describe(sampled, repeated),
        "greedy_from_tag": describe_forced(model, tokenizer, texts, first_letter=False),
        "greedy_from_tag_and_first_letter": describe_forced(model, tokenizer, texts, first_letter=True),
        "guide_sentence": complete(
            model, tokenizer, [prompt_messages(GUIDE_SENTENCE)], greedy=True, begun=[begin(GUIDE_SENTENCE)]
        )[0],
        "seconds": round(time.monotonic() - started, 1),
    }


def begin(text: str, *, first_letter: bool = True) -> str:
    """The start of a right answer: the tag, and the letter that tells a reversal from a copy."""
    return OPEN_TAG + (text[-1] if first_letter else "")


def describe(completions: list[str], texts: list[str]) -> dict[str, object]:
    """Mean reward and how it comes about; shares are 0 to 1, of all completions unless named otherwise."""
    rows = list(zip(completions, texts, strict=True))
    rewards = [reward(completion, text) for completion, text in rows]
    in_form = [score for score, (completion, _) in zip(rewards, rows, strict=True) if right_form(completion)]
    behaviours = Counter(classify(completion, text) for completion, text in rows)
    perfect = Counter(
        name
        for completion, text in rows
        for name, behaviour in BEHAVIOURS.items()
        if classify(completion, text) == name and completion == behaviour.completion(text)
    )
    return {
        "mean_reward": round(fmean(rewards), 4),
        "right_form": round(len(in_form) / len(rows), 4),
        "similarity_in_form": round(fmean(in_form), 4) if in_form else None,
        "exact": round(sum(score == 1 for score in rewards) / len(rows), 4),
        "behaviours": {name: round(behaviours[name] / len(rows), 4) for name in (*BEHAVIOURS, OTHER)},
        "letter_perfect_within_behaviour": {
            name: round(perfect[name] / behaviours[name], 4) for name in BEHAVIOURS if behaviours[name]
        },
        "best_reward_of_samples": round(fmean(best_rewards(rewards, texts)), 4),
    }


def best_rewards(rewards: list[float], texts: list[str]) -> list[float]:
    """For each text, the best reward among its samples."""
    best: dict[str, float] = {}
    for score, text in zip(rewards, texts, strict=True):
        best[text] = max(score, best.get(text, 0.0))
    return list(best.values())


def describe_forced(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, texts: list[str], *, first_letter: bool
) -> dict[str, object]:
    """What follows greedily once the answer is begun: shows the skill apart from the habit."""
    begun = [begin(text, first_letter=first_letter) for text in texts]
    completions = complete(model, tokenizer, [*map(prompt_messages, texts)], greedy=True, begun=begun)
    description = describe(completions, texts)
    return {name: description[name] for name in ("mean_reward", "exact", "behaviours")}
