"""The reward curve as a matplotlib figure: our steps, the run guide's curve for its shape, and floors that need no
learning. Draws records; keeps no pyplot state and opens no window.
"""

import base64
import io
from collections.abc import Iterable, Sequence
from statistics import fmean

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from rlguide.environment.reward import similarity
from rlguide.records import Rollout, RunRecord, StepRecord
from rlguide.statistics import best_of, by_text
from rlguide.view.elements import Markup
from rlguide.view.html import picture
from rlguide.view.written import number

GUIDE_CURVE = {0: 0.0907, 1: 0.1039, 5: 0.3496, 10: 0.6590, 15: 0.7648, 19: 0.75}
"""Step → mean reward as the run guide prints it; the last value is approximate."""
GUIDE_EVALUATION = (20, 0.784)
"""Completed updates and mean reward of the guide's own evaluation: another measurement than its curve."""
GUIDE_LABEL = "run guide (0.6 B model, two H100,\nother data: shape only)"
CAPTION = (
    "Mean reward of each step's completions, before that step's update. "
    "The run guide's last value is approximate, and its evaluation is another measurement than its curve."
)
SIZE_INCHES = (7.0, 3.8)
DPI = 130
"""The picture is shown 700 points wide: 1.3 pixels a point is sharp enough and cheap to draw."""
FRAME = "#c4c9ce"
"""A frame makes the picture a card of its own, also on a page that is dark."""
PLOT_AREA = (0.085, 0.135, 0.51, 0.835)
"""Left, bottom, width and height of the axes, as shares of the figure; the labels stand to the right."""
TITLE_HEIGHT = 0.06
"""Height of a title, as a share of the figure's."""
LINE_HEIGHT = 0.062
"""Height of a line of a label, as a share of the axes' height."""
EMPTY = {True: "The run ended before its first step.", False: "No training step has been recorded yet."}

Floor = tuple[str, float]
Label = tuple[Line2D, float, str]
"""What is labelled, at which height its label wants to be, and the words."""


def floors(rollouts: Sequence[Rollout]) -> tuple[Floor, ...]:
    """Rewards that need no learning, from the rollouts of the first step: an echo of the text, and the best of a
    group, which is the reward that choosing among the warm start's own answers would get."""
    groups = {text: [rollout.reward for rollout in group] for text, group in by_text(rollouts).items()}
    if not groups:
        return ()
    echo = ("echo of the text", fmean(similarity(text, text) for text in groups))
    size = max(map(len, groups.values()))
    return (echo, (f"warm start, best of {size}", best_of(groups.values()))) if size > 1 else (echo,)


class RewardPlot:
    """One figure, drawn anew in place."""

    def __init__(self) -> None:
        self.figure = Figure(figsize=SIZE_INCHES, dpi=DPI, edgecolor=FRAME, linewidth=2)

    def draw(self, record: RunRecord, steps: Sequence[StepRecord], *, floors: Sequence[Floor] = ()) -> bytes:
        """The reward by step as a PNG image."""
        self.figure.clear()
        axes = self.figure.add_axes(PLOT_AREA)
        last = max(record.plan.max_steps, steps[-1].step + 1 if steps else 1)
        axes.set(xlim=(-0.03 * last, 1.03 * last), ylim=(-0.03, 1.03))
        axes.set(xlabel="training step", ylabel="mean reward (0 to 1)")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
        axes.grid(color="#dddddd", linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
        if record.plan.recording:
            axes.set_position((*PLOT_AREA[:3], PLOT_AREA[3] - TITLE_HEIGHT))
            axes.set_title(f"A recording of {record.plan.recording}", loc="left", fontsize=9)
        measured = [step for step in steps if step.reward is not None]
        if not measured:
            message = "The steps so far have no reward." if steps else EMPTY[record.state.is_over]
            axes.text(0.5, 0.5, message, transform=axes.transAxes, ha="center", bbox={"fc": "white", "ec": "#888888"})
        _place(axes, [*_own(axes, steps), *_guide(axes, last), *_floors(axes, floors)])
        image = io.BytesIO()
        self.figure.savefig(image, format="png")
        return image.getvalue()

    def html(self, record: RunRecord, steps: Sequence[StepRecord], *, floors: Sequence[Floor] = ()) -> Markup:
        """The same as an HTML image, with the curve in words for those who do not see it."""
        png = base64.b64encode(self.draw(record, steps, floors=floors)).decode("ascii")
        told = ", ".join(f"step {step.step}: {number(step.reward)}" for step in steps) or EMPTY[record.state.is_over]
        named = f"the recording {record.name}" if record.plan.recording else f"run {record.name}"
        return picture(png, alt=f"Mean reward (0 to 1) of {named}. {told}", caption=CAPTION)


def _own(axes: Axes, steps: Sequence[StepRecord]) -> Iterable[Label]:
    styles = {
        "reward": ("this run: mean reward", {"color": "#1a5a9e", "marker": "o", "linewidth": 2.5, "zorder": 4}),
        "right_form": ("this run: share in the\nright form", {"color": "#a84f00", "marker": "^", "linewidth": 1}),
    }
    for field, (label, style) in styles.items():
        found = [(step.step, getattr(step, field)) for step in steps]
        known = [value for _, value in found if value is not None]
        if known:
            values = [float("nan") if value is None else value for _, value in found]
            (line,) = axes.plot([step for step, _ in found], values, markersize=4, **style)
            yield line, known[-1], f"{label}: {known[-1]:.3f}"


def _guide(axes: Axes, last: int) -> Iterable[Label]:
    (curve,) = axes.plot(*zip(*GUIDE_CURVE.items(), strict=True), color="#555555", linewidth=1, linestyle="--")
    shown = [reward for step, reward in GUIDE_CURVE.items() if step <= last]
    yield curve, shown[-1], GUIDE_LABEL
    step, reward = GUIDE_EVALUATION
    if step <= last:
        (mark,) = axes.plot(
            [step], [reward], color="#555555", marker="*", markersize=9, linestyle="none", clip_on=False
        )
        yield mark, reward, f"run guide's evaluation: {reward:.3f}"


def _floors(axes: Axes, floors: Sequence[Floor]) -> Iterable[Label]:
    for (label, value), dashes in zip(floors, (":", "-."), strict=False):
        line = axes.axhline(value, color="#555555", linewidth=1, linestyle=dashes)
        yield line, value, f"{label}: {value:.3f}\n(texts of the first step)"


def _place(axes: Axes, labels: Sequence[Label]) -> None:
    """Write the labels to the right of the axes, each as near to its line as the others allow, behind a sample."""
    ordered = sorted(labels, key=lambda label: label[1])
    heights = [LINE_HEIGHT * (text.count("\n") + 1) + 0.012 for _, _, text in ordered]
    for (line, _, text), y in zip(ordered, spread([label[1] for label in ordered], heights), strict=True):
        sample = Line2D([1.02, 1.055, 1.09], [y] * 3, transform=axes.transAxes, clip_on=False, markevery=[1])
        sample.set(color=line.get_color(), linestyle=line.get_linestyle(), linewidth=line.get_linewidth())
        sample.set(marker=line.get_marker(), markersize=line.get_markersize())
        axes.add_line(sample)
        axes.text(1.11, y, text, transform=axes.transAxes, va="center", fontsize=9, linespacing=1.15)


def spread(centres: Sequence[float], heights: Sequence[float]) -> list[float]:
    """Centres near the wanted ones (ascending) at which boxes of those heights do not overlap, from 0 to 1."""
    placed, edge = [], 0.0
    for centre, height in zip(centres, heights, strict=True):
        placed.append(max(centre, edge + height / 2))
        edge = placed[-1] + height / 2
    edge = 1.0
    for n in range(len(placed) - 1, -1, -1):
        placed[n] = min(placed[n], edge - heights[n] / 2)
        edge = placed[n] - heights[n] / 2
    return placed
