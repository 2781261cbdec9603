"""Numbers in records are numbers."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from rlguide.measurements import Sampling
from rlguide.parsing import parse_rollouts
from rlguide.records import Machine, Process, StepRecord


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_a_record_refuses_what_is_not_finite_and_a_metric_becomes_a_gap(value: float):
    with pytest.raises(ValidationError):
        Machine(cores=1, memory_gib=value)
    with pytest.raises(ValidationError):
        Sampling(num_tasks=1, rollouts_per_task=1, max_tokens=1, temperature=value)

    assert StepRecord(step=0, completed_updates=1, reward=value).reward is None


def test_odd_lines_among_rollouts_are_left_out():
    good = '{"step": 0, "text": "ab", "completion": "ba", "reward": 1.0, "advantage": NaN}\n'

    found = parse_rollouts('{"step": 0}\nnonsense\n' + good + good.replace("1.0", "NaN"))

    assert [(rollout.reward, rollout.advantage) for rollout in found] == [(1.0, None)]


@pytest.mark.parametrize("path", ["/etc/passwd", "../other/run.json", "logs/../../x"])
def test_a_path_that_leads_out_of_the_run_directory_is_refused(path: str):
    with pytest.raises(ValidationError, match="leads out of the run directory"):
        Process(name="trainer", argv=("true",), log=Path(path))
