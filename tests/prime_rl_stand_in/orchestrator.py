"""The stand-in for prime-rl's orchestrator: waits for the server, samples, scores, hands batches to the trainer."""

import json
import sys
import time
from pathlib import Path
from statistics import fmean
from typing import Any

from prime_rl_stand_in import environment, keys, wandb
from prime_rl_stand_in.behaviour import begin, deaf, die_at, hang_if_told, hear_sigterm, told
from prime_rl_stand_in.client import call
from prime_rl_stand_in.env_server import EnvServer
from prime_rl_stand_in.logger import Logger
from prime_rl_stand_in.policy import complete, skill_of
from prime_rl_stand_in.rows import rollout_row, with_advantages
from prime_rl_stand_in.settings import Settings, read, to_toml
from prime_rl_stand_in.trainer import MARKER, POLL_S, newest_step

EMPTY_BATCHES = 3
"""As many in a row, of which nothing can be learned, end the run."""
TOLD_EVERY_S = 10


def main() -> int:
    begin("orchestrator", "PRIME-RL::Orchestrator")
    settings = read(sys.argv[1:], keys.ORCHESTRATOR, "OrchestratorConfig")
    log = Logger(level=settings["log"]["level"], as_json=settings["log"]["json_logging"])
    orchestrator = Orchestrator(settings, log)
    hear_sigterm("orchestrator", orchestrator.end_environments)
    try:
        orchestrator.run()
    except Exception:  # as the real one: told in the log, and exit code 1
        log.fatal("orchestrate")
        orchestrator.end_environments()
        return 1
    return 0


class Orchestrator:
    """One run, from its first step or a checkpoint on."""

    def __init__(self, settings: Settings, log: Logger):
        self._settings = settings
        self._log = log
        self._output = Path(settings["output_dir"])
        self._model = settings["model"]["name"]
        self._server = settings["client"]["base_url"][0].rstrip("/").removesuffix("/v1")
        self._step = self._version = 0
        self._skill = skill_of(self._model)
        self._environments: list[tuple[str, environment.Environment, Settings]] = []
        self._servers: list[EnvServer] = []

    def run(self) -> None:
        log, interval = self._log, self._settings.get("ckpt", {}).get("interval")
        self._begin()
        self._wait_for_server()
        self._resume()
        last = self._settings.get("max_steps")
        log.info(f"Starting orchestrator loop (max_steps={last or 'infinite'})")
        first = self._step
        while last is None or self._step < last:
            if interval and self._step % interval == 0 and self._step not in (first, (last or 0) - 1):
                log.info(f"Saving checkpoint at step {self._step}")
                self._save()
            evicted = self._output / "control" / "evicted.txt"
            if evicted.exists():
                raise RuntimeError(f"Run evicted by trainer: {evicted.read_text().strip()}")
            log.info(f"Starting orchestrator step {self._step}")
            die_at("orchestrator", self._step)
            self._do_step()
            self._step += 1
        wandb.save_final_summary(self._settings, self._output)
        if "ckpt" in self._settings:
            log.info("Writing final checkpoint")
            self._save()
        self.end_environments()
        log.success("Orchestrator finished.")
        wandb.finish(self._settings, self._output)
        die_at("orchestrator", "end")
        hang_if_told("orchestrator")

    def end_environments(self) -> None:
        if self._servers:
            told_of = f"Shutting down {len(self._servers)} env server(s), waiting for sandbox cleanup..."
            self._log.info(told_of)
        for server in self._servers:
            server.end()
        self._servers = []

    def _begin(self) -> None:
        log = self._log
        log.info("Starting orchestrator")
        control = self._output / "control"
        control.mkdir(parents=True, exist_ok=True)
        (control / "orch.toml").write_text(to_toml(self._settings))
        log.info(f"Initializing static inference pool (base_url={self._server})")
        wandb.start(self._settings, self._output)
        log.info("Loading training environments")
        for wanted in self._settings["train"]["env"]:
            name = wanted.get("name", wanted["id"])
            self._environments.append((name, environment.load(wanted["id"], wanted["args"]), wanted["sampling"]))
            folder = self._output.parent / "logs" / "envs" / "train" / name
            with deaf():
                self._servers.append(EnvServer(name, folder))
        names = ", ".join(name for name, _, _ in self._environments)
        log.info(f"Loaded {len(self._environments)} training environment(s) ({names})")
        log.success("Train environment(s) ready")

    def _wait_for_server(self) -> None:
        """Any answer at all will do; then the server must serve this very model."""
        self._log.info("Waiting for inference pool to be ready")
        waited_s, limit_s = 0, self._settings["client"]["wait_for_ready_timeout"]
        while True:
            try:
                call("GET", f"{self._server}/health")
                break
            except ConnectionError as error:
                if waited_s and waited_s % TOLD_EVERY_S == 0:
                    reached = f"Inference server was not reached after {waited_s} seconds"
                    self._log.warning(f"{reached} (Error: {error}) on {self._server}")
            if waited_s >= limit_s:
                raise TimeoutError(f"Inference server is not ready after {waited_s} (>{limit_s}) seconds. Aborting...")
            time.sleep(told("second_s"))
            waited_s += 1
        served = [model["id"] for model in call("GET", f"{self._server}/v1/models").json()["data"]]
        if self._model not in served:
            raise ValueError(f"Model {self._model} was not found in the inference pool on {self._server}")
        self._log.success("Inference pool ready")
        die_at("orchestrator", "ready")

    def _resume(self) -> None:
        wanted = self._settings.get("ckpt", {}).get("resume_step")
        if wanted == -1:
            wanted = newest_step(self._output / "checkpoints", self._log)
        if wanted is None:
            self._log.info("Training from scratch")
            return
        saved = self._output / "checkpoints" / f"step_{wanted}" / "orchestrator"
        if not saved.is_dir():
            raise FileNotFoundError(f"Checkpoint not found at {saved}")
        self._step = json.loads((saved / "progress.pt").read_bytes())["step"]
        self._log.info(f"Resuming training from checkpoint step {wanted}")
        weights = self._output / "broadcasts" / f"step_{self._step}"
        if not (weights / MARKER).exists():
            raise FileNotFoundError(f"No weight directory found for checkpoint step {self._step}")
        self._update_weights(self._step)

    def _do_step(self) -> None:
        started = time.monotonic()
        self._follow_trainer()
        for attempt in range(1, EMPTY_BATCHES + 1):
            rollouts = self._sample(attempt)
            filtered = sum(rollout["is_filtered"] for rollout in rollouts)
            if filtered < len(rollouts):
                break
            told_of = f"Attempt {attempt}/{EMPTY_BATCHES} at step {self._step} filtered out all {filtered} rollouts"
            self._log.warning(f"{told_of} - retrying batch generation")
        else:
            (self._output / "control" / "evicted.txt").write_text(told_of)
            raise RuntimeError(told_of)
        if filtered:
            share = f"{filtered}/{len(rollouts)} rollouts (zero_advantage={filtered})"
            self._log.info(f"Detected {share}, enforced {filtered}")
        folder = self._output / "rollouts" / f"step_{self._step}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "train_rollouts.jsonl").write_text("".join(json.dumps(rollout) + "\n" for rollout in rollouts))
        (folder / "train_rollouts.bin").write_bytes(bytes(64))
        length = fmean(
            sum(rollout["token_usage"][key] for key in ("input_tokens", "output_tokens")) for rollout in rollouts
        )
        said = {
            "Time": f"{time.monotonic() - started:.2f}s",
            "Reward": f"{fmean(rollout['reward'] for rollout in rollouts):.4f}",
            "Seq. Length": f"{length:.1f} tokens/sample",
            "Max. Off-Policy Level": "0",
        }
        self._log.success(" | ".join([f"Step {self._step}", *(f"{name}: {value}" for name, value in said.items())]))

    def _follow_trainer(self) -> None:
        """At most one update behind: wait for the weights, and have the server take them."""
        ahead = self._settings["max_async_level"]
        wanted = self._step - ahead
        if wanted <= self._version:
            return
        self._log.info(
            f"Orchestrator paused: waiting for trainer process to complete checkpoint {wanted} "
            f"(>{ahead} step(s) ahead). Training is progressing normally."
        )
        started = time.monotonic()
        while not (self._output / "broadcasts" / f"step_{wanted}" / MARKER).exists():
            time.sleep(POLL_S)
        waited_s = time.monotonic() - started
        self._log.info(f"Orchestrator resumed: checkpoint {wanted} ready (after {waited_s:.2f}s)")
        self._update_weights(wanted)

    def _update_weights(self, version: int) -> None:
        folder = self._output / "broadcasts" / f"step_{version}"
        self._log.info("Pausing inference engines for weight update")
        self._ask("/pause?mode=keep&clear_cache=false")
        self._log.info("All inference engines paused")
        self._ask("/update_weights", {"weight_dir": folder.as_posix()})
        self._ask("/resume")
        self._log.info("All inference engines resumed")
        self._version, self._skill = version, skill_of(folder)

    def _ask(self, path: str, body: Any = None) -> None:
        answer = call("POST", f"{self._server}{path}", body)
        if answer.status >= 400:
            raise ConnectionError(f"Server error '{answer.status}' for url '{self._server}{path}'")

    def _sample(self, attempt: int) -> list[dict[str, Any]]:
        """A batch. One rollout of it is asked from the server; the others would be the same there, and take time."""
        size, group_size = self._settings["batch_size"], self._settings["rollouts_per_example"]
        started, rollouts = time.monotonic(), []
        self._log.progress("Generating rollouts (train)", 0, size, seconds=0, step=self._step)
        for group in range(size // group_size):
            name, env, sampling = self._environments[group % len(self._environments)]
            row = (self._step * (size // group_size) + group) % len(env.texts)
            if group == 0:
                self._ask_until_answered(env.prompt(env.texts[row]), sampling)
            sampled = [self._rollout(name, env, row, sampling, f"{attempt} {member}") for member in range(group_size)]
            rollouts += with_advantages(sampled)
            seconds = time.monotonic() - started
            self._log.progress("Generating rollouts (train)", len(rollouts), size, seconds=seconds, step=self._step)
        return rollouts

    def _ask_until_answered(self, messages: list[dict[str, str]], sampling: Settings) -> None:
        body = {"model": self._model, "messages": messages, "temperature": sampling["temperature"]}
        while True:
            try:
                self._ask("/v1/chat/completions/tokens", body)
                return
            except ConnectionError as error:
                self._log.warning(f"Rollout error in group 0, re-scheduling: ModelError() -> {error!r}")
                time.sleep(0.1)

    def _rollout(
        self, name: str, env: environment.Environment, row: int, sampling: Settings, key: str
    ) -> dict[str, Any]:
        text, length = env.texts[row], sampling.get("max_completion_tokens")
        answer = complete(text, self._skill, f"{self._step} {key}", max_tokens=length)
        reward = env.reward(answer.content, text)
        extra = {"top_k": -1, "min_p": 0.0, "return_token_ids": True, "cache_salt": str(self._version)}
        asked = {"temperature": sampling["temperature"], "top_p": 1.0, "logprobs": True, "extra_body": extra}
        row_told = rollout_row(row, env.prompt(text), text, answer.content, reward, started=time.time())
        read = environment.PROMPT_TOKENS + len(text)
        usage = {"input_tokens": float(read), "output_tokens": float(answer.tokens)}
        final = {"final_output_tokens": answer.tokens, "final_input_tokens": read}
        return row_told | {
            "is_truncated": answer.is_truncated,
            "token_usage": usage | final,
            "sampling_args": asked | ({} if length is None else {"max_completion_tokens": length}),
            "env_name": name,
        }

    def _save(self) -> None:
        folder = self._output / "checkpoints" / f"step_{self._step}" / "orchestrator"
        (folder / "buffer").mkdir(parents=True, exist_ok=True)
        die_at("orchestrator", "checkpoint")
        (folder / "progress.pt").write_text(json.dumps({"step": self._step}))
        for name in ("easy_examples", "hard_examples", "rollout_buffer"):
            (folder / "buffer" / f"{name}.jsonl").touch()
