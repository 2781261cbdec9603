"""A rollout as verifiers 0.1.14 saves it, in prime-rl's files and in those of `vf-eval`."""

from statistics import fmean
from typing import Any

METRIC = "lcs_reward_func"


def rollout_row(
    row: int,
    prompt: list[dict[str, str]],
    text: str,
    content: str,
    reward: float,
    *,
    started: float,
    seconds: float = 0,
) -> dict[str, Any]:
    """One rollout that went well."""
    said = {"role": "assistant", "content": content, "reasoning_content": None, "thinking_blocks": None}
    metrics = {METRIC: reward, "num_turns": 1.0}
    return {
        "example_id": row,
        "prompt": prompt,
        "completion": [said | {"tool_calls": None}],
        "answer": text[::-1],
        "reward": reward,
        "error": None,
        "timing": _timing(started, seconds),
        "is_completed": True,
        "is_truncated": False,
        "stop_condition": "max_turns_reached",
        "metrics": metrics,
        "tool_defs": [],
        **metrics,
    }


def failed_row(
    row: int, prompt: list[dict[str, str]], text: str, error: dict[str, str], **timed: float
) -> dict[str, Any]:
    """One rollout without an answer."""
    metrics = {METRIC: 0.0, "num_turns": 0.0}
    chain = {"error_chain": error["error_chain_repr"], "long_error_chain": error["error_chain_str"]}
    failed = {"completion": [], "error": error, "stop_condition": "has_error", "metrics": metrics, **metrics, **chain}
    return rollout_row(row, prompt, text, "", 0.0, **timed) | failed


def with_advantages(group: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rollouts of one prompt, with what prime-rl adds when it compares them."""
    mean = fmean(rollout["reward"] for rollout in group)
    alike = len({rollout["reward"] for rollout in group}) == 1
    filters = {"gibberish": False, "repetition": False, "zero_advantage": alike}
    added = {"filters": filters, "is_filtered": alike}
    return [rollout | {"advantage": rollout["reward"] - mean} | added for rollout in group]


def _timing(started: float, seconds: float) -> dict[str, Any]:
    def span(length: float) -> dict[str, float]:
        return {"start": started, "end": started + length, "duration": length}

    model = {"spans": [{"start": started, "end": started + seconds}], "duration": seconds}
    parts = {"setup": span(0.0), "generation": span(seconds), "scoring": span(0.0), "model": model}
    return {"start_time": started, **parts, "env": {"spans": [], "duration": 0}, "total": seconds, "overhead": 0.0}
