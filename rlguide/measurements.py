"""The records of what policies do with texts: scored completions, evaluations, comparisons, and texts that were tried.

Like all records: frozen, typed, and the same in memory and in JSON.
"""

from rlguide.records import Record


class Sampling(Record):
    """How completions are drawn, stated in full so that two evaluations can be compared."""

    num_tasks: int
    rollouts_per_task: int
    max_tokens: int
    temperature: float
    seed: int | None = None

    @property
    def rollouts(self) -> int:
        """How many are drawn in all."""
        return self.num_tasks * self.rollouts_per_task


class EvalSample(Record):
    """One scored completion of an evaluation."""

    text: str
    completion: str
    reward: float | None
    """`None` when the rollout could not be made; see `error`."""
    error: str | None = None


class Evaluation(Record):
    """A policy measured on held-out texts. Statistics are over scored samples; errors are counted apart."""

    label: str
    """For the reader: `warm start`, `trained policy`."""
    policy: str
    """Folder or Hub name of the weights."""
    completed_updates: int | None = None
    sampling: Sampling
    threshold: float
    """Reward from which a rollout counts as passed."""
    samples: tuple[EvalSample, ...]
    scored: int
    errored: int
    empty: int
    """Scored completions without any text."""
    mean: float
    stderr: float
    """Standard error of the mean, clustered by task."""
    interval: tuple[float, float]
    """95 % confidence interval of the mean, resampled by task."""
    lower_bound: float
    """Mean with every errored rollout counted as 0."""
    passed: float
    """Share of scored samples at or over `threshold`."""
    exact: float
    """Share of scored samples that are the exact reversal."""
    right_form: float
    """Share of scored samples with an answer between the tags."""
    similarity_in_form: float | None
    """Mean reward of the samples in the right form; mean = right_form × similarity_in_form."""
    best_of: float
    """Mean over tasks of the best of `rollouts_per_task` rewards."""
    notes: tuple[str, ...] = ()
    """What the reader should know about these numbers, one sentence each."""
    seconds: float
    created_at: str


class Comparison(Record):
    """Two evaluations on the same texts with the same sampling."""

    before: Evaluation
    after: Evaluation
    difference: float
    """after − before, mean over tasks."""
    interval: tuple[float, float]
    """95 % interval of the difference, resampled by task."""
    choosing: float | None
    """Part of the difference from answering in the right form more often; `None` when it cannot be told."""
    improving: float | None
    """Part of the difference from better answers in that form."""
    verdict: str
    """One generated sentence; says so when the two cannot be told apart."""


class Attempt(Record):
    """What one policy makes of one text."""

    label: str
    """`warm start` or `trained policy`."""
    policy: str
    answer: EvalSample
    """The greedy completion."""
    samples: tuple[EvalSample, ...] = ()
    """Completions drawn at temperature 1, when asked for."""


class Trial(Record):
    """One text, tried by the warm start and by the trained policy."""

    text: str
    attempts: tuple[Attempt, ...]
    notes: tuple[str, ...] = ()
    """What a reader of the answers should know, one sentence each."""
