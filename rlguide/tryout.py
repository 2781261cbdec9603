"""Tries one text on the policies of a run: the same sentence before and after training."""

import json
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from rlguide import engines
from rlguide.child import running
from rlguide.config import RunConfig
from rlguide.engines.base import Tools
from rlguide.engines.trl import local_tools
from rlguide.environment.reward import prompt_messages, reward
from rlguide.errors import ConfigError, EvaluationError, TextError
from rlguide.measurements import Attempt, EvalSample, Trial
from rlguide.paths import PACKAGE, TINY_POLICY
from rlguide.run import Run, attach
from rlguide.slot import cpu_slot
from rlguide.tail import with_end

PROGRAM = PACKAGE / "programs" / "complete.py"
TIME_LIMIT_S = 300.0
MAX_CHARACTERS = 500
"""Of a text to try; far longer than any text of the task, and all that a reader waits for."""
LEARNED_CHARACTERS = 80
"""The longest text from which the packaged policy has learned to reverse; its model card says so."""
MAX_SAMPLES = 64


def try_text(run: Run | RunConfig | Path | str, text: str, *, samples: int = 0) -> Trial:
    """What a run's warm start and its trained policy make of `text`; the trained one is left out while there is none.

    `run` is a handle, a run directory, a run's name, or the configuration of a run that does not exist yet.
    `samples` completions, at most 64, are drawn besides the greedy one. Raises `TextError` for a text that a policy
    cannot spell or that is too long, `ConfigError` for more samples, and `Busy` while a training has the processor.
    """
    if isinstance(run, RunConfig):
        plan, weights = engines.plan(run), None
    else:
        run = attach(run)
        plan, weights = run.record.plan, run.weights
    tools = engines.tools(plan)
    policies = {"warm start": plan.policy} | ({} if weights is None else {"trained policy": str(weights)})
    return try_policies(policies, text, samples=samples, tools=tools)


def try_policies(
    policies: Mapping[str, str], text: str, *, samples: int = 0, seed: int = 0, tools: Tools | None = None
) -> Trial:
    """What each of `policies` (label → folder or Hub name) makes of `text`; see `try_text`.

    `tools` default to those of this Python, on the processor.
    """
    tools = tools or local_tools()
    if not 0 <= samples <= MAX_SAMPLES:
        raise ConfigError(f"samples = {samples}: from 0 to {MAX_SAMPLES} can be drawn")
    owner = f"trying a text with {[*policies.values()][-1]}"
    for policy in policies.values():
        require_spellable(policy, text)
    with cpu_slot(owner) if tools.exclusive_cpu else nullcontext():
        answers = _complete(list(policies.values()), text, samples, seed, tools)
    attempts = [
        Attempt(
            label=label,
            policy=policy,
            answer=_sample(text, answer["greedy"]),
            samples=tuple(_sample(text, drawn) for drawn in answer["samples"]),
        )
        for (label, policy), answer in zip(policies.items(), answers, strict=True)
    ]
    return Trial(text=text, attempts=tuple(attempts), notes=notes(policies.values(), text))


def notes(policies: Iterable[str], text: str) -> tuple[str, ...]:
    """What a reader of the answers should know before judging them."""
    if str(TINY_POLICY) not in policies or len(text) <= LEARNED_CHARACTERS:
        return ()
    why = f"this small policy has learned from texts of at most {LEARNED_CHARACTERS}"
    return (f"The text has {len(text)} characters; {why}, so its answers will be poor whatever it was trained for.",)


def require_spellable(policy: str, text: str) -> None:
    """Raises `TextError` for a text that is empty or too long, or has characters that the policy's tokenizer lacks.

    Also for a chat's markers in it: the tokenizer takes each for one token, not for its letters.
    """
    if not text.strip():
        raise TextError(f"nothing to reverse in {text[:40]!r}", hint="type a sentence")
    if len(text) > MAX_CHARACTERS:
        raise TextError(f"{len(text)} characters are too many", hint=f"type at most {MAX_CHARACTERS}")
    if marker := next((marker for marker in _markers(policy) if marker in text), None):
        raise TextError(f"the text holds {marker!r}, a marker and no letters to this policy", hint="leave it out")
    missing = unspellable(policy, text)
    if missing:
        named = ", ".join(f"{character!r} (U+{ord(character):04X})" for character in missing)
        hint = "this policy knows letters, digits and punctuation of the English keyboard, and line breaks"
        raise TextError(f"the policy cannot spell {named} in {text!r}", look=policy, hint=hint)


def unspellable(policy: str, text: str) -> tuple[str, ...]:
    """Characters of `text` that become the unknown token of a character tokenizer.

    Tokenizers without an unknown token spell everything in bytes. A Hub policy is not looked at.
    """
    tokenizer = _tokenizer(policy)
    if not tokenizer or not tokenizer["model"].get("unk_token"):
        return ()
    known = {*tokenizer["model"]["vocab"], *(token["content"] for token in tokenizer["added_tokens"])}
    return tuple(dict.fromkeys(character for character in text if character not in known))


def _markers(policy: str) -> list[str]:
    tokenizer = _tokenizer(policy) or {}
    return [token["content"] for token in tokenizer.get("added_tokens", ()) if len(token["content"]) > 1]


def _tokenizer(policy: str) -> dict[str, Any] | None:
    path = Path(policy) / "tokenizer.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def _complete(policies: list[str], text: str, samples: int, seed: int, tools: Tools) -> list[dict]:
    """One answer a policy, from one child process."""
    with tempfile.TemporaryDirectory(prefix="rlguide-") as name:
        folder = Path(name)
        chats, out, log = folder / "chats.json", folder / "out.json", folder / "complete.log"
        chats.write_text(json.dumps([prompt_messages(text)]), encoding="utf-8")
        options = ("--chats", str(chats), "--out", str(out), "--samples", str(samples), "--seed", str(seed))
        argv = (tools.python, "-P", str(PROGRAM), *policies, *options)
        with running(argv, log, env=tools.environment(policies[0])) as child:
            try:
                ended = f"exit code {child.wait(TIME_LIMIT_S)}"
            except subprocess.TimeoutExpired:
                ended = f"no answer after {TIME_LIMIT_S:.0f} s"
        if not out.is_file():
            raise EvaluationError(with_end(f"the policies could not be tried: {ended}", log))
        return [answers[0] for answers in json.loads(out.read_text(encoding="utf-8"))]


def _sample(text: str, completion: str) -> EvalSample:
    return EvalSample(text=text, completion=completion, reward=reward(completion, text))
