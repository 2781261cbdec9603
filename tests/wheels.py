"""Wheels made on the fly, whole and hostile, and a package index on loopback that serves them."""

import base64
import hashlib
import io
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

NAME = "reverse_text-0.1.5-py2.py3-none-any.whl"
INFO = "reverse_text-0.1.5.dist-info"
MODULE = b"__version__ = '0.1.5'\n\n\ndef load_environment():\n    return 'an environment'\n"
METADATA = b"Metadata-Version: 2.1\nName: reverse-text\nVersion: 0.1.5\nRequires-Dist: verifiers\n"
WHEEL = b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py2-none-any\nTag: py3-none-any\n"
FILES = {"reverse_text.py": MODULE, f"{INFO}/METADATA": METADATA, f"{INFO}/WHEEL": WHEEL}


def wheel(files: dict[str, bytes] = FILES, *, record: bytes | None = None, mode: int = 0o100644) -> bytes:
    """A wheel of these files with a right `RECORD`, or the `record` given; `mode` is that of its first file."""
    lines = [f"{name},{record_hash(content)},{len(content)}" for name, content in files.items()]
    whole = files | {f"{INFO}/RECORD": record or "\n".join([*lines, f"{INFO}/RECORD,,\n"]).encode()}
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for number, (name, content) in enumerate(whole.items()):
            info = zipfile.ZipInfo(name)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = (0o100644 if number else mode) << 16
            archive.writestr(info, content)
    return packed.getvalue()


def record_hash(content: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


class Index(ThreadingHTTPServer):
    """Serves `pages`, path → body; what is not there is 404. Remembers what was asked."""

    daemon_threads = True

    def __init__(self, pages: dict[str, bytes]):
        super().__init__(("127.0.0.1", 0), _Answers)
        self.pages = pages
        self.asked: list[str] = []
        self.cut_at: int | None = None
        """Bytes after which a body breaks off."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Answers(BaseHTTPRequestHandler):
    server: Index

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        body = self.server.pages.get(self.path.rpartition("/")[2])
        if body is None:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: self.server.cut_at])

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing: tests look at `asked`."""


@contextmanager
def index(pages: dict[str, bytes] | None = None) -> Iterator[Index]:
    """A package index on loopback, for one block."""
    with Index(pages or {NAME: wheel()}) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()
