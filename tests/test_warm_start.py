"""The warm-start program: its help is a page like the others; a few steps learn, and leave a complete policy."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import transformers

from rlguide.paths import TINY_POLICY
from rlguide.programs.warm_start import warm_start


def rlguide(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-P", "-m", "rlguide", *arguments]
    return subprocess.run(argv, cwd=cwd, capture_output=True, text=True, check=False)


def test_its_help_is_a_page_as_those_of_the_other_commands():
    page = rlguide("warm-start", "--help").stdout

    options = re.findall(r"^  --[\w-]+ \S.*(?:\n   .*)*", page, re.MULTILINE)
    assert re.findall(r"^\S+", page, re.MULTILINE) == re.findall(
        r"^\S+", rlguide("runs", "--help").stdout, re.MULTILINE
    )
    assert len(options) == 21
    assert not [option for option in options if not re.search(r"(>|FOLDER)\s+[A-Z]", option)]
    assert "python -m" not in page


def test_its_help_says_how_long_it_took():
    trained = json.loads((TINY_POLICY / "trained.json").read_text())

    minutes = round(trained["training_seconds"] / 60)
    assert trained["hardware"].endswith("H200")
    assert f"{minutes} minutes on an H200" in " ".join((warm_start.__doc__ or "").split())


@pytest.mark.parametrize("options", ["--steps 0 --output x", "--output x --measure-only y", "--seed -1 --output x"])
def test_options_that_mean_nothing_are_refused_before_anything_is_loaded(options: str, tmp_path: Path):
    refused = rlguide("warm-start", *options.split(), cwd=tmp_path)

    assert refused.returncode == 2
    assert refused.stderr.startswith("Usage: rlguide warm-start")
    assert not list(tmp_path.iterdir())


@pytest.mark.training
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
    assert trained["weights"] == model.num_parameters()
    assert measured["texts"] == 32
    assert sum(measured["behaviours"].values()) == pytest.approx(1, abs=1e-3)
    assert model.generation_config.do_sample
    assert model.config.use_cache
