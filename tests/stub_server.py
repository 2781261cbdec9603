"""An OpenAI chat server for tests, as a program of its own: `python stub_server.py PORT MODEL [options as JSON]`.

It reverses what it is sent, in tags. Options make it fail in the ways that real servers fail. It stands on the
standard library alone, so that it starts at once.
"""

import json
import os
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

DEFAULTS = {
    "die_after_start": False,  # prints a reason and exits 1 instead of serving
    "never_listens": False,
    "loading": 0,  # the first answers that are 503
    "orphan": "",  # file that gets the pid of a grandchild in a session of its own
    "requests": "",  # file that gets every request, one JSON object a line
    "failing": [],  # texts whose requests fail
    "failing_from": None,  # number of the request from which all fail
    "how": "503",  # "503", "422", "html", "leak", "close", "die", "empty", "copy", "sleep"
}


class Handler(BaseHTTPRequestHandler):
    """Answers one request as the options say."""

    protocol_version = "HTTP/1.1"
    asked = 0

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        text = request["messages"][-1]["content"]
        type(self).asked += 1
        if options["requests"]:
            with Path(options["requests"]).open("a") as log:
                log.write(json.dumps(request | {"authorization": self.headers["Authorization"]}) + "\n")
        late = options["failing_from"] is not None and self.asked >= options["failing_from"]
        if self.asked <= options["loading"]:
            self.reply(503, "still loading")
        elif text in options["failing"] or late:
            self.fail(text)
        else:
            self.complete(f"<reversed_text>{text[::-1]}</reversed_text>")

    def fail(self, text: str) -> None:
        how = options["how"]
        if how == "html":
            self.reply(200, "<html><body>Sign in to the hotel network</body></html>", kind="text/html")
        elif how == "leak":
            key = os.environ["WANDB_API_KEY"]
            print(f"stub knows {key}", flush=True)
            self.reply(422, json.dumps({"detail": f"no budget for {key}"}))
        elif how in {"503", "422"}:
            self.reply(int(how), f'{{"detail": "stub says {how}"}}')
        elif how == "close":
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b'{"id": ')
            self.close_connection = True
        elif how == "die":
            print("stub ran out of memory", flush=True)
            os._exit(9)
        elif how == "sleep":
            time.sleep(3600)
        else:
            self.complete("" if how == "empty" else text)

    def complete(self, content: str) -> None:
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": content}}
        self.reply(
            200, json.dumps({"id": "1", "object": "chat.completion", "created": 0, "model": model, "choices": [choice]})
        )

    def reply(self, status: int, text: str, *, kind: str = "application/json") -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("x-should-retry", "false")  # OpenAI's client obeys; else each failure takes it a minute
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Keeps the log short."""


def main() -> None:
    print(f"stub {model} starts", flush=True)
    if options["orphan"]:
        orphan = subprocess.Popen(["sleep", "3600"], start_new_session=True)
        Path(options["orphan"]).write_text(str(orphan.pid))
    if options["die_after_start"]:
        sys.exit("stub: no such model")
    if options["never_listens"]:
        time.sleep(3600)
    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()


if __name__ == "__main__":
    port, model = int(sys.argv[1]), sys.argv[2]
    options = DEFAULTS | json.loads(sys.argv[3] if len(sys.argv) > 3 else "{}")
    main()
