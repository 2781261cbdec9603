"""An OpenAI-compatible server for one policy on this machine, for as long as a `with` block lasts.

It is ready once the right model has made a real completion. What other programs serve is never used, and never ended.
"""

import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from rlguide.child import running
from rlguide.environ import HOST
from rlguide.environment.reward import prompt_messages
from rlguide.errors import ServerError
from rlguide.redact import redacted
from rlguide.tail import with_end

if TYPE_CHECKING:
    import httpx

ANSWER_S = 120.0
"""Seconds that one short completion may take; it may have to wait for a long one."""
POLL_S = 0.1


@dataclass(frozen=True)
class Endpoint:
    """A server of ours that answers."""

    url: str
    """Base address of its OpenAI API, ending in `/v1`."""
    model: str
    process: "subprocess.Popen[bytes]"
    log: Path

    @property
    def port(self) -> int:
        return int(self.url.rsplit(":", 1)[1].removesuffix("/v1"))

    def require_alive(self) -> None:
        """Raises `ServerError` with the end of the log when the server's process has ended."""
        code = self.process.poll()
        if code is not None:
            raise self.failure(f"the server ended with exit code {code}")

    def require_answer(self) -> None:
        """Make one short completion. Raises `ServerError` unless it comes, and from the right model."""
        try:
            self.judge(_ask(self, ANSWER_S))
        except ConnectionError as error:
            raise self.failure(f"the server does not answer: {error}") from error

    def judge(self, response: "httpx.Response") -> None:
        """Raises `ServerError` unless this is a completion of the right model."""
        said = redacted(response.text)[:300]
        if response.status_code != 200:
            raise self.failure(f"the server refused a completion: {response.status_code} {said}")
        try:
            answer = response.json()
            served, content = str(answer["model"]), answer["choices"][0]["message"]["content"]
        except (ValueError, KeyError, IndexError, TypeError):
            raise self.failure(f"the server's answer is no completion: {said!r}") from None
        if not isinstance(content, str):
            raise self.failure(f"the server's completion holds no text: {content!r}")
        if served.partition("@")[0] != self.model.partition("@")[0]:  # transformers adds `@main` to a Hub name
            raise self.failure(f"the server serves {served!r}, not {self.model!r}")

    def failure(self, message: str) -> ServerError:
        """A `ServerError` that shows the end of the log."""
        return ServerError(with_end(message, self.log), look=self.log)


@contextmanager
def serving(
    argv: Sequence[str], *, port: int, model: str, log: Path, ready_s: float, env: Mapping[str, str] | None = None
) -> Iterator[Endpoint]:
    """Serve `model` with a program on a loopback port until the block ends.

    Raises `OSError` when it cannot be started and `ServerError` when it is not ready within `ready_s` seconds.
    """
    with running(argv, log, env=env) as child:
        endpoint = Endpoint(url=f"http://{HOST}:{port}/v1", model=model, process=child, log=log)
        _wait_until_ready(endpoint, ready_s)
        yield endpoint


def _wait_until_ready(endpoint: Endpoint, ready_s: float) -> None:
    deadline = time.monotonic() + ready_s
    last = "it never listened on its port"
    while (left := deadline - time.monotonic()) > 0:
        endpoint.require_alive()
        if _answers(endpoint.port):
            _require_ours(endpoint)
            try:
                response = _ask(endpoint, min(ANSWER_S, left))
            except ConnectionError as error:
                last = f"its last answer was {error}"
            else:
                if response.status_code != 503:  # 503: still loading
                    return endpoint.judge(response)
                last = f"its last answer was 503 {redacted(response.text)[:200]}"
        time.sleep(POLL_S)
    raise endpoint.failure(f"the server was not ready after {ready_s:.0f} s: {last}")


def _require_ours(endpoint: Endpoint) -> None:
    """Raises `ServerError` when another program has the port: its answers would be another model's."""
    if not _listens(endpoint.process.pid, endpoint.port):
        endpoint.require_alive()
        raise endpoint.failure(f"another program answers on port {endpoint.port}, not the server that was started")


def _listens(pid: int, port: int) -> bool:
    """True when the process, or one below it, listens on that port."""
    try:
        parent = psutil.Process(pid)
        family = [parent, *parent.children(recursive=True)]
    except psutil.NoSuchProcess:
        return False
    return any(connection.laddr.port == port for process in family for connection in _listening(process))


def _listening(process: psutil.Process) -> list:
    try:
        return [c for c in process.net_connections(kind="tcp") if c.status == psutil.CONN_LISTEN]
    except psutil.Error:  # ended, or not to be looked at: no proof that it listens
        return []


def _ask(endpoint: Endpoint, timeout_s: float) -> "httpx.Response":
    """One short greedy completion. Never through a proxy: the server is on this machine. Raises `ConnectionError`."""
    import httpx  # not with the module: it would cost every command a tenth of a second

    body = {"model": endpoint.model, "messages": prompt_messages("ready"), "max_completion_tokens": 8, "temperature": 0}
    try:
        with httpx.Client(trust_env=False, timeout=timeout_s) as client:
            return client.post(f"{endpoint.url}/chat/completions", json=body)
    except httpx.TransportError as error:
        raise ConnectionError(f"{type(error).__name__} {error}") from error


def _answers(port: int) -> bool:
    """True when something accepts connections there."""
    try:
        with socket.create_connection((HOST, port), timeout=1):
            return True
    except OSError:
        return False
