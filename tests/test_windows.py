"""Logs in tmux: what tmux is asked for, told by a stand-in on PATH."""

import json
import os
import sys
from pathlib import Path

import pytest

from rlguide.errors import EngineMissing
from rlguide.windows import open_windows

STAND_IN = """#!{python}
import json, sys
with open({said!r}, "a") as said:
    said.write(json.dumps(sys.argv[1:]) + "\\n")
if sys.argv[1] in {refused!r}:
    sys.exit("no server running")
"""


def stand_in(folder: Path, monkeypatch: pytest.MonkeyPatch, *refused: str) -> Path:
    """A `tmux` on PATH that refuses some commands; returns the file in which it keeps what it was asked for."""
    said = folder / "said"
    (folder / "tmux").write_text(STAND_IN.format(python=sys.executable, said=str(said), refused=refused))
    (folder / "tmux").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return said


def test_each_log_is_followed_in_a_pane_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    said = stand_in(tmp_path, monkeypatch, "has-session")

    shown = open_windows("my.run", {"trainer": tmp_path / "a b.log", "orchestrator": tmp_path / "o.log"})

    asked = [json.loads(line) for line in said.read_text().splitlines()]
    assert shown.splitlines() == [
        "see them: tmux attach -t rlguide-my_run (Ctrl-b d leaves)",
        "end that: tmux kill-session -t rlguide-my_run",
    ]
    assert [words[0] for words in asked] == ["has-session", "new-session", "split-window", "select-layout"]
    assert asked[1][1:4] == ["-d", "-s", "rlguide-my_run"]
    assert f"tail -n 200 -F '{tmp_path / 'a b.log'}'" in asked[1][-1]
    assert f"tail -n 200 -F {tmp_path / 'o.log'}" in asked[2][-1]


def test_a_session_that_is_there_is_left_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    said = stand_in(tmp_path, monkeypatch)

    assert "tmux attach -t rlguide-a " in open_windows("a", {"trainer": tmp_path / "t.log"})

    assert len(said.read_text().splitlines()) == 1


def test_without_tmux_the_command_that_follows_the_logs_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(EngineMissing, match="no tmux") as refused:
        open_windows("a", {"trainer": tmp_path / "t.log"})

    assert f"tail -F {tmp_path / 't.log'}" in str(refused.value)


def test_a_refusal_of_tmux_is_told_in_its_own_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    stand_in(tmp_path, monkeypatch, "has-session", "new-session")

    with pytest.raises(EngineMissing, match="no server running"):
        open_windows("a", {"trainer": tmp_path / "t.log"})
