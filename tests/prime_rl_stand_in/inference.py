"""The stand-in for `inference`: a server with the paths of prime-rl's vLLM, and the engine process below it."""

import json
import os
import signal
import socket
import sys
import threading
import time
from collections import Counter
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from prime_rl_stand_in import keys
from prime_rl_stand_in.behaviour import begin, deaf, die_at, hear_again, hear_sigterm, take_title, told
from prime_rl_stand_in.logger import Logger
from prime_rl_stand_in.parts import INFERENCE
from prime_rl_stand_in.policy import complete, skill_of
from prime_rl_stand_in.settings import Settings, merged, read

ENGINE_FAILED = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"
ENGINE_DIED = (
    "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root "
    "cause."
)

TOGETHER_S = 0.1
"""A launcher that ends the whole tree ends the engine a moment before the server."""


def main() -> int:
    begin("inference", "PRIME-RL::Inference")
    settings = merged(INFERENCE, read(sys.argv[1:], keys.INFERENCE, "InferenceConfig"))
    model, where = settings["model"]["name"], settings["server"]
    host = where.get("host", "0.0.0.0")
    Logger().info(f"Starting inference on http://{host}:{where['port']}/v1\n")
    _require_policy(model)
    server = Server((host, where["port"]), settings)  # has the port from here on, and listens later
    print(f"{_api()} INFO {_now()} [model.py:555] Resolved architecture: Qwen3ForCausalLM", flush=True)
    with deaf():
        engine = server.engine = Engine()
        hear_sigterm("inference", partial(_shut_down, engine))
    time.sleep(told("server_start_s"))
    if not engine.lives():
        print(f"{_api()} Traceback (most recent call last):\n{_api()} {ENGINE_FAILED}", flush=True)
        return 1
    while told("never_ready"):
        time.sleep(0.1)
    threading.Thread(target=engine.watch, daemon=True).start()
    engine.die_at("ready")
    while not engine.lives():
        time.sleep(0.1)  # until the thread ends this process
    server.server_activate()
    print(f"{_api()} INFO {_now()} [api_server.py:602] Starting vLLM server on http://{host}:{where['port']}")
    print(f"{_api()} INFO:     Application startup complete.", flush=True)
    die_at("inference", "ready")
    server.serve_forever()
    return 0


def _require_policy(name: str) -> None:
    """A path must be a folder with a configuration; another name is taken for one of the Hub's."""
    if Path(name).is_dir() and not (Path(name) / "config.json").is_file():
        raise OSError(f"{name} does not appear to have a file named config.json")
    if not Path(name).is_dir() and (name.startswith(("/", ".")) or name.count("/") != 1):
        raise ValueError(f"Repo id must be in the form 'repo_name' or 'namespace/repo_name': '{name}'")
    if os.environ.get("CUDA_VISIBLE_DEVICES") == "":
        raise RuntimeError("No CUDA GPUs are available")


def _shut_down(engine: "Engine") -> None:
    engine.end()
    print(f"{_api()} INFO:     Shutting down\n{_api()} INFO:     Application shutdown complete.", flush=True)
    os._exit(0)


class Engine:
    """The process below the server that would hold the GPU. When the server is killed, it stays."""

    def __init__(self):
        self._dying = False
        self._is_ended = False
        self.pid = os.fork()
        if self.pid == 0:
            self._live()

    def _live(self) -> None:
        take_title("VLLM::EngineCore")
        if told("engine_session"):
            os.setsid()
        hear_sigterm("engine")
        hear_again()
        signal.signal(signal.SIGUSR1, lambda *_: os._exit(told("die")["engine"].get("exit", 1)))
        print(f"(EngineCore pid={os.getpid()}) INFO {_now()} [core.py:109] Initializing a V1 LLM engine", flush=True)
        die_at("engine", "start")
        while True:
            signal.pause()

    def lives(self) -> bool:
        return not self._dying and not os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)

    def die_at(self, point: int | str) -> None:
        plan = told("die").get("engine", {})
        if plan.get("at", "start") == point and point != "start":
            os.kill(self.pid, plan.get("signal", signal.SIGUSR1))
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)

    def watch(self) -> None:
        """End the server a little after the engine has ended by itself."""
        os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        self._dying = True
        time.sleep(TOGETHER_S)
        if self._is_ended:
            return
        print(f"{_api()} ERROR {_now()} [async_llm.py:712] {ENGINE_DIED}", flush=True)
        time.sleep(told("engine_watch_s"))
        print(f"{_api()} INFO:     Shutting down", flush=True)
        os._exit(told("engine_death_exit"))

    def end(self) -> None:
        self._is_ended = True
        print(f"(EngineCore pid={self.pid}) INFO {_now()} [core.py:1238] Shutdown initiated (timeout=0)", flush=True)
        os.kill(self.pid, signal.SIGTERM)


class Server(ThreadingHTTPServer):
    """Answers for one policy, which `/update_weights` replaces. Has the port from the start and listens when told."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], settings: Settings):
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, Handler, bind_and_activate=False)
        self.server_bind()
        self.model = settings["model"]["name"]
        self.seed = settings["seed"]
        self.length = settings["model"].get("max_model_len", 2048)
        self.skill = skill_of(self.model)
        self.policy = self.model
        self.engine: Engine | None = None
        self._lock = threading.Lock()
        self._asked: Counter[str] = Counter()

    def number_of(self, text: str) -> tuple[int, int]:
        """How often this was asked before, and how many requests there were in all."""
        with self._lock:
            self._asked[text] += 1
            return self._asked[text], self._asked.total()

    def update(self, folder: str) -> None:
        step = int(Path(folder).name.rpartition("_")[2])
        die_at("inference", step)
        self.engine.die_at(step)
        self.skill, self.policy = skill_of(folder), folder


class Handler(BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if not self.server.engine.lives():
            return self._reply(503 if path == "/health" else 500, "")
        if path == "/v1/models":
            card = {"id": self.server.model, "object": "model", "created": int(time.time()), "owned_by": "vllm"}
            more = {"root": self.server.model, "parent": None, "max_model_len": self.server.length}
            return self._reply(200, {"object": "list", "data": [card | more]})
        known = {"/health": "", "/metrics": "vllm:num_requests_running 0.0\n", "/liveness": {"status": "ok"}}
        return self._reply(200, known[path]) if path in known else self._reply(404, {"detail": "Not Found"})

    def do_POST(self) -> None:
        path = self.path.partition("?")[0]
        text = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if not self.server.engine.lives():
            return self._reply(500, "")
        if path in {"/pause", "/resume"}:
            return self._reply(200, {"status": f"{path[1:]}d"})
        if path == "/update_weights":
            self.server.update(json.loads(text)["weight_dir"])
            return self._reply(200, {"status": "ok"})
        if path in {"/v1/chat/completions", "/v1/chat/completions/tokens"}:
            try:
                return self._complete(json.loads(text))
            except (ValueError, KeyError, IndexError, TypeError) as error:
                return self._reply(400, _error(f"{type(error).__name__}: {error}", "BadRequestError", 400))
        return self._reply(404, {"detail": "Not Found"})

    def _complete(self, asked: dict[str, Any]) -> None:
        if asked["model"] != self.server.model:
            return self._reply(404, _error(f"The model `{asked['model']}` does not exist.", "NotFoundError", 404))
        text = [message["content"] for message in asked["messages"] if message["role"] == "user"][-1]
        number, total = self.server.number_of(text)
        wrong = told("requests")
        if wrong and total >= wrong.get("from", 1):
            return self._go_wrong(str(wrong["how"]))
        greedy = asked.get("temperature") == 0
        key = "" if greedy else f"{asked['seed']} {number}" if "seed" in asked else f"{self.server.seed} {number}"
        length = asked.get("max_completion_tokens", asked.get("max_tokens"))
        return self._reply_with(complete(text, self.server.skill, f"{self.server.policy} {key}", max_tokens=length))

    def _go_wrong(self, how: str) -> None:
        if how == "sleep":
            time.sleep(3600)
        elif how == "close":
            self.close_connection = True
        elif how == "html":
            self._reply(200, "<html><body>Sign in to the hotel network</body></html>")
        elif how == "empty":
            self._reply_with(complete("", 0, ""), content="")
        else:
            self._reply(int(how), _error(f"stand-in says {how}", "InternalServerError", int(how)))

    def _reply_with(self, completion: Any, *, content: str | None = None) -> None:
        said = completion.content if content is None else content
        choice = {"index": 0, "message": {"role": "assistant", "content": said, "tool_calls": []}, "logprobs": None}
        usage = {"prompt_tokens": 110, "completion_tokens": completion.tokens, "total_tokens": 110 + completion.tokens}
        why = {"finish_reason": "length" if completion.is_truncated else "stop"}
        head = {"id": f"chatcmpl-{time.monotonic_ns()}", "object": "chat.completion", "created": int(time.time())}
        self._reply(200, head | {"model": self.server.model, "choices": [choice | why], "usage": usage})

    def _reply(self, status: int, body: Any) -> None:
        sent = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain" if isinstance(body, str) else "application/json")
        self.send_header("Content-Length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent)

    def log_message(self, form: str, *words: Any) -> None:
        line = f'{_api()} INFO:     {self.client_address[0]}:{self.client_address[1]} - "{words[0]}" {words[1]}\n'
        sys.stdout.write(line)
        sys.stdout.flush()


def _error(message: str, kind: str, code: int) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def _api() -> str:
    return f"(APIServer pid={os.getpid()})"


def _now() -> str:
    return time.strftime("%m-%d %H:%M:%S")
