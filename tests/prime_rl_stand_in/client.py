"""A small HTTP client that goes through a proxy when the environment names one, as the real programs' clients do."""

import http.client
import json
import os
from typing import Any, NamedTuple
from urllib.parse import urlsplit


class Answer(NamedTuple):
    """What a server answered."""

    status: int
    text: str
    may_retry: bool = True

    def json(self) -> Any:
        return json.loads(self.text)


def call(method: str, url: str, body: Any = None, *, timeout_s: float = 60) -> Answer:
    """One request. Raises `ConnectionError` when there is no answer."""
    where = urlsplit(url)
    proxy = _proxy_for(where.hostname or "")
    host, port, path = (proxy.hostname, proxy.port, url) if proxy else (where.hostname, where.port, where.path)
    sent = None if body is None else json.dumps(body).encode()
    connection = http.client.HTTPConnection(host, port or 80, timeout=timeout_s)
    try:
        query = f"?{where.query}" if where.query and not proxy else ""
        connection.request(method, path + query, sent, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read().decode(errors="replace")
        return Answer(answer.status, text, answer.headers.get("x-should-retry") != "false")
    except TimeoutError:
        raise ConnectionError("Request timed out.") from None
    except (OSError, http.client.HTTPException) as error:
        raise ConnectionError("All connection attempts failed") from error
    finally:
        connection.close()


def _proxy_for(host: str) -> Any:
    proxy = os.environ.get("http_proxy") or os.environ.get("HTTP_PROXY")
    skipped = [name.strip() for name in (os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or "").split(",")]
    return urlsplit(proxy) if proxy and host not in skipped and "*" not in skipped else None
