"""The stand-in for the environment `reverse-text`: its rows, its prompt and its reward."""

import json
import os
import re
from difflib import SequenceMatcher
from importlib import import_module
from pathlib import Path

HUB_DATASET = "PrimeIntellect/Reverse-Text-RL"
FIRST, SECOND = ("the old", "a red", "my last", "one more", "her third"), ("boat", "garden", "letter", "window")
HUB_ROWS = tuple(f"{one} {two} {three}" for one in FIRST for two in SECOND for three in ("sank slowly", "is for sale"))
SPLITS = {"train": ("train", "training"), "validation": ("validation", "valid", "val", "dev"),
          "test": ("test", "testing", "eval", "evaluation")}  # fmt: skip
PROMPT = "Reverse the text character-by-character. Put your answer in <reversed_text> tags."
PROMPT_TOKENS = 110
"""What instruction and chat format take, beside the text."""


class Environment:
    """Rows in a fixed order, and how an answer to one is scored."""

    def __init__(self, texts: tuple[str, ...], system_prompt: str | None):
        self.texts = texts
        self._system_prompt = system_prompt

    def prompt(self, text: str) -> list[dict[str, str]]:
        system = [{"role": "system", "content": self._system_prompt}] if self._system_prompt else []
        return [*system, {"role": "user", "content": text}]

    def reward(self, completion: str, text: str) -> float:
        found = re.search(r"<reversed_text>\s*(.*?)\s*</reversed_text>", completion, re.DOTALL)
        return SequenceMatcher(None, found[1] if found else "", text[::-1]).ratio()


def load_environment(
    dataset_name: str = HUB_DATASET, dataset_split: str = "train", system_prompt: str | None = PROMPT
) -> Environment:
    """What the module `reverse_text` of the run guide's release offers."""
    return Environment(load_texts(dataset_name, dataset_split), system_prompt)


def load(env_id: str, arguments: dict) -> Environment:
    """The environment as verifiers finds it: a module of that name. Raises as verifiers does."""
    try:
        module = import_module(env_id.split("/")[-1].replace("-", "_"))
    except ImportError as error:
        told = f"Could not import '{env_id}' environment. Ensure the package for it is installed."
        raise ValueError(told) from error
    try:
        return module.load_environment(**arguments)
    except TypeError as error:
        raise RuntimeError(f"Failed to load environment '{env_id}': {error}") from error


def load_texts(name: str, split: str) -> tuple[str, ...]:
    """Field `prompt` of the rows of a split, from a folder of files `train.jsonl`, `test.jsonl` …, or of the Hub."""
    if name == HUB_DATASET and not any(os.environ.get(f"HF_{who}_OFFLINE") == "1" for who in ("HUB", "DATASETS")):
        return HUB_ROWS
    if not Path(name).is_absolute() and not Path(name).exists():
        raise ConnectionError(f"Couldn't reach '{name}' on the Hub (OfflineModeIsEnabled)")
    files = sorted(Path(name).glob("*.jsonl"))
    if not files:
        raise FileNotFoundError(f"Couldn't find any data file at {name}.")
    found = {}
    for file in files:
        words = re.split(r"[-._ 0-9]+", file.stem.lower())
        name_of_split = next((key for key, names in SPLITS.items() if {*names} & {*words}), None)
        found.setdefault(name_of_split, []).append(file)
    splits = {key: part for key, part in found.items() if key} or {"train": files}
    if split not in splits:
        raise ValueError(f'Unknown split "{split}". Should be one of {list(splits)}.')
    return tuple(json.loads(line)["prompt"] for file in splits[split] for line in file.read_text("utf-8").splitlines())
