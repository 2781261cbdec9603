"""A run of the toy engine that has ended well, with a configuration and evaluations as a real one would have them."""

from pathlib import Path

from toy import toy_plan

from rlguide.config import RunConfig, load_config, write_config
from rlguide.evaluation import held_out
from rlguide.measurements import EvalSample, Evaluation, Sampling
from rlguide.run import Run, launch
from rlguide.statistics import summarise

HOSTILE = "</td><script>alert(1)</script>"
"""A completion may hold anything."""


def finished_run(directory: Path, *, evaluated: bool = True, **changes: object) -> Run:
    """A run in `directory` that has succeeded; `changes` to its configuration."""
    run = launch(toy_plan(directory))
    run.wait(30)
    config = load_config("tiny", {"run_name": directory.name, **changes})
    write_config(config, run.files.config)
    if evaluated:
        add_evaluation(run, config, "warm start", "none", share_right=0.1)
        add_evaluation(run, config, "trained policy", str(run.weights), share_right=0.8)
    return run


def add_evaluation(run: Run, config: RunConfig, label: str, policy: str, *, share_right: float) -> Evaluation:
    """Put an evaluation into the run directory in which that share of the answers is exact, the others hostile."""
    settings, updates = config.evaluation, 0 if label == "warm start" else 3
    rollouts = [(text, n) for text in held_out(settings.num_tasks) for n in range(settings.rollouts_per_task)]
    right = round(share_right * len(rollouts))
    samples = tuple(
        _sample(text, is_right=number % 10 < 10 * right / len(rollouts)) for number, (text, _) in enumerate(rollouts)
    )
    sampling = Sampling(
        num_tasks=settings.num_tasks,
        rollouts_per_task=settings.rollouts_per_task,
        max_tokens=settings.max_tokens,
        temperature=settings.temperature,
        seed=config.seed,
    )
    made = Evaluation(
        label=label,
        policy=policy,
        completed_updates=updates,
        sampling=sampling,
        **summarise(samples, threshold=settings.threshold),
        seconds=12.0,
        created_at="2026-01-02T03:04:05+00:00",
    )
    run.files.evaluations.mkdir(exist_ok=True)
    path = run.files.evaluations / f"{label.replace(' ', '-')}-step_{updates}.json"
    path.write_text(made.model_dump_json(), encoding="utf-8")
    return made


def _sample(text: str, *, is_right: bool) -> EvalSample:
    answer = f"<reversed_text>{text[::-1]}</reversed_text>"
    return EvalSample(text=text, completion=answer if is_right else HOSTILE, reward=1.0 if is_right else 0.0)
