"""The verifiers environment: its rows, its rubric, and `vf-eval` against a real server on this machine."""

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random
from typing import ClassVar

import datasets
import pytest
import reverse_text
from hostile_answers import HOSTILE, tagged

from rlguide.environment.generator import FOLDER
from rlguide.environment.reward import SYSTEM_PROMPT, prompt_messages, reward
from rlguide.environment.texts import load_texts
from rlguide.errors import ConfigError


@pytest.fixture(scope="module")
def environment() -> reverse_text.vf.Environment:
    return reverse_text.load_environment()


def rubric_rewards(environment: reverse_text.vf.Environment, cases: list[tuple[str, str]]) -> list[float]:
    """What the environment's rubric gives (completion, text) pairs."""
    states = [
        {
            "prompt": prompt_messages(text),
            "completion": [{"role": "assistant", "content": completion}],
            "answer": text[::-1],
            "trajectory": [],
        }
        for completion, text in cases
    ]
    asyncio.run(environment.rubric.score_group(states))
    return [state["reward"] for state in states]


def test_rubric_gives_the_hand_checked_rewards(environment: reverse_text.vf.Environment) -> None:
    cases = [(case.completion, case.text) for case in HOSTILE]

    found = rubric_rewards(environment, cases)

    assert found == pytest.approx([case.reward for case in HOSTILE], abs=1e-12)


def test_rubric_agrees_with_the_packaged_reward_on_random_answers(environment: reverse_text.vf.Environment) -> None:
    rng = Random(0)
    pieces = ["<reversed_text>", "</reversed_text>", " ", "\n", "\u2003", "a", "b", "é", "<", ">"]
    cases = [("".join(rng.choices(pieces, k=rng.randrange(12))), "".join(rng.choices("ab é", k=8))) for _ in range(500)]

    assert rubric_rewards(environment, cases) == [reward(completion, text) for completion, text in cases]


def test_training_rows_and_evaluation_rows_are_the_frozen_splits_in_order(
    environment: reverse_text.vf.Environment,
) -> None:
    train, heldout = environment.get_dataset(), environment.get_eval_dataset()

    assert tuple(train["question"]) == load_texts("train")
    assert tuple(heldout["question"]) == load_texts("heldout")
    assert heldout[0]["prompt"] == prompt_messages(load_texts("heldout")[0])
    assert heldout[0]["answer"] == load_texts("heldout")[0][::-1]


def test_the_folder_of_texts_is_a_data_set_that_another_environment_can_load(tmp_path: Path) -> None:
    splits = {"train": "train", "test": "heldout"}

    found = {split: datasets.load_dataset(str(FOLDER), split=split, cache_dir=str(tmp_path)) for split in splits}

    assert {ours: tuple(found[split]["prompt"]) for split, ours in splits.items()} == {
        "train": load_texts("train"),
        "heldout": load_texts("heldout"),
    }


def test_unknown_dataset_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(ConfigError, match="wikipedia") as refusal:
        reverse_text.load_environment(dataset="wikipedia")

    assert '"hub"' in str(refusal.value)


def test_hub_dataset_is_not_asked_for_before_its_rows_are() -> None:
    environment = reverse_text.load_environment(dataset="hub")

    assert environment.dataset is None
    assert environment.eval_dataset_source is None


class Stub(BaseHTTPRequestHandler):
    """An OpenAI chat server that reverses what it is sent: in tags, except for texts that end in a full stop."""

    requests: ClassVar[list[dict]] = []

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.requests.append(request)
        text = request["messages"][-1]["content"]
        answer = text[::-1] if text.endswith(".") else tagged(text[::-1])
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": answer}}
        reply = {"id": "1", "object": "chat.completion", "created": 0, "model": "stub", "choices": [choice]}
        body = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Keeps the test's output clean."""


@pytest.fixture
def stub_url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Stub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    server.server_close()


def test_vf_eval_scores_held_out_texts_from_a_server_and_saves_them(stub_url: str, tmp_path: Path) -> None:
    vf_eval = Path(sys.executable).with_name("vf-eval")
    command = f"{vf_eval} reverse-text -m stub -b {stub_url} -k STUB_KEY -n 20 -r 3 -t 64 -s --disable-tui -o".split()
    local = {**os.environ, "STUB_KEY": "none", "HF_HUB_OFFLINE": "1"}

    done = subprocess.run(
        [*command, str(tmp_path)], cwd=tmp_path, env=local, capture_output=True, text=True, timeout=180
    )

    assert done.returncode == 0, done.stderr
    (saved,) = tmp_path.rglob("results.jsonl")
    rows = [json.loads(line) for line in saved.read_text(encoding="utf-8").splitlines()]
    first = load_texts("heldout")[:20]
    assert sorted(row["answer"][::-1] for row in rows) == sorted(first * 3)
    assert {row["answer"][::-1]: row["reward"] for row in rows} == {text: float(text[-1] != ".") for text in first}
    assert all(request["messages"][0]["content"] == SYSTEM_PROMPT for request in Stub.requests)
