"""Completes chats with policies and writes the completions: `python complete.py POLICY… --chats FILE --out FILE`.

The one torch process behind trying a text; the policies are loaded one after the other. It imports nothing of rlguide,
so that the Python of another training framework, where rlguide is not installed, can run this file.
"""

import argparse
import json
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerFast, set_seed

MAX_NEW_TOKENS = 128
"""The guide's `max_completion_tokens`."""
BATCH_SIZE = 256

Chat = list[dict[str, str]]


def main() -> None:
    options = _parser().parse_args()
    chats = json.loads(options.chats.read_text(encoding="utf-8"))
    found = [completions(policy, chats, samples=options.samples, seed=options.seed) for policy in options.policies]
    options.out.write_text(json.dumps(found), encoding="utf-8")


def completions(policy: str, chats: list[Chat], *, samples: int, seed: int) -> list[dict[str, object]]:
    """For each chat the greedy completion, and `samples` drawn as the policy's own generation settings say."""
    set_seed(seed)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    tokenizer = AutoTokenizer.from_pretrained(policy)
    model = AutoModelForCausalLM.from_pretrained(policy, dtype=torch.float32).to(device).eval()
    greedy = complete(model, tokenizer, chats, greedy=True)
    drawn = complete(model, tokenizer, [chat for chat in chats for _ in range(samples)], greedy=False)
    return [
        {"greedy": answer, "samples": drawn[number * samples : (number + 1) * samples]}
        for number, answer in enumerate(greedy)
    ]


def complete(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    chats: list[Chat],
    *,
    greedy: bool,
    begun: list[str] | None = None,
) -> list[str]:
    """One completion a chat, each starting with its string of `begun`."""
    begun = begun or [""] * len(chats)
    completions: list[str] = []
    for first in range(0, len(chats), BATCH_SIZE):
        part = slice(first, first + BATCH_SIZE)
        asked = tokenizer.apply_chat_template(chats[part], tokenize=False, add_generation_prompt=True)
        prompts = [chat + start for chat, start in zip(asked, begun[part], strict=True)]
        inputs = tokenizer(prompts, add_special_tokens=False, padding=True, padding_side="left", return_tensors="pt")
        inputs = {name: inputs[name].to(model.device) for name in ("input_ids", "attention_mask")}
        with torch.inference_mode():
            output = model.generate(**inputs, do_sample=not greedy, max_new_tokens=MAX_NEW_TOKENS)
        new = tokenizer.batch_decode(output[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
        completions += [start + rest for start, rest in zip(begun[part], new, strict=True)]
    return completions


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("policies", nargs="+", help="folder or Hub name")
    parser.add_argument("--chats", type=Path, required=True, help="JSON list of chats, each a list of messages")
    parser.add_argument("--out", type=Path, required=True, help="gets a JSON list for each policy")
    parser.add_argument("--samples", type=int, default=0, help="completions drawn for each text")
    parser.add_argument("--seed", type=int, default=0)
    return parser


if __name__ == "__main__":
    main()
