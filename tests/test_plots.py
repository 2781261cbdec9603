"""The reward curve is labelled, says what is not there yet, and nothing in it overlaps."""

import re
from collections.abc import Sequence
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axis import Tick, XTick
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.text import Text
from test_text import record

from rlguide.environment.reward import similarity
from rlguide.records import Rollout, RunRecord, State, StepRecord
from rlguide.view.elements import DARKER, Markup, page
from rlguide.view.page import PAGE_STYLE
from rlguide.view.plots import GUIDE_LABEL, RewardPlot, floors, spread

FLOORS = (("echo of the text", 0.19), ("warm start, best of 16", 0.61))


def run(tmp_path: Path, max_steps: int = 20, state: State = State.RUNNING) -> RunRecord:
    found = record(tmp_path, state)
    return found.model_copy(update={"plan": found.plan.model_copy(update={"max_steps": max_steps})})


def steps(number: int, *, reward: float | None = None) -> list[StepRecord]:
    values = [min(0.8, 0.16 + 0.05 * n) if reward is None else reward for n in range(number)]
    return [StepRecord(step=n, completed_updates=n + 1, reward=v, right_form=v) for n, v in enumerate(values)]


def texts(plot: RewardPlot) -> list[Text]:
    return [found for found in plot.figure.findobj(Text) if found.get_text() and found.get_visible()]


def words(plot: RewardPlot) -> str:
    return " ".join(found.get_text() for found in texts(plot))


@pytest.mark.parametrize("reward", [None, 0.0, 0.19, 0.61, 1.0])
@pytest.mark.parametrize("number", [0, 1, 2, 20])
@pytest.mark.parametrize("max_steps", [2, 20, 100])
def test_no_two_texts_overlap_and_none_is_cut(tmp_path: Path, number: int, max_steps: int, reward: float | None):
    plot = RewardPlot()
    plot.draw(run(tmp_path, max_steps), steps(number, reward=reward), floors=FLOORS if number else ())

    renderer = FigureCanvasAgg(plot.figure).get_renderer()
    (axes,) = plot.figure.axes
    outside = {
        id(tick.label1) for axis in (axes.xaxis, axes.yaxis) for tick in axis.get_major_ticks() if not _seen(tick)
    }
    boxes = [(t.get_text(), t.get_window_extent(renderer)) for t in texts(plot) if id(t) not in outside]

    width, height = plot.figure.bbox.size
    assert not [name for name, box in boxes if box.x0 < 0 or box.y0 < 0 or box.x1 > width or box.y1 > height]
    assert not [(a, b) for (a, one), (b, two) in combinations(boxes, 2) if one.overlaps(two)]


def _seen(tick: Tick) -> bool:
    low, high = tick.axes.get_xlim() if isinstance(tick, XTick) else tick.axes.get_ylim()
    return low <= tick.get_loc() <= high


def test_both_axes_say_what_they_measure(tmp_path: Path):
    plot = RewardPlot()
    plot.draw(run(tmp_path), steps(3))

    (axes,) = plot.figure.axes
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("training step", "mean reward (0 to 1)")
    assert axes.get_ylim()[0] <= 0 < 1 <= axes.get_ylim()[1]


def test_every_line_is_labelled_where_it_is(tmp_path: Path):
    plot = RewardPlot()
    plot.draw(run(tmp_path), steps(3), floors=FLOORS)

    said = words(plot)
    assert "this run: mean reward: 0.260" in said
    assert "right form: 0.260" in said
    assert GUIDE_LABEL in said
    assert "run guide's evaluation: 0.784" in said
    assert "echo of the text: 0.190\n(texts of the first step)" in said
    assert "warm start, best of 16: 0.610\n(texts of the first step)" in said


def test_the_measured_reward_is_the_heaviest_line_and_what_it_is_compared_with_is_thin(tmp_path: Path):
    plot = RewardPlot()
    plot.draw(run(tmp_path), steps(20), floors=FLOORS)

    lines = [line for line in plot.figure.axes[0].get_lines() if line.get_linestyle() != "None"]  # the star is no line
    thin = [line for line in lines if line.get_color() != lines[0].get_color()]

    assert len(thin) >= 4
    assert max(line.get_linewidth() for line in thin) <= 1 < 2 <= lines[0].get_linewidth()


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (State.STARTING, "No training step has been recorded yet."),
        (State.FAILED, "The run ended before its first step."),
    ],
)
def test_a_picture_without_steps_says_so(tmp_path: Path, state: State, said: str):
    plot = RewardPlot()

    drawn = plot.html(run(tmp_path, state=state), [])

    assert said in words(plot)
    assert said in drawn


def test_steps_without_a_reward_are_a_gap_and_not_zero(tmp_path: Path):
    plot = RewardPlot()
    unknown = StepRecord(step=1, completed_updates=2)
    plot.draw(run(tmp_path), [steps(1)[0], unknown])
    only_unknown = RewardPlot()
    only_unknown.draw(run(tmp_path), [unknown])

    assert "mean reward: 0.160" in words(plot)
    assert "The steps so far have no reward." in words(only_unknown)


def test_a_short_run_is_not_squeezed_by_the_guides_curve(tmp_path: Path):
    plot = RewardPlot()
    plot.draw(run(tmp_path, 2), steps(2))

    assert plot.figure.axes[0].get_xlim()[1] < 3
    assert "run guide's evaluation" not in words(plot)


def test_drawing_again_reuses_the_figure(tmp_path: Path):
    plot = RewardPlot()
    first, figure = plot.draw(run(tmp_path), steps(1)), plot.figure

    second = plot.draw(run(tmp_path), steps(2))

    assert first[:4] == second[:4] == b"\x89PNG"
    assert plot.figure is figure
    assert len(figure.axes) == 1


def test_lines_and_words_are_readable_on_the_card_in_light_and_in_dark(tmp_path: Path):
    plot = RewardPlot()
    plot.draw(run(tmp_path), steps(20), floors=FLOORS)

    words = {to_rgb(found.get_color()) for found in texts(plot)}
    lines = {to_rgb(line.get_color()) for line in plot.figure.axes[0].get_lines()}
    for turned in (lambda colour: colour, darkened):
        card = turned((1.0, 1.0, 1.0))
        assert min(contrast(turned(colour), card) for colour in words) >= 4.5
        assert min(contrast(turned(colour), card) for colour in lines) >= 4.5


def darkened(colour: tuple[float, ...]) -> np.ndarray:
    """What the style sheet's filter makes of a colour on a dark page."""
    share, degrees = map(float, re.fullmatch(r"invert\(([\d.]+)\) hue-rotate\((\d+)deg\)", DARKER).groups())
    assert degrees == 180
    weights = np.array([0.213, 0.715, 0.072])  # https://www.w3.org/TR/filter-effects-1/#feColorMatrixElement
    turn = 2 * np.tile(weights, (3, 1)) - np.eye(3)
    return np.clip(turn @ (share - np.array(colour) * (2 * share - 1)), 0, 1)


def contrast(one: Sequence[float], other: Sequence[float]) -> float:
    """Contrast as the Web Content Accessibility Guidelines define it, from 1 to 21."""
    bright, dim = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


def _luminance(colour: Sequence[float]) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour]
    return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))


@pytest.mark.parametrize("page", [page(Markup("")), PAGE_STYLE], ids=["notebook", "report"])
def test_pictures_are_turned_for_dark_pages(page: str):
    dark = page.partition("[data-jp-theme-light=false]" if "data-jp" in page else "prefers-color-scheme:dark")[2]

    assert f"filter:{DARKER}" in dark


def test_the_picture_is_also_told_in_words(tmp_path: Path):
    drawn = RewardPlot().html(run(tmp_path), steps(2))

    assert 'alt="Mean reward (0 to 1) of run one. step 0: 0.160, step 1: 0.210"' in drawn


def test_floors_are_an_echo_and_the_best_of_each_group():
    made = [Rollout(step=0, text=text, completion="", reward=r) for text in ("abc", "add") for r in (0.0, 0.5, 0.25)]

    (echo, echo_reward), (best, best_reward) = floors(made)

    assert echo_reward == pytest.approx((similarity("abc", "abc") + similarity("add", "add")) / 2)
    assert (best, best_reward) == ("warm start, best of 3", 0.5)
    assert echo == "echo of the text"
    assert floors([]) == ()
    assert len(floors(made[:1])) == 1


def test_boxes_are_spread_without_overlap_and_within_the_limits():
    placed = spread([0.0, 0.5, 0.5, 0.99, 1.0], [0.1] * 5)

    assert placed == sorted(placed)
    assert all(b - a >= 0.1 - 1e-9 for a, b in pairwise(placed))
    assert placed[0] >= 0.05 - 1e-9
    assert placed[-1] <= 0.95 + 1e-9
