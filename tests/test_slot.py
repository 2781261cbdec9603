import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rlguide.errors import Busy, LaunchError
from rlguide.slot import cpu_slot, require_free_cpu

pytestmark = pytest.mark.usefixtures("nothing_left")

HOLD = """
import sys
from rlguide.slot import cpu_slot, require_free_cpu
with cpu_slot("the other one"):
    print("holding", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def other():
    child = subprocess.Popen([sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout.readline() == b"holding\n"
    yield child
    child.kill()
    child.wait()


def test_a_taken_slot_is_refused_and_its_holder_named(other):
    with pytest.raises(Busy) as refused, cpu_slot("me"):
        pass

    assert f"the other one (pid {other.pid})" in refused.value.message
    assert refused.value.hint


def test_a_slot_is_free_again_when_its_holder_was_killed(other):
    other.kill()
    other.wait()

    with cpu_slot("me"):
        pass


def test_a_slot_can_be_waited_for(other):
    other.stdin.close()

    with cpu_slot("me", wait_s=10):
        pass


def test_a_slot_is_free_again_after_an_error():
    with pytest.raises(KeyError), cpu_slot("me"):
        raise KeyError

    with cpu_slot("me"):
        pass


def test_the_same_process_does_not_get_it_twice():
    with cpu_slot("outer"), pytest.raises(Busy, match="outer"), cpu_slot("inner"):
        pass


@pytest.mark.parametrize("blocked", ["folder", "lock"])
def test_a_lock_that_cannot_be_used_is_a_clear_error(tmp_path: Path, blocked: str):
    folder = tmp_path / f"rlguide-{os.getuid()}"
    if blocked == "folder":
        folder.write_text("a file")
    else:
        (folder / "cpu.lock").mkdir(parents=True)

    with pytest.raises(LaunchError, match="cannot use the lock of the CPU") as refused, cpu_slot("me"):
        pass

    assert refused.value.look == folder
    assert "TMPDIR" in refused.value.hint


def test_a_slot_whose_holder_cannot_be_told_is_held_all_the_same(tmp_path: Path):
    (tmp_path / f"rlguide-{os.getuid()}" / "cpu.holder").mkdir(parents=True)

    with cpu_slot("outer"), pytest.raises(Busy, match="another process"), cpu_slot("inner"):
        pass


def test_a_look_at_the_slot_makes_no_file_and_names_the_holder(tmp_path: Path, other):
    with pytest.raises(Busy, match=f"the other one .pid {other.pid}."):
        require_free_cpu()
    other.kill()
    other.wait()
    require_free_cpu()

    shutil.rmtree(tmp_path / f"rlguide-{os.getuid()}")
    require_free_cpu()
    assert not [*tmp_path.iterdir()]
