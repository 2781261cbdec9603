"""Draws the README's picture, in light and in dark, from the steps and rollouts in docs/images/reward.

    .venv/bin/python tools/draw_pictures.py            with the code of today
    .venv/bin/python tools/draw_pictures.py tutorial   of that run: its steps and first rollouts are kept there

Part of the project's tools, not of the package.
"""

import io
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

import rlguide
from rlguide.records import Record, Rollout, RunRecord, State, StepRecord
from rlguide.view.elements import DARKER
from rlguide.view.plots import RewardPlot, floors

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"
STEPS, FIRST_ROLLOUTS = IMAGES / "reward" / "steps.jsonl", IMAGES / "reward" / "first_rollouts.jsonl"
COLOURS = 64
"""Enough for lines and letters, at a third of the size."""
HUE_TURNED = np.array([[-0.574, 1.430, 0.144], [0.426, 0.430, 0.144], [0.426, 1.430, -0.856]])
"""What `hue-rotate(180deg)` does with red, green and blue, by the standard (Filter Effects, section 9.4)."""


def main(name: str | None = None) -> None:
    if name is not None:
        run = rlguide.attach(name)
        keep(STEPS, run.history.steps)
        keep(FIRST_ROLLOUTS, run.rollouts(0))
    for file, picture in drawn().items():
        picture.save(IMAGES / file, optimize=True)


def keep(path: Path, records: Sequence[Record]) -> None:
    path.write_text("".join(f"{record.model_dump_json(exclude_none=True)}\n" for record in records), encoding="utf-8")


def drawn() -> dict[str, Image.Image]:
    """The pictures by the names of their files."""
    steps = [StepRecord.model_validate_json(line) for line in STEPS.read_text(encoding="utf-8").splitlines()]
    rollouts = [Rollout.model_validate_json(line) for line in FIRST_ROLLOUTS.read_text(encoding="utf-8").splitlines()]
    plan = rlguide.plan(rlguide.load_config("tiny", {"engine": "trl"}))
    record = RunRecord(name="tutorial", plan=plan, state=State.SUCCEEDED, created_at="")
    png = RewardPlot().draw(record, steps, floors=floors(rollouts))
    light = Image.open(io.BytesIO(png)).convert("RGB")
    return {"reward.png": light.quantize(COLOURS), "reward-dark.png": darker(light).quantize(COLOURS)}


def darker(picture: Image.Image) -> Image.Image:
    """As the filter of the pages turns it."""
    amount = float(re.match(r"invert\((.+)\) hue-rotate\(180deg\)", DARKER)[1])
    colours = np.asarray(picture) / 255
    turned = (amount + (1 - 2 * amount) * colours) @ HUE_TURNED.T
    return Image.fromarray((turned.clip(0, 1) * 255).round().astype(np.uint8))


if __name__ == "__main__":
    main(*sys.argv[1:])
