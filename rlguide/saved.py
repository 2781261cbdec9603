"""What an engine saved in a run directory: checkpoints and weights, as far as they are complete."""

import shutil
from pathlib import Path

from rlguide.files import exists
from rlguide.records import Layout, Plan

STEP = "{step}"
"""Stands for the number of a checkpoint, in its markers and in the arguments that resume from it."""


def newest_checkpoint(directory: Path, layout: Layout) -> Path | None:
    """Folder of the newest complete checkpoint of the run in `directory`; `None` when there is none."""
    folders = (directory / layout.checkpoints).glob("step_*")
    return max((folder for folder in folders if all(_marks(folder, directory, layout))), key=step_number, default=None)


def resume_args(plan: Plan) -> tuple[str, ...]:
    """As planned, with the number of the newest complete checkpoint; none where they name one and there is none."""
    checkpoint = newest_checkpoint(plan.directory, plan.layout)
    number = "" if checkpoint is None else str(step_number(checkpoint))
    filled = tuple(argument.replace(STEP, number) for argument in plan.resume_args)
    return filled if number or filled == plan.resume_args else ()


def remove_half_checkpoints(directory: Path, layout: Layout) -> None:
    """Remove the checkpoints that never became complete: an engine takes them for whole. Raises `OSError`."""
    for folder in (directory / layout.checkpoints).glob("step_*"):
        if step_number(folder) >= 0 and False in _marks(folder, directory, layout):
            shutil.rmtree(folder)


def _marks(checkpoint: Path, directory: Path, layout: Layout) -> list[bool | None]:
    """Whether each of its markers is there; `None` where that cannot be told now."""
    number = str(step_number(checkpoint))
    return [exists(directory / marker.replace(STEP, number)) for marker in layout.checkpoint_markers]


def newest_weights(directory: Path, layout: Layout) -> Path | None:
    """Folder of the newest complete weights of the run in `directory`; `None` when there are none."""
    markers = (directory / layout.weights).glob(f"step_*/{layout.weights_marker}")
    return max((marker.parent for marker in markers), key=step_number, default=None)


def step_number(folder: Path) -> int:
    """The step of a folder `step_N`; -1 for another name."""
    number = folder.name.removeprefix("step_")
    return int(number) if number.isdecimal() else -1
