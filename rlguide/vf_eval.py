"""Runs `vf-eval` against a server and reads the files it saves; what it prints is never parsed."""

import json
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rlguide.child import running
from rlguide.environ import bypassing
from rlguide.errors import EvaluationError
from rlguide.measurements import EvalSample, Sampling
from rlguide.redact import redact_files
from rlguide.server import Endpoint
from rlguide.tail import with_end

Progress = Callable[[int, int], object]
"""Called with the rollouts done and the rollouts in all."""

TIME_LIMIT_S = 600.0
"""Seconds for one evaluation; sixty completions of the tiny policy take about 10."""
ROLLOUT_S = 120
"""Seconds for one rollout."""
STALL_S = 30.0
"""Seconds without a finished rollout after which the server itself is asked: vf-eval's client tries an answer of 5xx
again, up to ten times, for nearly a minute."""
MAX_ERRORED = 0.1
"""Share of failed rollouts above which a mean says nothing about the policy."""
POLL_S = 0.2
ENVIRONMENT = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
"""Texts and server are on this machine; nothing asks the Hub, and nothing goes through a proxy either."""
ERROR_CHARACTERS = 500


def run_vf_eval(
    endpoint: Endpoint,
    sampling: Sampling,
    folder: Path,
    *,
    on_progress: Progress,
    program: Sequence[str],
    arguments: Mapping[str, Any] | None = None,
    env: Mapping[str, str] | None = None,
    concurrency: int = 1,
    stall_s: float = STALL_S,
) -> tuple[EvalSample, ...]:
    """Evaluate what `endpoint` serves on the environment's evaluation rows; `folder` must not exist yet.

    `program` is the command of vf-eval, `arguments` are the environment's own, and `env` are variables for both.
    Raises `EvaluationError` when vf-eval fails or takes too long, and `ServerError` when the server does.
    """
    log = folder / "vf-eval.log"
    argv = (*program, *options(endpoint, sampling, folder, arguments=arguments or {}, concurrency=concurrency))
    try:
        with running(argv, log, env={**(env or {}), **ENVIRONMENT, **bypassing("*")}) as child:
            _wait(child, endpoint, sampling, log, on_progress=on_progress, stall_s=stall_s)
    finally:
        redact_files(folder)
    rows = sorted(saved_rows(folder), key=lambda row: row["example_id"])
    if child.returncode != 0 or len(rows) != sampling.rollouts:
        ended = f"vf-eval ended with exit code {child.returncode}"
        raise failure(f"{ended} and {len(rows)} of {sampling.rollouts} rollouts saved", log)
    on_progress(len(rows), sampling.rollouts)
    samples = tuple(map(to_sample, rows))
    require_few_errors(samples, sampling, log)
    return samples


def options(
    endpoint: Endpoint, sampling: Sampling, folder: Path, *, arguments: Mapping[str, Any], concurrency: int
) -> tuple[str, ...]:
    """What vf-eval is asked for; its releases 0.1.14 and 0.3 understand the same."""
    pairs = {
        "--model": endpoint.model,
        "--api-base-url": endpoint.url,
        "--api-key-var": "RLGUIDE_NO_KEY",  # unset: the client then sends a dummy
        "--num-examples": sampling.num_tasks,
        "--rollouts-per-example": sampling.rollouts_per_task,
        "--max-tokens": sampling.max_tokens,
        "--temperature": sampling.temperature,
        "--max-concurrent": concurrency,
        "--max-retries": 0,  # on this machine a failure is a finding, and an empty answer is an answer
        "--timeout": ROLLOUT_S,
        "--output-dir": folder,
    }
    flags = ("--save-results", "--independent-scoring", "--disable-env-server", "--disable-tui")
    if arguments:
        pairs["--env-args"] = json.dumps(arguments)
    return "reverse-text", *(str(part) for pair in pairs.items() for part in pair), *flags


def saved_rows(folder: Path) -> Iterator[dict[str, Any]]:
    """Rows saved so far, in the order in which they were finished; half a line at the end is left out."""
    for path in folder.rglob("results.jsonl"):
        yield from (json.loads(line) for line in path.read_bytes().split(b"\n")[:-1] if line.strip())


def to_sample(row: dict[str, Any]) -> EvalSample:
    """One saved row. Without an answer of the policy it is an error, whatever reward was saved for it.

    An answer without any text is no error: verifiers files it under its errors, but the policy did answer.
    """
    text = row["prompt"][-1]["content"]
    said = [message["content"] for message in row["completion"] or () if message["role"] == "assistant"]
    error = row.get("error")
    if error and error["error"] == "EmptyModelResponseError" and "no content" in error["message"]:
        return EvalSample(text=text, completion="", reward=0.0)
    if error or not said:
        reason = error["error_chain_repr"] if error else row.get("stop_condition") or "no answer was saved"
        return EvalSample(text=text, completion="", reward=None, error=reason[:ERROR_CHARACTERS])
    return EvalSample(text=text, completion=said[-1] or "", reward=row["reward"])


def require_few_errors(samples: Sequence[EvalSample], sampling: Sampling, log: Path) -> None:
    """Raises `EvaluationError` when the server's troubles, not the policy, would decide the mean."""
    errors = [sample.error for sample in samples if sample.error]
    if len(errors) > MAX_ERRORED * sampling.rollouts:
        share = f"{len(errors)} of {sampling.rollouts} rollouts failed (at most {MAX_ERRORED:.0%} may)"
        hint = "a failed rollout is no bad answer: find the cause in the logs and evaluate again"
        raise EvaluationError(f"invalid: {share}; the first error: {errors[0]}", look=log, hint=hint)


def failure(message: str, log: Path) -> EvaluationError:
    """An `EvaluationError` that shows the end of a log."""
    return EvaluationError(with_end(message, log), look=log)


def _wait(
    child: "subprocess.Popen[bytes]",
    endpoint: Endpoint,
    sampling: Sampling,
    log: Path,
    *,
    on_progress: Progress,
    stall_s: float,
) -> None:
    started = moved = time.monotonic()
    done = 0
    while child.poll() is None:
        endpoint.require_alive()
        samples = [to_sample(row) for row in saved_rows(log.parent)]
        require_few_errors(samples, sampling, log)
        now = time.monotonic()
        if len(samples) > done:
            done, moved = len(samples), now
            on_progress(done, sampling.rollouts)
        elif now - moved > stall_s:
            endpoint.require_answer()
            moved = time.monotonic()
        if now - started > TIME_LIMIT_S:
            raise failure(f"only {done} of {sampling.rollouts} rollouts in {TIME_LIMIT_S:.0f} s", log)
        time.sleep(POLL_S)
