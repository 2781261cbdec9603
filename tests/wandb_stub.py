"""A W&B of the tests' own on this machine: answers the question who is asking, or fails as it is told.

It also stands in for a proxy: a proxy gets the same requests, with the whole address in place of the path.
"""

import base64
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ACCOUNT = {"id": "1", "name": "Anna", "email": "anna@example.com", "admin": False, "flags": "{}", "deletedAt": None}
ACCOUNT |= {"apiKeys": {"edges": []}, "teams": {"edges": []}}


@dataclass
class Stub:
    """How it answers, where it is, and what it was asked."""

    users: dict[str, str] = field(default_factory=dict)
    """Key → account; a key that is not here is refused."""
    entity: str = ""
    """The team that runs go to; the account itself when empty."""
    how: str = "well"
    """"well", "null", "html", "500" or "late"."""
    url: str = ""
    seen: list[str] = field(default_factory=list)
    """Method and address of every request."""

    def answer(self, authorization: str) -> tuple[int, str]:
        key = base64.b64decode(authorization.removeprefix("Basic ")).decode().removeprefix("api:")
        if self.how == "late":
            time.sleep(30)
        if self.how == "html":
            return 200, "<html><body>Sign in to the hotel network</body></html>"
        if self.how == "500":
            return 500, "{}"
        if self.how == "null":
            return 200, '{"data": {"viewer": null}}'
        if key not in self.users:
            return 401, '{"errors": [{"message": "user is not logged in"}]}'
        viewer = ACCOUNT | {"username": self.users[key], "entity": self.entity or self.users[key]}
        return 200, json.dumps({"data": {"viewer": viewer}})


@contextmanager
def serving(stub: Stub) -> Iterator[Stub]:
    """`stub`, for as long as the block lasts."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            stub.seen.append(f"POST {self.path}")
            status, text = stub.answer(self.headers["Authorization"] or "")
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def do_CONNECT(self) -> None:
            stub.seen.append(f"CONNECT {self.path}")
            self.send_error(502)

        do_GET = do_HEAD = do_CONNECT

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads, server.block_on_close = True, False
    stub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield stub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
