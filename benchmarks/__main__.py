"""Measures what tests should not: speed against plain TRL, start-up, memory, a busy machine, seeds, import time.

    python -m benchmarks [speed] [busy] [seeds] [imports]      all of them when none is named

Nothing else should run. What is compared is measured in the same go, and only ratios are worth comparing elsewhere.
"""

import argparse
import multiprocessing
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from rlguide.config import load_config
from rlguide.engines import plan as make_plan
from rlguide.environment.texts import load_texts
from rlguide.evaluation import evaluate
from rlguide.paths import TINY_POLICY
from rlguide.records import Evaluation, RunRecord
from rlguide.run import Run, launch

STEPS = 20
SEEDS = range(5)
PLAIN = Path(__file__).with_name("plain_trl.py")


def main() -> None:
    measurements: dict[str, Callable[[Path], None]] = {"speed": speed, "busy": busy, "seeds": seeds, "imports": imports}
    parser = argparse.ArgumentParser(
        prog="benchmarks", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("names", nargs="*", help=", ".join(measurements))
    names = parser.parse_args().names or list(measurements)
    for name in names:
        print(f"\n== {name} ==", flush=True)
        with tempfile.TemporaryDirectory(prefix="rlguide-bench-") as folder:
            measurements[name](Path(folder))


def speed(folder: Path) -> None:
    """Twenty steps of 128 rollouts: ours, and the plain script, on the same checkpoint and texts."""
    plain_start, plain_training = plain_trl(folder)
    run = trained(folder, "speed")
    record, steps = run.record, run.history.steps
    ours = sum(step.seconds for step in steps)
    per_step = f"({plain_training / STEPS:.2f} s a step)"
    print(f"plain TRL : start-up {plain_start:.1f} s, training {plain_training:.1f} s {per_step}")
    per_step = f"({ours / STEPS:.2f} s a step)"
    print(f"rlguide   : launch to end {record.elapsed_s:.1f} s, training {ours:.1f} s {per_step}")
    print(f"start-up  : {record.ready_s - steps[0].seconds:.1f} s from launch to the first step's beginning")
    print(f"ratio     : {ours / plain_training:.2f} of plain TRL's training time")
    print(f"memory    : {steps[-1].peak_memory_gib:.2f} GiB resident at most")


def busy(folder: Path) -> None:
    """The same run alone and beside one process that keeps a core busy."""
    alone = step_seconds(trained(folder, "alone", {"max_steps": 8}))
    spinner = multiprocessing.Process(target=spin, daemon=True)
    spinner.start()
    try:
        beside = step_seconds(trained(folder, "beside", {"max_steps": 8}))
    finally:
        spinner.kill()
    print(f"alone {alone:.2f} s a step, beside a busy process {beside:.2f} s: {beside / alone:.2f} times")


def seeds(folder: Path) -> None:
    """Reward of the last three steps, and held-out evaluation before and after, for each seed."""
    rewards, after = [], []
    for seed in SEEDS:
        run = trained(folder, f"seed-{seed}", {"seed": seed})
        comparison = evaluate(run)
        rewards.append(run.history.mean_reward(last=3))
        after.append(comparison.after.mean)
        print(f"seed {seed}: last three steps {rewards[-1]:.3f}; held out: {said(comparison.before)}", flush=True)
        print(f"{'':33}after: {said(comparison.after)}", flush=True)
    print(f"last three steps: mean {statistics.mean(rewards):.3f}, least {min(rewards):.3f}")
    print(f"held out after  : mean {statistics.mean(after):.3f}, least {min(after):.3f}")


def imports(_folder: Path) -> None:
    """`import rlguide` in a fresh interpreter, without what the interpreter itself takes; the best of ten."""
    bare, ours = (min(fresh_python(code) for _ in range(10)) for code in ("pass", "import rlguide"))
    print(f"import rlguide: {1000 * (ours - bare):.0f} ms")


def trained(folder: Path, name: str, changes: dict | None = None) -> Run:
    """A finished run of the tiny preset in `folder`."""
    config = load_config("tiny", {"run_name": name, "max_steps": STEPS} | (changes or {}))
    run = launch(make_plan(config, folder / name))
    record: RunRecord = run.wait()
    if not record.state.is_success:
        sys.exit(f"the run {name} ended as {record.state}: {record.reason}")
    return run


def plain_trl(folder: Path) -> tuple[float, float]:
    """Seconds of start-up and of training of the script that a user would write without rlguide."""
    prompts = folder / "prompts.txt"
    prompts.write_text("\n".join(load_texts("train")), encoding="utf-8")
    argv = [sys.executable, str(PLAIN), str(TINY_POLICY), str(prompts), "--steps", str(STEPS)]
    argv += ["--max-completion-tokens", str(load_config("tiny").max_completion_tokens)]
    said = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=True).stdout
    found = re.search(r"start-up ([\d.]+) s, training ([\d.]+) s", said)
    return float(found.group(1)), float(found.group(2))


def said(evaluation: Evaluation) -> str:
    """Mean with its interval, right form and similarity."""
    low, high = evaluation.interval
    form, similarity = evaluation.right_form, evaluation.similarity_in_form or 0.0
    return f"{evaluation.mean:.3f} [{low:.3f}, {high:.3f}] = form {form:.3f} x similarity {similarity:.3f}"


def step_seconds(run: Run) -> float:
    """Median seconds of a step, the first left out."""
    return statistics.median(step.seconds for step in run.history.steps[1:])


def spin() -> None:
    while True:
        pass


def fresh_python(code: str) -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
