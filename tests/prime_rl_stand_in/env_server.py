"""The processes in which prime-rl runs an environment: a server and a worker, below the orchestrator.

They know no more than their parent's last wish: when the orchestrator is killed, they stay.
"""

import os
import signal
from pathlib import Path

from prime_rl_stand_in.behaviour import hear_again, hear_sigterm, take_title
from prime_rl_stand_in.logger import log_plain

SERVER = "verifiers.serve.server.env_server.ZMQEnvServer"
WORKER = "verifiers.serve.server.env_worker.EnvWorker"


class EnvServer:
    """One environment's server. To be made while the orchestrator is deaf."""

    def __init__(self, name: str, folder: Path):
        folder.mkdir(parents=True, exist_ok=True)
        self.pid = os.fork()
        if self.pid == 0:
            self._serve(name, folder)

    def _serve(self, name: str, folder: Path) -> None:
        worker = os.fork()
        take_title(f"EnvWorker::{name}" if worker == 0 else f"EnvServer::{name}")
        hear_sigterm("env server", None if worker == 0 else lambda: os.kill(worker, signal.SIGTERM))
        hear_again()
        with (folder / ("env_worker_0.log" if worker == 0 else "env_server.log")).open("w") as log:
            if worker == 0:
                log_plain(log, "verifiers.utils.env_utils", f"Loading environment: {name}")
                log_plain(log, WORKER, f"Initialized worker {name}-0")
            else:
                log_plain(log, SERVER, f"Initializing ZMQEnvServer to serve {name} (num_workers=1)")
                log_plain(log, SERVER, "ZMQEnvServer started on tcp://127.0.0.1:42267")
        while True:
            signal.pause()

    def end(self) -> None:
        try:
            os.kill(self.pid, signal.SIGTERM)
            os.waitpid(self.pid, 0)
        except (ProcessLookupError, ChildProcessError):  # ended before
            return
