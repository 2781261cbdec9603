"""On every hostile machine each check says what it should: none raises, hangs, keeps silent or gives a secret away."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from hostile_machines import CASES, Case, counted
from hostile_world import ANNA, TOKEN, World

from rlguide.asking import LONGEST
from rlguide.records import Status


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with ExitStack() as stack:
        yield World(tmp_path, monkeypatch, stack)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.kind}: {case.why}")
def test_a_hostile_machine_gets_the_verdict_that_it_deserves(case: Case, world: World):
    case.build(world)

    found = world.ask(case.check, case.engine, network=case.network)

    assert (found.status, case.said in found.seen) == (case.status, True), found
    assert found.fix or found.status in {Status.PASS, Status.SKIP}
    assert not found.fix or "None" not in found.fix
    assert case.helps in (found.fix or "")
    assert found.seen.isprintable()
    assert len(found.seen) <= LONGEST
    for secret in (TOKEN, ANNA, "secret"):
        assert secret not in f"{found.seen}{found.fix}"


def test_no_input_is_counted_twice_and_the_count_is_told():
    print(counted())

    assert len({(case.kind, case.why) for case in CASES}) == len(CASES)
