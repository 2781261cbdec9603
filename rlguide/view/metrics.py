"""What each metric of a training step is: its name with the unit, how it is written, and what it means."""

from collections.abc import Sequence

from rlguide.records import StepRecord
from rlguide.view.written import ABSENT

Metric = tuple[str, str, str, str]
METRICS: tuple[Metric, ...] = (
    ("reward", "mean reward (0\u00a0to\u00a01)", ".3f", "similarity of answers to true reversals; 0 without tags"),
    ("right_form", "right form (share)", ".1%", "completions with an answer between the tags"),
    ("completion_tokens", "completion length (tokens)", ".1f", "mean over the batch"),
    ("seconds", "duration (s)", ".1f", "from one update to the next"),
    ("sampling_s", "sampling (s)", ".1f", "orchestrator's wait, sampling and scoring; the trainer works meanwhile"),
    ("sequence_tokens", "sequence length (tokens)", ".1f", "prompt and completion together, mean over the batch"),
    ("reward_std", "spread of rewards (0\u00a0to\u00a01)", ".3f", "standard deviation in the batch; none, no signal"),
    ("degenerate_groups", "groups without signal (share)", ".1%", "groups whose rewards are all equal teach nothing"),
    ("truncated", "cut completions (share)", ".1%", "reached the longest allowed length and lost their closing tag"),
    ("entropy", "entropy (nats a token)", ".3f", "how undecided the policy is; falls as it settles"),
    ("grad_norm", "gradient norm (no unit)", ".2f", "length of the gradient; sudden jumps are a warning"),
    ("loss", "loss (no unit)", ".4f", "near 0 whatever is learned: no measure of progress"),
    ("lr", "learning rate (no unit)", ".1e", "how far one update moves the weights"),
    ("mismatch_kl", "mismatch KL (nats a token)", ".5f", "how far trainer and inference server disagree"),
    ("off_policy_level", "off-policy level (updates)", ".1f", "how old the policy was that made the completions"),
    ("tokens_per_s", "throughput (tokens/s)", ".0f", "tokens handled each second"),
    ("peak_memory_gib", "peak memory (GiB)", ".2f", "largest use so far"),
    ("mfu", "MFU (%)", ".1f", "share of the hardware's arithmetic that is used"),
    ("reward_errors", "reward errors (rollouts)", ".0f", "rollouts whose reward could not be computed"),
)
"""(field of `StepRecord`, name with unit, format, meaning), the most telling first."""
MAIN = 4
"""How many of them are shown without asking."""


def main_metrics(steps: Sequence[StepRecord]) -> Sequence[Metric]:
    """The most telling metrics that any of `steps` has: engines know different ones."""
    return [metric for metric in METRICS if any(getattr(step, metric[0]) is not None for step in steps)][:MAIN]


def metric_rows(steps: Sequence[StepRecord], metrics: Sequence[Metric] = METRICS) -> list[tuple[str, ...]]:
    """Rows (name, one value a step, meaning) of the metrics that any of `steps` has."""
    return [
        (name, *(_written(getattr(step, field), form) for step in steps), meaning)
        for field, name, form, meaning in metrics
        if any(getattr(step, field) is not None for step in steps)
    ]


def _written(value: float | None, form: str) -> str:
    return ABSENT if value is None else format(value, form)
