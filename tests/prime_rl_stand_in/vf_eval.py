"""The stand-in for `vf-eval` of verifiers 0.1.14: real requests to the server, the same files, the same exit codes."""

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator
from math import comb
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

from prime_rl_stand_in.behaviour import begin, die_at, hear_sigterm
from prime_rl_stand_in.client import call
from prime_rl_stand_in.env_server import SERVER
from prime_rl_stand_in.environment import Environment, load
from prime_rl_stand_in.logger import Logger, log_plain
from prime_rl_stand_in.rows import METRIC, failed_row, rollout_row

RETRIES, RETRY_S = 3, 0.02
"""The real client tries up to ten times, for nearly a minute."""
PASSED = 0.5
EMPTY = "Model returned no content, reasoning, and did not call any tools"
STATUS_ERRORS = {400: "BadRequestError", 404: "NotFoundError", 422: "UnprocessableEntityError"}
VALUES = (
    ("-a", "--env-args", json.loads, {}), ("", "--env-dir-path", str, None), ("-p", "--provider", str, None),
    ("-e", "--endpoints-path", str, None), ("-m", "--model", str, "openai/gpt-4.1-mini"),
    ("", "--api-client-type", str, None), ("-k", "--api-key-var", str, None),
    ("-b", "--api-base-url", str, "http://127.0.0.1:9/v1"), ("", "--header", str, None),
    ("", "--header-from-state", str, None), ("-n", "--num-examples", int, 5), ("-r", "--rollouts-per-example", int, 3),
    ("-c", "--max-concurrent", int, 32), ("-t", "--max-tokens", int, None), ("-T", "--temperature", float, None),
    ("-S", "--sampling-args", json.loads, {}), ("-o", "--output-dir", Path, Path("outputs")),
    ("-C", "--state-columns", str, None), ("-D", "--hf-hub-dataset-name", str, None),
    ("-x", "--extra-env-kwargs", json.loads, {}), ("", "--timeout", float, None), ("", "--max-retries", int, 0),
    ("-w", "--num-workers", str, "auto"), ("", "--heartbeat-url", str, None),
)  # fmt: skip
"""Options with a value: short, long, type, default."""
SWITCHES = (
    ("-v", "--verbose"), ("-N", "--no-interleave-scoring"), ("-s", "--save-results"), ("-i", "--independent-scoring"),
    ("-H", "--save-to-hf-hub"), ("-f", "--fullscreen"), ("-d", "--disable-tui"), ("", "--disable-env-server"),
    ("-A", "--abbreviated-summary"),
)  # fmt: skip


def main() -> int:
    begin("vf-eval", "vf-eval")
    hear_sigterm("vf-eval")
    parser = argparse.ArgumentParser(prog="vf-eval")
    parser.add_argument("env_id")
    for short, long, kind, default in VALUES:
        parser.add_argument(*filter(None, (short, long)), type=kind, default=default)
    for short, long in SWITCHES:
        parser.add_argument(*filter(None, (short, long)), action="store_true")
    asked = parser.parse_args()
    env = load(asked.env_id, asked.env_args)
    model = asked.model.replace("/", "--")
    folder = asked.output_dir / "evals" / f"{asked.env_id}--{model}" / os.urandom(4).hex()
    if not asked.disable_env_server:
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("env_server", "env_worker_0"):
            with (folder / f"{name}.log").open("w") as log:
                log_plain(log, SERVER, f"Initializing to serve {asked.env_id}")
    started, rows = time.monotonic(), []
    print("eval_dataset is not set, falling back to train dataset", file=sys.stderr)
    for row in _sample(env, asked):
        rows.append(row)
        if asked.save_results:
            _save(folder, rows, asked, time.monotonic() - started)
        die_at("vf-eval", len(rows))
    _print(rows, asked)
    return 0


def _sample(env: Environment, asked: argparse.Namespace) -> Iterator[dict[str, Any]]:
    texts = env.texts[: asked.num_examples] if asked.num_examples > 0 else env.texts
    total, log, began = len(texts) * asked.rollouts_per_example, Logger(), time.monotonic()
    for index, text in enumerate(texts):
        for _ in range(asked.rollouts_per_example):
            yield _rollout(env, index, text, asked)
        done = (index + 1) * asked.rollouts_per_example
        log.progress(f"Processing {total} rollouts", done, total, seconds=time.monotonic() - began + 1e-3)


def _rollout(env: Environment, index: int, text: str, asked: argparse.Namespace) -> dict[str, Any]:
    length = {"max_completion_tokens": asked.max_tokens} if asked.max_tokens is not None else {}
    heat = {"temperature": asked.temperature} if asked.temperature is not None else {}
    body = {"model": asked.model, "messages": env.prompt(text), "n": 1} | length | heat | asked.sampling_args
    began, clock = time.time(), time.monotonic()
    said, usage, error = _ask(f"{asked.api_base_url.rstrip('/')}/chat/completions", body, asked.timeout)
    timed = {"started": began, "seconds": time.monotonic() - clock}
    if error:
        return failed_row(index, env.prompt(text), text, error, **timed)
    content = said["message"]["content"]
    row = rollout_row(index, env.prompt(text), text, content, env.reward(content, text), **timed)
    tokens = {"input_tokens": float(usage["prompt_tokens"]), "output_tokens": float(usage["completion_tokens"])}
    return row | {"is_truncated": said["finish_reason"] == "length"} | ({"token_usage": tokens} if usage else {})


def _ask(url: str, body: dict[str, Any], timeout_s: float | None) -> tuple[dict, dict, dict[str, str] | None]:
    """Choice, usage and error of one request, tried again while that may help."""
    for attempt in range(RETRIES):
        try:
            answer = call("POST", url, body, timeout_s=timeout_s or 600)
        except ConnectionError as error:
            failure = ("APIConnectionError", "Connection error.", f" -> ConnectError({str(error)!r})")
        else:
            if answer.status < 400:
                return _read(answer.text)
            kind = STATUS_ERRORS.get(answer.status, "InternalServerError")
            failure = (kind, f"Error code: {answer.status} - {answer.text[:200]}", "")
            if not answer.may_retry or answer.status < 500:
                break
        time.sleep(RETRY_S * (attempt + 1))
    kind, message, more = failure
    chain = f"ModelError -> {kind}{' -> ConnectError' if more else ''}"
    return {}, {}, _error("ModelError", f"ModelError() -> {kind}({message!r}){more}", chain)


def _read(text: str) -> tuple[dict, dict, dict[str, str] | None]:
    try:
        found = json.loads(text)
        choice = found["choices"][0]
        content = choice["message"]["content"]
    except (ValueError, LookupError, TypeError) as error:
        return {}, {}, _error("ModelError", f"ModelError() -> {error!r}", f"ModelError -> {type(error).__name__}")
    if not content:
        kind = "EmptyModelResponseError"
        return {}, {}, _error(kind, f"{kind}({EMPTY!r})", kind)
    return choice, found.get("usage", {}), None


def _error(kind: str, told: str, chain: str) -> dict[str, str]:
    return {"error": kind, "error_chain_repr": told, "error_chain_str": chain}


def _save(folder: Path, rows: list[dict[str, Any]], asked: argparse.Namespace, seconds: float) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "results.jsonl").open("a") as results:
        results.write(json.dumps(rows[-1]) + "\n")
    sampling = {"n": 1, "extra_body": {}, "max_tokens": asked.max_tokens}
    heat = {} if asked.temperature is None else {"temperature": asked.temperature}
    at_k, all_k = _passed(rows, asked.rollouts_per_example)
    told = {
        "env_id": asked.env_id, "env_args": asked.env_args, "model": asked.model, "base_url": asked.api_base_url,
        "num_examples": asked.num_examples, "rollouts_per_example": asked.rollouts_per_example,
        "sampling_args": asked.sampling_args | sampling | heat, "time": seconds,
        "avg_reward": fmean(row["reward"] for row in rows),
        "avg_metrics": {key: fmean(row["metrics"][key] for row in rows) for key in (METRIC, "num_turns")},
        "avg_error": fmean(row["error"] is not None for row in rows), "pass_at_k": at_k, "pass_all_k": all_k,
        "pass_threshold": PASSED, "usage": None,
        "version_info": {"vf_version": "0.1.14", "vf_commit": None, "env_version": "0.1.5", "env_commit": None},
        "state_columns": [], "tools": None,
    }  # fmt: skip
    (folder / "metadata.json").write_text(json.dumps(told))


def _passed(rows: list[dict[str, Any]], per_text: int) -> tuple[dict[str, float], dict[str, float]]:
    """pass@k and pass^k over the texts of which all rollouts are there."""
    of_text: dict[int, list[bool]] = {}
    for row in rows:
        of_text.setdefault(row["example_id"], []).append(row["reward"] >= PASSED)
    whole = [sum(passed) for passed in of_text.values() if len(passed) == per_text]
    sizes = [2**power for power in range(per_text.bit_length()) if 2**power <= per_text] if per_text > 1 else []
    if not whole:
        return {}, {}
    at_k = {str(k): fmean(1 - comb(per_text - right, k) / comb(per_text, k) for right in whole) for k in sizes}
    return at_k, {str(k): fmean(comb(right, k) / comb(per_text, k) for right in whole) for k in sizes}


def _print(rows: list[dict[str, Any]], asked: argparse.Namespace) -> None:
    """The plain page that the real program prints when its output is no terminal."""
    rewards = [row["reward"] for row in rows]
    failed = [row["error"] is not None for row in rows]
    at_k, all_k = _passed(rows, asked.rollouts_per_example)
    print(f"--- Evaluation ---\nEnvironment: {asked.env_id}\nModel: {asked.model}\nProvider: {asked.api_base_url}")
    print(f"Examples: {asked.num_examples}\nRollouts per example: {asked.rollouts_per_example}\n--- Example ---")
    print(f"--- All ---\nRewards:\nreward: avg - {fmean(rewards):.3f}, std - {pstdev(rewards):.3f}")
    for index in range(asked.rollouts_per_example):
        print(f"r{index + 1}: {[round(reward, 3) for reward in rewards[index :: asked.rollouts_per_example]]}")
    for name, values in (("pass@k", at_k), ("pass^k", all_k)):
        if values:
            print(f"{name}: {', '.join(f'{k}={value:.3f}' for k, value in values.items())}")
    print(f"{METRIC}: avg - {fmean(rewards):.3f}, std - {pstdev(rewards):.3f}\nInfo:")
    print(f"is_truncated: avg - {fmean(row['is_truncated'] for row in rows):.3f}, std - 0.000")
    if any(failed):
        print(f"errors: avg - {fmean(failed):.3f}, std - {pstdev(failed):.3f}")
