import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlguide.history import History, StepMerger, parse_steps
from rlguide.records import StepRecord


def step(number: int, *, attempt: int = 1, reward: float | None = 0.5) -> StepRecord:
    return StepRecord(step=number, completed_updates=number + 1, attempt=attempt, reward=reward)


def test_an_empty_history_knows_nothing():
    history = History()

    assert (len(history), history.first, history.last, history.completed_updates) == (0, None, None, 0)
    assert history.mean_reward(last=3) is None


def test_a_history_tells_rewards_in_the_order_of_steps():
    history = History([step(1, reward=None), step(0, reward=0.1), step(2, reward=0.3)])

    assert history.rewards == (0.1, None, 0.3)
    assert history.first == step(0, reward=0.1)
    assert history.completed_updates == 3
    assert history.mean_reward(last=2) == 0.3
    assert history.mean_reward(last=3) == pytest.approx(0.2)


def test_steps_of_a_later_attempt_replace_those_it_undid():
    first = [step(number, reward=0.1) for number in range(5)]
    second = [step(number, attempt=2, reward=0.9) for number in (2, 3)]

    history = History(first + second)

    assert history.rewards == (0.1, 0.1, 0.9, 0.9)
    assert history.recorded == {0, 1, 2, 3, 4}


def test_the_last_record_of_a_step_counts():
    assert History([step(0, reward=0.1), step(0, reward=0.2)]).rewards == (0.2,)


def test_a_half_written_line_is_skipped():
    line = step(0).model_dump_json() + "\n"
    half = step(1).model_dump_json()[:25]

    assert parse_steps(line + half).steps == (step(0),)
    assert parse_steps(half + "\n" + line).steps == (step(0),)
    assert parse_steps("").steps == ()


def test_one_component_gives_a_step_at_once():
    merger = StepMerger(["trainer"], attempt=2)

    (record,) = merger.add("trainer", {"step": 4, "completed_updates": 5, "reward": 0.5}, elapsed_s=1.5)

    assert record == step(4, attempt=2).model_copy(update={"elapsed_s": 1.5})
    assert merger.flush() == []


def test_a_step_waits_for_every_component_or_for_a_later_whole_step():
    merger = StepMerger(["orchestrator", "trainer"], attempt=1)
    seen = []

    seen += merger.add("orchestrator", {"step": 0, "completed_updates": 1, "reward": 0.1}, elapsed_s=1)
    seen += merger.add("orchestrator", {"step": 1, "completed_updates": 2, "reward": 0.2}, elapsed_s=2)
    assert seen == []
    seen += merger.add("trainer", {"step": 1, "completed_updates": 2, "loss": 0.3}, elapsed_s=3)

    assert [(record.step, record.reward, record.loss) for record in seen] == [(0, 0.1, None), (1, 0.2, 0.3)]


def test_a_part_that_comes_too_late_gives_the_step_out_again():
    merger = StepMerger(["orchestrator", "trainer"], attempt=1)
    merger.add("orchestrator", {"step": 0, "completed_updates": 1, "reward": 0.1}, elapsed_s=1)
    (unfinished,) = merger.flush()

    (again,) = merger.add("trainer", {"step": 0, "completed_updates": 1, "loss": 0.3}, elapsed_s=2)

    assert (unfinished.loss, again.loss, again.reward) == (None, 0.3, 0.1)


@given(order=st.permutations([(name, number) for name in "ab" for number in range(4)]))
def test_every_step_is_whole_in_the_end_whatever_the_order_of_its_parts(order: list[tuple[str, int]]):
    merger, seen = StepMerger("ab", attempt=1), []
    field = {"a": "reward", "b": "loss"}

    for name, number in order:
        part = {"step": number, "completed_updates": number + 1, field[name]: number / 10}
        seen += merger.add(name, part, elapsed_s=None)

    steps = History(seen + merger.flush()).steps
    assert [(found.step, found.reward, found.loss) for found in steps] == [(n, n / 10, n / 10) for n in range(4)]
