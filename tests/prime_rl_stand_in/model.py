"""As much of `torch` and `transformers` as a program needs that loads a policy and completes chats with it.

A "tensor" is a list of texts: of prompts before generation, of completions after.
"""

from contextlib import nullcontext
from random import Random
from types import SimpleNamespace
from typing import Any

from prime_rl_stand_in.policy import complete, skill_of

cuda = SimpleNamespace(is_available=lambda: False, device_count=lambda: 0)
float32 = "float32"
inference_mode = nullcontext
_chance = Random(0)


def set_seed(seed: int) -> None:
    _chance.seed(seed)


class Texts(list[str]):
    """What stands for a tensor."""

    def to(self, device: str) -> "Texts":
        return self

    @property
    def shape(self) -> tuple[int, int]:
        return len(self), 1

    def __getitem__(self, index: Any) -> Any:
        return self if isinstance(index, tuple) else super().__getitem__(index)


class AutoTokenizer:
    """The tokenizer of any policy."""

    @classmethod
    def from_pretrained(cls, policy: str) -> "AutoTokenizer":
        return cls()

    def apply_chat_template(self, chats: list[list[dict[str, str]]], **_: Any) -> list[str]:
        return [chat[-1]["content"] for chat in chats]

    def __call__(self, prompts: list[str], **_: Any) -> dict[str, Texts]:
        return {"input_ids": Texts(prompts), "attention_mask": Texts(prompts)}

    def batch_decode(self, completions: Texts, **_: Any) -> list[str]:
        return list(completions)


class AutoModelForCausalLM:
    """A policy."""

    device = "cpu"

    def __init__(self, policy: str):
        self._policy = policy
        self._skill = skill_of(policy)

    @classmethod
    def from_pretrained(cls, policy: str, **_: Any) -> "AutoModelForCausalLM":
        return cls(policy)

    def to(self, device: str) -> "AutoModelForCausalLM":
        return self

    def eval(self) -> "AutoModelForCausalLM":
        return self

    def generate(self, input_ids: Texts, *, do_sample: bool, max_new_tokens: int, **_: Any) -> Texts:
        keys = [f"{self._policy} {_chance.random() if do_sample else ''}" for _ in input_ids]
        return Texts(
            complete(text, self._skill, key, max_tokens=max_new_tokens).content
            for text, key in zip(input_ids, keys, strict=True)
        )


PreTrainedModel, PreTrainedTokenizerFast = AutoModelForCausalLM, AutoTokenizer
