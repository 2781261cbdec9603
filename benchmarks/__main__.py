"""Measures what tests should not: speed, start-up, memory, a busy machine, seeds, imports, long logs, supervision.

    python -m benchmarks [speed] [busy] [seeds] [imports] [logs] [supervision]      all of them when none is named

Nothing else should run. What is compared is measured in the same go, and only ratios are worth comparing elsewhere.
"""

import argparse
import multiprocessing
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.supervision import supervision
from rlguide.config import load_config
from rlguide.engines import plan as make_plan
from rlguide.engines.prime_rl import METRICS
from rlguide.engines.replay import RECORDING
from rlguide.environment.texts import load_texts
from rlguide.evaluation import evaluate
from rlguide.measurements import Evaluation
from rlguide.parsing import DIALECTS, HOLDING
from rlguide.paths import TINY_POLICY
from rlguide.records import RunRecord
from rlguide.run import Run, launch
from rlguide.tail import LineReader

STEPS = 20
TURNS = 5
BUSY_STEPS = 6
SEEDS = range(5)
LOG_LINES = 1_000_000
REFRESHES = 50
PLAIN = Path(__file__).with_name("plain_trl.py")


def main() -> None:
    measured = (speed, busy, seeds, imports, logs, supervision)
    measurements: dict[str, Callable[[Path], None]] = {measure.__name__: measure for measure in measured}
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
    """Twenty steps of 128 rollouts: the plain script and ours by turns, on the same checkpoint and texts.

    By turns, because a shared machine is faster in one minute than in the next.
    """
    plain, ours = [], []
    for turn in range(TURNS):
        start_s, training_s = plain_trl(folder)
        run = trained(folder, f"speed-{turn}")
        steps = run.history.steps
        plain.append(training_s)
        ours.append(sum(step.seconds for step in steps))
        print(f"turn {turn}: plain TRL start-up {start_s:.1f} s, training {training_s:.1f} s", flush=True)
        begun_s = run.record.ready_s - steps[0].seconds
        print(f"{'':8}rlguide   start-up {begun_s:.1f} s, training {ours[-1]:.1f} s", end=", ")
        print(f"launch to end {run.record.elapsed_s:.1f} s, at most {steps[-1].peak_memory_gib:.2f} GiB", flush=True)
    ratio = statistics.median(ours) / statistics.median(plain)
    per_step = [statistics.median(seconds) / STEPS for seconds in (plain, ours)]
    print(f"seconds a step: plain TRL {per_step[0]:.2f}, rlguide {per_step[1]:.2f}; ratio of the medians {ratio:.2f}")


def busy(folder: Path) -> None:
    """The same run alone and beside one process that keeps a core busy, by turns."""
    alone, beside = [], []
    for turn in range(TURNS):
        alone += step_seconds(trained(folder, f"alone-{turn}", {"max_steps": BUSY_STEPS}))
        spinner = multiprocessing.Process(target=spin, daemon=True)
        spinner.start()
        try:
            beside += step_seconds(trained(folder, f"beside-{turn}", {"max_steps": BUSY_STEPS}))
        finally:
            spinner.kill()
    medians = [statistics.median(seconds) for seconds in (alone, beside)]
    ratio = medians[1] / medians[0]
    print(f"alone {medians[0]:.2f} s a step, beside a busy process {medians[1]:.2f} s: {ratio:.2f} times")


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


def logs(folder: Path) -> None:
    """A log of a million lines, the recorded steps of prime-rl's orchestrator over and over: read and parsed at once,
    and then after each new step."""
    recorded = (RECORDING / "logs" / "orchestrator.log").read_bytes().split(b"\n")
    first = next(number for number, line in enumerate(recorded) if b"Starting orchestrator step 0" in line)
    steps, log, dialect = recorded[first:200], folder / "orchestrator.log", METRICS[0].dialect
    with log.open("wb") as file:
        for _ in range(LOG_LINES // len(steps) + 1):
            file.write(b"\n".join(steps) + b"\n")
    reader, parse = LineReader(log, holding=HOLDING[dialect]), DIALECTS[dialect]

    def look() -> tuple[int, float]:
        started = time.perf_counter()
        found = sum(parse(line) is not None for line in reader.read())
        return found, time.perf_counter() - started

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    worked = time.process_time()
    found, seconds = look()
    worked = time.process_time() - worked
    grown_mib = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(f"{log.stat().st_size / 2**20:.0f} MiB, {found} step lines: {seconds:.2f} s, {worked:.2f} s of a processor")
    print(f"memory {grown_mib:+.0f} MiB, most of it the step lines")
    refreshes = []
    for _ in range(REFRESHES):
        with log.open("ab") as file:
            file.write(b"\n".join(steps[: len(steps) // 20]) + b"\n")
        refreshes.append(look()[1])
    print(f"each of {REFRESHES} refreshes: at most {1000 * max(refreshes):.2f} ms")


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


def step_seconds(run: Run) -> list[float]:
    """Seconds of each step, the first left out."""
    return [step.seconds for step in run.history.steps[1:]]


def spin() -> None:
    while True:
        pass


def fresh_python(code: str) -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
