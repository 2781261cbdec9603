"""Calls to this machine never go through a proxy, calls to the outside do: a proxy of the tests' own writes them down.

That the question to W&B goes through it is shown in `test_accounts.py`.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_evaluation import measured
from wandb_stub import Stub, serving

from rlguide.child import running

pytestmark = pytest.mark.usefixtures("nothing_left")

NAMES = ("http_proxy", "https_proxy", "all_proxy")


@pytest.fixture(params=[(str.upper,), (str.lower,), (str.upper, str.lower)], ids=["upper", "lower", "both"])
def proxy(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stub]:
    """A proxy in the environment's variables, in one spelling or both; the user excludes a host of their own."""
    for name in (*NAMES, "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    with serving(Stub()) as stub:
        for spelled in request.param:
            monkeypatch.setenv(spelled("no_proxy"), "corp.example")
            for name in NAMES:
                monkeypatch.setenv(spelled(name), stub.url)
        yield stub


def in_child(code: str, folder: Path) -> str:
    """What a helper program of ours prints."""
    log = folder / "child.log"
    with running([sys.executable, "-c", code], log) as child:
        child.wait(60)
    return log.read_text()


def test_neither_the_probe_of_a_server_nor_an_evaluation_asks_the_proxy(proxy: Stub, tmp_path: Path):
    samples = measured(tmp_path)

    assert {sample.error for sample in samples} == {None}
    assert proxy.seen == []


def test_a_program_that_asks_the_hub_does_so_through_the_proxy_and_this_machine_without(
    proxy: Stub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HF_ENDPOINT", "http://hub.invalid")
    with serving(Stub()) as server:
        code = f"""
import contextlib, httpx, huggingface_hub, urllib.request
httpx.post("{server.url}/one")
httpx.post("{server.url.replace("127.0.0.1", "localhost")}/two")
with contextlib.suppress(urllib.error.HTTPError):  # the stub refuses who has no key
    urllib.request.urlopen("{server.url}/three", b"")
with contextlib.suppress(Exception):
    huggingface_hub.HfApi().model_info("some/policy")
"""
        said = in_child(code, tmp_path)

    assert len(server.seen) == 3, said
    assert proxy.seen
    assert all("http://hub.invalid/" in request for request in proxy.seen)


def test_what_the_user_excludes_is_kept_for_every_program(proxy: Stub, tmp_path: Path):
    code = "import json, os; print(json.dumps([os.environ['NO_PROXY'], os.environ['no_proxy']]))"

    assert set(json.loads(in_child(code, tmp_path))) == {"corp.example,127.0.0.1,localhost,::1"}
