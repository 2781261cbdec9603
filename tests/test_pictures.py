"""The README's picture is what today's code draws of a run that was kept, and its words are of that run."""

import re
import runpy
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
TOOL = runpy.run_path(str(ROOT / "tools" / "draw_pictures.py"))
ROUNDED = 0.05
"""Mean difference, of 255, that another machine may make; another width of a line makes far more."""


@pytest.mark.parametrize("name", ["reward.png", "reward-dark.png"])
def test_the_picture_is_what_todays_code_draws(name: str):
    drawn, kept = (
        np.asarray(image.convert("RGB"), float) for image in (TOOL["drawn"]()[name], Image.open(IMAGES / name))
    )

    assert drawn.shape == kept.shape
    assert abs(drawn - kept).mean() < ROUNDED, "draw it anew: .venv/bin/python tools/draw_pictures.py"


def test_the_picture_in_words_begins_and_ends_where_the_run_does():
    rewards = [float(found) for found in re.findall(r'"reward":([\d.]+)', TOOL["STEPS"].read_text(encoding="utf-8"))]
    (told,) = re.findall(r'alt="([^"]+)"', (ROOT / "README.md").read_text(encoding="utf-8"))

    assert f"from {rewards[0]:.2f} to {rewards[-1]:.2f}" in told
