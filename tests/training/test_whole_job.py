"""The README's first command on a small scale: train, measure before and after, one last line."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from toy import nothing_left

pytestmark = pytest.mark.training

__all__ = ["nothing_left"]
SMALL = {
    "max_steps": 4,
    "orchestrator.batch_size": 64,
    "trainer.optim.lr": 1e-3,  # rises within a few steps; far above what twenty steps want
    "evaluation.num_tasks": 12,
    "evaluation.rollouts_per_task": 2,
    "evaluation.max_tokens": 128,
}
ARGV = [sys.executable, "-c", "from rlguide.cli import main; main()", "train", "--evaluate"]
ARGV += [word for key, value in SMALL.items() for word in ("--set", f"{key}={value}")]


@pytest.mark.usefixtures("nothing_left")
def test_one_command_trains_measures_and_ends_with_the_result_line_and_is_safe_twice(tmp_path: Path):
    first = subprocess.run(ARGV, cwd=tmp_path, capture_output=True, text=True, timeout=400, check=False)
    again = subprocess.run(ARGV, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)

    assert first.returncode == 0, first.stderr
    last = first.stdout.splitlines()[-1]
    found = re.fullmatch(r"reward before=(0\.\d{4}) after=(0\.\d{4}) n=24", last)
    assert found, last
    assert float(found.group(2)) > float(found.group(1))
    assert "trained policy: done, " in first.stderr
    assert again.returncode == 0
    assert again.stdout.splitlines()[-1] == last
    assert "already succeeded" in again.stderr
