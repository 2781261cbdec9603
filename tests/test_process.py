import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from toy import STUBBORN, eventually

from rlguide.family import end_tree, marked
from rlguide.process import MARK, identity_of, is_alive, lives, own_identity
from rlguide.records import Process, ProcessIdentity
from rlguide.starting import start

SLEEP = (sys.executable, "-S", "-E", "-c", "import time; time.sleep(600)")


@pytest.fixture
def sleeper() -> Iterator["subprocess.Popen[bytes]"]:
    child = subprocess.Popen(SLEEP)
    yield child
    child.kill()
    child.wait()


def identity(pid: int) -> ProcessIdentity:
    found = identity_of(pid)
    assert found is not None
    return found


def test_this_process_is_alive_and_its_identity_survives_json():
    me = ProcessIdentity.model_validate_json(own_identity().model_dump_json())

    assert me.pid == os.getpid()
    assert is_alive(me)


@pytest.mark.parametrize(
    "change", [{"start_time": 1.0}, {"host": "elsewhere"}, {"boot_id": "another boot"}], ids=lambda c: next(iter(c))
)
def test_a_pid_that_belongs_to_somebody_else_is_not_alive_and_never_signalled(sleeper, change: dict):
    stranger = identity(sleeper.pid).model_copy(update=change)

    left = end_tree([stranger], grace_s=0.2)

    assert not is_alive(stranger)
    assert left == ()
    assert sleeper.poll() is None


def test_no_process_has_an_impossible_pid():
    assert [identity_of(pid) for pid in (-1, 2**22 + 1)] == [None, None]


def test_a_zombie_is_not_alive(sleeper):
    who = identity(sleeper.pid)
    sleeper.kill()

    eventually(lambda: psutil.Process(sleeper.pid).status() == psutil.STATUS_ZOMBIE)

    assert not is_alive(who)
    assert identity_of(sleeper.pid) is None


def test_a_started_process_has_a_session_and_a_log_of_its_own_and_no_input(tmp_path: Path):
    code = "import os, sys; print(os.getsid(0) == os.getpid(), repr(sys.stdin.read()), os.environ['SEEN'])"
    process = Process(name="p", argv=(sys.executable, "-c", code), env={"SEEN": "yes"}, log=Path("logs/p.log"))

    for _ in range(2):
        assert start(process, tmp_path).wait(30) == 0

    assert (tmp_path / "logs/p.log").read_text() == "True '' yes\n" * 2


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child that its parent is gone")
def test_a_started_process_is_asked_to_end_when_its_parent_is_killed(tmp_path: Path):
    code = f"""
import sys, time
from pathlib import Path
from rlguide.starting import start
from rlguide.records import Process
child = start(Process(name="p", argv={SLEEP!r}, log=Path("p.log")), Path({str(tmp_path)!r}))
print(child.pid, flush=True)
time.sleep(600)
"""
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    child = identity(int(parent.stdout.readline()))

    parent.kill()
    parent.communicate()

    eventually(lambda: not is_alive(child), within_s=5)


def test_end_tree_ends_a_stubborn_grandchild_in_its_own_session(tmp_path: Path):
    parent = start_parent(tmp_path, new_session=True)
    grandchild = identity(int((tmp_path / "ready").read_text()))

    left = end_tree([identity(parent.pid)], grace_s=1)

    assert left == ()
    assert not is_alive(grandchild)
    assert parent.wait(5) == -signal.SIGTERM


@pytest.mark.parametrize("mark", ["mark-1", None])
def test_an_orphan_is_found_by_its_mark_alone(tmp_path: Path, mark: str | None):
    parent = start_parent(tmp_path, new_session=True, mark="mark-1")
    orphan = identity(int((tmp_path / "ready").read_text()))
    gone = identity(parent.pid)
    parent.kill()
    parent.wait()

    end_tree([gone], grace_s=0.2, mark=mark)

    assert is_alive(orphan) == (mark is None)
    assert end_tree([], grace_s=0.2, mark="mark-1") == ()


def test_one_that_is_only_named_is_left_alone(tmp_path: Path):
    parent = start_parent(tmp_path, new_session=True, mark="mark-3")
    orphan = psutil.Process(int((tmp_path / "ready").read_text()))
    parent.kill()
    parent.wait()

    assert end_tree([identity(orphan.pid)], grace_s=0.2, mark="mark-4") == ()

    assert lives(orphan)
    orphan.kill()


def test_children_are_asked_to_end_together_with_their_parent_where_nothing_is_left_to_save(tmp_path: Path):
    stubborn = f"import signal, subprocess; child = subprocess.Popen({SLEEP!r})"
    stubborn += "; signal.signal(signal.SIGTERM, signal.SIG_IGN); open('ready', 'w'); child.wait()"
    parent = subprocess.Popen([sys.executable, "-c", stubborn], cwd=tmp_path)
    eventually((tmp_path / "ready").exists)
    began = time.monotonic()

    end_tree([identity(parent.pid)], grace_s=10, at_once=True)

    assert time.monotonic() - began < 5
    assert parent.wait(5) == 0  # it outlived the request, and its child did not


def test_another_mark_is_not_ours(tmp_path: Path):
    parent = start_parent(tmp_path, new_session=False, mark="mark-2")

    assert {process.pid for process in marked("mark-2")} >= {parent.pid}
    assert marked("mark") == set()
    assert end_tree([identity(parent.pid)], grace_s=0.2) == ()


def test_a_second_signal_is_not_sent_while_the_grace_lasts(tmp_path: Path):
    code = """
import signal, sys, time
got = []
signal.signal(signal.SIGTERM, lambda *_: got.append(time.monotonic()))
open("ready", "w")
while not got or time.monotonic() < got[0] + 1:
    time.sleep(0.01)
print(len(got))
"""
    child = start(Process(name="p", argv=(sys.executable, "-c", code), log=Path("p.log")), tmp_path)
    eventually((tmp_path / "ready").exists)
    began = time.monotonic()

    left = end_tree([identity(child.pid)], grace_s=10)

    assert left == ()
    assert child.wait(5) == 0
    assert (tmp_path / "p.log").read_text() == "1\n"
    assert time.monotonic() - began < 5


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has subreapers")
def test_a_subreaper_finds_descendants_that_lost_parent_and_mark(tmp_path: Path, fresh_python):
    told = fresh_python(f"""
import json, os, psutil, subprocess, sys
from rlguide.family import end_tree
from rlguide.process import identity_of, is_alive, own_identity
from rlguide.starting import become_subreaper, reap_orphans
became = become_subreaper()
middle = "import subprocess as s; print(s.Popen({list(SLEEP)!r}, stdout=2, start_new_session=True, env={{}}).pid)"
done = subprocess.run([sys.executable, "-c", middle], stdout=subprocess.PIPE, check=True)
orphan = identity_of(int(done.stdout))
left = end_tree([own_identity()], grace_s=1, mark="nobody's")
ended = not is_alive(orphan)
ours = subprocess.Popen(["false"])
os.waitid(os.P_PID, ours.pid, os.WEXITED | os.WNOWAIT)  # a child of ours that ended hides no orphan
reap_orphans([ours])
print(json.dumps([became, len(left), ended, psutil.pid_exists(orphan.pid), ours.returncode]))
""")

    assert json.loads(told) == [True, 0, True, False, 1]


def start_parent(folder: Path, *, new_session: bool, mark: str = "none") -> "subprocess.Popen[bytes]":
    """A process with a grandchild that ignores SIGTERM and writes its pid to `ready`."""
    code = (
        f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-S', '-E', '-c', {STUBBORN!r}, 'ready'], "
        f"start_new_session={new_session}); time.sleep(600)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], cwd=folder, env=os.environ | {MARK: mark})
    eventually(lambda: (folder / "ready").exists() and (folder / "ready").read_text())
    return parent
