"""What the faults share."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fault_table import SEEN

pytest.register_assert_rewrite("evidence")
from evidence import Fault  # noqa: E402


@pytest.fixture
def fault(request: pytest.FixtureRequest, nothing_left: None) -> Iterator[Fault]:
    """The fault that the test's marker names."""
    _, expected = request.node.get_closest_marker("fault").args
    injected = Fault(expected)
    yield injected
    request.node.user_properties.append((SEEN, injected.seen))


@pytest.fixture
def directory(outputs: Path) -> Path:
    return outputs / "toy"
