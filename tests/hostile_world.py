"""A machine as a test wants it, built at the edge of the world: environment, programs on PATH, files, disks, servers.

Nothing inside rlguide is replaced. What is not built is not there: no GPU, no tool, no account, no proxy.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psutil
import pytest
from checkouts import GUIDE, checkout
from fake_torch import FOR_CUDA_12_8, torch_says
from toy import eventually, toy_plan
from wandb_stub import Stub, serving

from rlguide import probe
from rlguide.asking import ask, once
from rlguide.checks import accounts, check_machine, common, embedded
from rlguide.config import RunConfig, from_preset
from rlguide.gpus import NO_LIBRARY
from rlguide.paths import RunFiles
from rlguide.records import Check, RunRecord, State
from rlguide.store import write_record

GIB = 2**30
FAKE_NVML = Path(__file__).with_name("fake_nvml")
H100 = {"name": "NVIDIA H100", "uuid": "GPU-aaa", "total": 80 * GIB, "free": 79 * GIB, "capability": [9, 0],
        "pids": [], "graphics": []}  # fmt: skip
OTHER = H100 | {"uuid": "GPU-bbb"}
PART = {"name": "H100 MIG 1g.10gb", "uuid": "MIG-1", "total": 10 * GIB, "free": 10 * GIB, "pids": [], "graphics": []}
CUT = ("CUDA_VISIBLE_DEVICES", "WANDB_", "HF_", "HUGGING", "TRANSFORMERS_", "NETRC", "RLGUIDE_PRIME_RL", "XDG_")
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
POLICY = "PrimeIntellect/Qwen3-0.6B-Reverse-Text-SFT"
TOKEN = "hf_" + "x" * 34
WELL = '{"name": "anna", "id": "it"}'
"""What the Hub answers to whoever asks for an account, or for a policy."""
RUN = "the-mark-of-a-run"
NOBODY = 65534
ANNA = "a" * 40
"""Anna's key at W&B."""


class World:
    """What a machine offers; each method adds to it."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, stack: ExitStack):
        self.folder, self.patch, self.stack = folder, patch, stack
        self.changes: dict[str, Any] = {}
        for name in os.environ:
            if name.startswith(CUT) or name.lower() in PROXIES:
                patch.delenv(name)
        self.set(PATH=str(folder / "bin"), HOME=str(folder / "home"))
        for name in ("home", "tmp"):
            (folder / name).mkdir()
        patch.setattr("tempfile.tempdir", str(folder / "tmp"))
        for name in ("sh", "sleep", "cat"):
            real = next(place for place in (Path("/bin", name), Path("/usr/bin", name)) if place.exists())
            self.file(f"bin/{name}").unlink()
            (folder / "bin" / name).symlink_to(real)
        self.nvml(init=NO_LIBRARY)
        torch_says(folder / "installed", FOR_CUDA_12_8, patch)

    def ask(self, check: str, engine: str, *, network: bool) -> Check:
        """What `check_machine` says of this machine."""
        config: RunConfig = from_preset("guide" if engine == "prime-rl" else "tiny").replace(self.changes)
        if check == "hub-token" and not network:  # whoever names it wants the Hub to be asked
            about = common.About(config, once(probe.machine), network, ())
            checks = ask([one for one in embedded.needs(about).questions if one.id == check])
        else:
            checks = check_machine(engine, config=config, only=[check], network=network).checks
        (found,) = (found for found in checks if check in {found.id, found.id.split(".")[0]})
        return found

    def set(self, **variables: str) -> None:
        for name, value in variables.items():
            self.patch.setenv(name, value)

    def configure(self, **changes: Any) -> None:
        """Keys of the configuration, with `__` for the dot."""
        self.changes |= {key.replace("__", "."): value for key, value in changes.items()}

    def file(self, name: str, content: str | bytes = "") -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def program(self, name: str, script: str | bytes, *, mode: int = 0o755) -> Path:
        """A program on PATH that does this, or is this."""
        path = self.file(f"bin/{name}", script if isinstance(script, bytes) else f"#!/bin/sh\n{script}\n")
        path.chmod(mode)
        return path

    def package(self, name: str, source: str = "", *, version: str = "1.0") -> None:
        """A module that every Python started from here finds first."""
        self.file(f"packages/{name}.py", f"__version__ = {version!r}\n{source}\n")
        self.set(PYTHONPATH=os.pathsep.join([str(self.folder / "packages"), str(FAKE_NVML)]))

    def nvml(self, *gpus: Any, **more: Any) -> None:
        """NVIDIA's library with these GPUs; see `fake_nvml`."""
        self.set(PYTHONPATH=str(FAKE_NVML), FAKE_NVML=json.dumps({"gpus": gpus} | more))

    def torch(self, version: str) -> None:
        """A torch that says of itself what stands in `version`."""
        torch_says(self.folder / "packages", version, self.patch)
        self.set(PYTHONPATH=os.pathsep.join([str(self.folder / "packages"), str(FAKE_NVML)]))

    def disk(self, *options: str) -> Path:
        """A small disk of its own. Linux and root only."""
        if sys.platform != "linux" or os.getuid() != 0:
            pytest.skip("mounts a small disk: Linux, root")
        place = self.folder / "disk"
        place.mkdir()
        mount = ["/bin/mount", "-t", "tmpfs", "-o", ",".join(options), "tmpfs", str(place)]
        subprocess.run(mount, check=True)
        self.stack.callback(subprocess.run, ["/bin/umount", "-l", str(place)], check=True)
        return place

    def holder(self, address: str, **variables: str) -> int:
        """A program of its own that listens; its port."""
        family = "AF_INET6" if ":" in address else "AF_INET"
        only = "s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1);" if ":" in address else ""
        code = f"import socket, sys; s = socket.socket(socket.{family}); {only} s.bind(({address!r}, 0)); s.listen();"
        code += "print(s.getsockname()[1], flush=True); sys.stdin.read()"
        pipe = subprocess.PIPE
        child = subprocess.Popen([sys.executable, "-S", "-c", code], stdin=pipe, stdout=pipe, env=variables)
        self.stack.enter_context(child)
        self.stack.callback(child.stdin.close)
        port = int(child.stdout.readline())
        self.configure(inference__port=port)
        return port

    def runs(self, **variables: str) -> int:
        """A program that is somebody's, and a run of ours in the outputs folder; its pid."""
        folder = Path(os.environ["RLGUIDE_OUTPUTS"]) / "first-look"
        folder.mkdir(parents=True)
        record = RunRecord(name=folder.name, plan=toy_plan(folder), state=State.RUNNING, mark=RUN, created_at="now")
        write_record(RunFiles(folder), record)
        child = subprocess.Popen([str(self.folder / "bin" / "sleep"), "60"], env={"A": "1"} | variables)
        self.stack.enter_context(child)
        self.stack.callback(child.kill)
        eventually(psutil.Process(child.pid).environ)  # empty for a moment while it starts
        return child.pid

    def shared(self) -> Path:
        """A folder into which everybody may look."""
        place = Path(tempfile.mkdtemp(dir="/tmp"))
        self.stack.callback(shutil.rmtree, place)
        place.chmod(0o755)
        return place

    def locked(self, place: Path | None = None) -> Path:
        """A folder, in `place`, into which this process may not look from now on."""
        place = place or self.shared()
        (place / "locked").mkdir(mode=0)
        self.stack.callback((place / "locked").chmod, 0o755)
        if os.getuid() == 0:
            self.stack.callback(os.setresuid, 0, 0, 0)
            os.setresuid(NOBODY, NOBODY, 0)
        return place / "locked"

    def one_core(self) -> None:
        mask = os.sched_getaffinity(0)
        self.stack.callback(os.sched_setaffinity, 0, mask)
        os.sched_setaffinity(0, {min(mask)})

    def limits(self, files: dict[str, str]) -> None:
        """What Linux says of the limits of this process."""
        for name, text in files.items():
            self.file(f"cgroup/{name}", text)
        where = {"cgroups": self.folder / "cgroup", "membership": self.file("membership", "0::/\n")}
        self.patch.setattr(probe.machine, "__kwdefaults__", where)

    def black_hole(self) -> str:
        """Address of a socket that takes a question and never answers."""
        server = self.stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        return f"http://127.0.0.1:{server.getsockname()[1]}"

    def hub(
        self, code: int = 200, body: str = '{"name": "anna", "id": "it"}', *, kind: str = "", **headers: str
    ) -> str:
        """A Hub that answers so; to questions whose address holds `kind`, where that is given, and well to others."""
        seen: list[str] = []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                seen.append(f"{self.path} {self.headers.get('Authorization')}")
                mine = kind in self.path
                if mine and body == "slow":
                    time.sleep(20)
                self.send_response(code if mine else 200)
                for name, value in headers.items():
                    self.send_header(name.replace("_", "-"), value)
                self.end_headers()
                with suppress(BrokenPipeError):  # who asked has given up
                    self.wfile.write((body if mine else WELL).encode())

            do_HEAD = do_GET

            def log_message(self, *_: object) -> None:
                """Says nothing."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads, server.block_on_close = True, False
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.stack.callback(server.server_close)
        self.stack.callback(server.shutdown)
        self.asked = seen
        self.set(HF_ENDPOINT=f"http://127.0.0.1:{server.server_port}")
        return os.environ["HF_ENDPOINT"]

    def wandb(self, how: str = "well", **stub: Any) -> Stub:
        """A W&B that knows Anna, and is asked; with more time than a reader has, for tests run side by side."""
        self.patch.setattr(accounts, "ANSWER_S", 25)
        self.patch.setattr(common, "WANDB_DEADLINE_S", 30)
        found = self.stack.enter_context(serving(Stub(users={ANNA: "anna"}, how=how, **stub)))
        self.set(WANDB_BASE_URL=found.url, XDG_CONFIG_HOME=str(self.folder / "home" / ".config"))
        self.configure(wandb__mode="online")
        return found

    def cache(self, files: dict[str, Any] | None = None, *, commit: str = "c0ffee", incomplete: int = 0) -> Path:
        """What of the run guide's policy is in the cache; its folder."""
        folder = f"home/.cache/huggingface/hub/models--{POLICY.replace('/', '--')}"
        if commit:
            self.file(f"{folder}/refs/main", commit)
        for name, content in (files or {}).items():
            self.file(f"{folder}/snapshots/{commit}/{name}", content)
        for number in range(incomplete):
            self.file(f"{folder}/blobs/{number}.incomplete", "half")
        return self.folder / folder

    def prime_rl(self, script: str | None = None, *, pyproject: str | None = None, files: Any = GUIDE) -> Path:
        """A checkout of prime-rl, whose Python is this one, or does what `script` says."""
        place = checkout(self.folder / "prime-rl", files)
        if pyproject is not None:
            self.file("prime-rl/pyproject.toml", pyproject)
        run_this = f'exec {sys.executable} "$@"'
        python = self.file("prime-rl/.venv/bin/python", "#!/bin/sh\n" + (script or run_this) + "\n")
        python.chmod(0o755)
        for name in ("rl", "inference", "vf-eval"):
            self.file(f"prime-rl/.venv/bin/{name}")
        self.configure(prime_rl__checkout=str(place))
        return place
