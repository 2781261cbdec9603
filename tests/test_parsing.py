import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlguide.parsing import DIALECTS, parse_rollouts, parse_trl
from rlguide.records import Rollout, StepRecord

STEP = {"step": 3, "completed_updates": 4, "reward": 0.5, "lr": 3e-4}


def test_a_line_of_the_trl_engine_becomes_a_part_of_a_step():
    assert parse_trl(json.dumps(STEP)) == STEP


def test_a_value_that_is_not_finite_or_unknown_is_a_gap():
    line = '{"step": 3, "completed_updates": 4, "reward": NaN, "loss": Infinity, "entropy": null, "lr": 1e-05}'

    assert parse_trl(line) == {"step": 3, "completed_updates": 4, "lr": 1e-05}


def test_what_only_the_supervisor_knows_is_not_taken_from_an_engine():
    line = json.dumps(STEP | {"attempt": 7, "elapsed_s": 1.0, "made_up": 2})

    assert parse_trl(line) == STEP


@pytest.mark.parametrize(
    "line",
    [
        "",
        "step 3  reward 0.5",
        '{"step": 3, "completed_up',
        "[1, 2]",
        "3",
        '{"reward": 0.5}',
        '{"step": "three", "completed_updates": 4}',
        '{"completion": "{\\"step\\": 99, \\"completed_updates\\": 100}"}',
        "[" * 100_000,
    ],
    ids=lambda line: line[:20] or "empty",
)
def test_any_other_line_is_ignored(line: str):
    assert parse_trl(line) is None


@pytest.mark.parametrize("dialect", DIALECTS)
@given(line=st.text())
def test_no_line_breaks_a_dialect(dialect: str, line: str):
    part = DIALECTS[dialect](line)

    assert part is None or StepRecord(**part)


def test_rollouts_are_read_without_the_line_that_is_still_being_written():
    rollout = Rollout(step=1, text="abc", completion="<x>cba\u2028</x>", reward=1.0, advantage=0.5)
    line = rollout.model_dump_json() + "\n"

    assert parse_rollouts(line * 2 + line[:10]) == (rollout, rollout)
    assert parse_rollouts("") == ()
