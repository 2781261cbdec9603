"""The warm-start program, run as a child process for a few steps: it learns, and leaves a complete policy."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import transformers

pytestmark = pytest.mark.training


def test_few_steps_lower_the_loss_and_leave_a_policy_that_loads(tmp_path: Path) -> None:
    options = (
        "--steps 40 --batch-size 32 --warmup-steps 5 --lr 5e-3 --hidden 64 --heads 1 --layers 1 --samples 1 --texts 32"
    )

    subprocess.run(
        [sys.executable, "-m", "rlguide.programs.warm_start", "--output", str(tmp_path), *options.split()],
        check=True,
        cwd=tmp_path,
    )

    trained = json.loads((tmp_path / "trained.json").read_text())
    measured = json.loads((tmp_path / "measured.json").read_text())
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path)
    assert trained["last_loss"] < trained["first_loss"] - 0.5
    assert trained["parameters"] == model.num_parameters()
    assert measured["texts"] == 32
    assert sum(measured["behaviours"].values()) == pytest.approx(1, abs=1e-3)
    assert model.generation_config.do_sample
    assert model.config.use_cache
