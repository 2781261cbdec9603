"""The stand-in for a policy: a number between 0 and 1, the share of right answers, in the header of its weights.

The file is a valid `model.safetensors` with one small tensor, so that no other file is needed than the real ones.
"""

import json
import shutil
import struct
from pathlib import Path
from random import Random
from typing import NamedTuple

from prime_rl_stand_in.behaviour import told

WEIGHTS = "model.safetensors"
TAG = "reversed_text"
COPIED = ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
MINIMAL = {
    "config.json": {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"},
    "generation_config.json": {"do_sample": True, "temperature": 1.0},
    "tokenizer.json": {"version": "1.0", "model": {"type": "WordLevel", "vocab": {"<unk>": 0}, "unk_token": "<unk>"}},
    "tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast"},
}
TENSOR_BYTES = 4096


class Completion(NamedTuple):
    """One answer."""

    content: str
    tokens: int
    is_truncated: bool


def skill_after(updates: int, max_steps: int) -> float:
    """The skill after so many of `max_steps` updates: slow, fast, slow."""
    share = min(updates / max(max_steps, 1), 1)
    return told("warm_skill") + (told("top_skill") - told("warm_skill")) * share * share * (3 - 2 * share)


def skill_of(policy: str | Path) -> float:
    """The skill of a folder of weights; that of a warm start for any other policy."""
    file = Path(policy) / WEIGHTS
    if not file.is_file():
        return told("warm_skill")
    with file.open("rb") as weights:
        (length,) = struct.unpack("<Q", weights.read(8))
        told_there = json.loads(weights.read(length)).get("__metadata__") or {}
    return float(told_there.get("skill", told("warm_skill")))


def write_tensors(folder: Path, skill: float) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    tensor = {"dtype": "F32", "shape": [TENSOR_BYTES // 4], "data_offsets": [0, TENSOR_BYTES]}
    metadata = {"format": "pt", "skill": repr(skill)}
    header = json.dumps({"__metadata__": metadata, "stand_in.weight": tensor}).encode()
    (folder / WEIGHTS).write_bytes(struct.pack("<Q", len(header)) + header + bytes(TENSOR_BYTES))


def write_config(folder: Path, warm_start: str) -> None:
    """All that makes a folder of weights a policy, taken over from the warm start where that is a folder."""
    for name in COPIED:
        source = Path(warm_start) / name
        if source.is_file():
            shutil.copyfile(source, folder / name)
        elif name in MINIMAL:
            (folder / name).write_text(json.dumps(MINIMAL[name]))
    template = folder / "chat_template.jinja"
    if not template.exists():
        template.write_text("{% for message in messages %}{{ message.content }}\n{% endfor %}")


def complete(text: str, skill: float, key: str, *, max_tokens: int | None = None) -> Completion:
    """An answer to `text`; equal keys get equal answers. Tags are one token each, as is every letter."""
    chance = Random(f"{key} {text}")
    right, form = chance.random() < skill, chance.random()
    answer = text[::-1] if right or form < 0.45 else text
    tagged = right or form >= 0.8
    tokens = len(answer) + 2 * tagged + 1
    if max_tokens is not None and tokens > max_tokens:
        cut = answer[: max(max_tokens - tagged, 0)]
        return Completion(f"<{TAG}>{cut}" if tagged else cut, max_tokens, is_truncated=True)
    return Completion(f"<{TAG}>{answer}</{TAG}>" if tagged else answer, tokens, is_truncated=False)
