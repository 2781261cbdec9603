"""What the maker of the warm start can be told. Loads no torch, so that help and mistakes are told at once."""

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rlguide.programs.behaviours import BEHAVIOURS


@dataclass(frozen=True)
class Shape:
    """Sizes of the network."""

    hidden: int = 128
    layers: int = 4
    heads: int = 2
    """Query heads of 64 numbers each."""
    kv_heads: int = 1
    intermediate: int = 384


def parse(arguments: Sequence[str] | None, description: str | None) -> argparse.Namespace:
    """The options, checked; ends the program after `--help` or a mistake."""
    parser = argparse.ArgumentParser(
        prog="rlguide warm-start", description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    goal = parser.add_mutually_exclusive_group(required=True)
    goal.add_argument("--output", type=Path, help="folder for the checkpoint")
    goal.add_argument(
        "--measure-only", type=Path, metavar="FOLDER", help="measure a finished checkpoint, train nothing"
    )
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--batch-size", type=int, default=256, help="examples a step")
    parser.add_argument("--lr", type=float, default=2e-3, help="peak learning rate")
    parser.add_argument("--warmup-steps", type=int, default=400, help="steps until the peak; a cosine to 0 follows")
    parser.add_argument("--weight-decay", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=0, help="of the weights and of the practice texts")
    parser.add_argument("--samples", type=int, default=4, help="completions of each held-out text to measure with")
    parser.add_argument("--texts", type=int, help="measure with the first so many held-out texts (default: all)")
    parser.add_argument("--workers", type=int, default=min(8, (os.cpu_count() or 2) - 1), help="data processes")
    for size, default in vars(Shape()).items():
        parser.add_argument(f"--{size.replace('_', '-')}", type=int, default=default)
    for name, behaviour in BEHAVIOURS.items():
        help_text = f"weight of '{name}' (default {behaviour.share})"
        parser.add_argument(f"--{name.replace(' ', '-')}", type=float, default=behaviour.share, help=help_text)
    return parser.parse_args(arguments)
