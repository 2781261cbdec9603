"""Completes texts with policies and writes the completions: `python -m rlguide.programs.complete POLICY… --texts FILE
--out FILE`.

The one torch process behind trying a text; the policies are loaded one after the other.
"""

import argparse
import json
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, set_seed

from rlguide.programs.policy_measurement import complete


def main() -> None:
    options = _parser().parse_args()
    texts = json.loads(options.texts.read_text(encoding="utf-8"))
    found = [completions(policy, texts, samples=options.samples, seed=options.seed) for policy in options.policies]
    options.out.write_text(json.dumps(found), encoding="utf-8")


def completions(policy: str, texts: list[str], *, samples: int, seed: int) -> list[dict[str, object]]:
    """For each text the greedy completion, and `samples` drawn as the policy's own generation settings say."""
    set_seed(seed)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    tokenizer = AutoTokenizer.from_pretrained(policy)
    model = AutoModelForCausalLM.from_pretrained(policy, dtype=torch.float32).to(device).eval()
    greedy = complete(model, tokenizer, texts, greedy=True)
    drawn = complete(model, tokenizer, [text for text in texts for _ in range(samples)], greedy=False)
    return [
        {"greedy": answer, "samples": drawn[number * samples : (number + 1) * samples]}
        for number, answer in enumerate(greedy)
    ]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("policies", nargs="+", help="folder or Hub name")
    parser.add_argument("--texts", type=Path, required=True, help="JSON list of texts")
    parser.add_argument("--out", type=Path, required=True, help="gets a JSON list for each policy")
    parser.add_argument("--samples", type=int, default=0, help="completions drawn for each text")
    parser.add_argument("--seed", type=int, default=0)
    return parser


if __name__ == "__main__":
    main()
