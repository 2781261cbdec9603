"""The command `rlguide warm-start`, in a process of its own: what it can be told, and when it may begin.

    python -m rlguide.programs.warm_start --help

Loads torch only once the processor is free, so that help and mistakes are told at once.
"""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated

import typer

from rlguide.console import guarded
from rlguide.engines import require_installed
from rlguide.programs.behaviours import BEHAVIOURS
from rlguide.programs.shape import Shape
from rlguide.slot import cpu_slot

Share = Annotated[float, typer.Option(min=0, help="How often this is taught, beside the other four.")]

WORKERS = min(8, (os.cpu_count() or 2) - 1)

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


def main() -> None:
    guarded(lambda: app(prog_name="rlguide warm-start"))


@app.command()
def warm_start(
    output: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Folder for the new warm start.")] = None,
    measure_only: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Measure the policy that is there, train nothing.")
    ] = None,
    steps: Annotated[int, typer.Option(min=1, help="Updates of the weights.")] = 10_000,
    batch_size: Annotated[int, typer.Option(min=1, help="Examples a step.")] = 256,
    lr: Annotated[float, typer.Option(min=0, help="Learning rate at its peak.")] = 2e-3,
    warmup_steps: Annotated[int, typer.Option(min=0, help="Steps until the peak; a cosine to 0 follows.")] = 400,
    weight_decay: Annotated[float, typer.Option(min=0, help="Pull of the weights towards 0.")] = 0.01,
    seed: Annotated[int, typer.Option(min=0, help="Of the weights and of the practice texts.")] = 0,
    samples: Annotated[int, typer.Option(min=1, help="Completions of each held-out text to measure with.")] = 4,
    texts: Annotated[
        int | None, typer.Option(min=1, help="Measure with the first so many held-out texts, not with all.")
    ] = None,
    workers: Annotated[int, typer.Option(min=0, help="Processes that make examples.")] = WORKERS,
    hidden: Annotated[int, typer.Option(min=1, help="Numbers that stand for a token.")] = Shape.hidden,
    layers: Annotated[int, typer.Option(min=1, help="Layers.")] = Shape.layers,
    heads: Annotated[int, typer.Option(min=1, help="Query heads, of 64 numbers each.")] = Shape.heads,
    kv_heads: Annotated[int, typer.Option(min=1, help="Key-value heads, of as many.")] = Shape.kv_heads,
    intermediate: Annotated[int, typer.Option(min=1, help="Numbers inside a layer.")] = Shape.intermediate,
    reversed_in_tags: Share = BEHAVIOURS["reversed in tags"].share,
    copied_in_tags: Share = BEHAVIOURS["copied in tags"].share,
    reversed_without_tags: Share = BEHAVIOURS["reversed without tags"].share,
    word_order_reversed: Share = BEHAVIOURS["word order reversed"].share,
    echo: Share = BEHAVIOURS["echo"].share,
) -> None:
    """Make the tiny policy's warm start anew.

    Supervised fine-tuning from random weights, in float32, on practice texts with five ways to answer; no reinforcement
    learning. Leaves weights, `trained.json` (what was asked, on what hardware, how long it took) and `measured.json`
    (what the policy does with held-out texts). All 10000 steps took 12 minutes on an H200 GPU; two processor cores take
    3.3 s a step, which makes nine hours. Both had other work too.
    """
    options = SimpleNamespace(**locals())
    if (output is None) == (measure_only is None):
        raise typer.BadParameter("give either this or --measure-only", param_hint="--output")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing is loaded from the Hub, so never ask it
    require_installed("trl")
    with cpu_slot("rlguide warm-start"):
        from rlguide.programs.warm_start_training import make  # torch is loaded once it may be used

        make(options)


if __name__ == "__main__":
    main()
