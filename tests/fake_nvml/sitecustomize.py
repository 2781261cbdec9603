"""NVIDIA's library as a machine would have it that the variable FAKE_NVML describes, below the real `nvidia-ml-py`.

On PYTHONPATH, Python loads this at its start. Only the functions of the C library are replaced: everything that
`nvidia-ml-py` does with their answers is the real thing. A field that is missing is not supported by the GPU.

    {"init": code, "driver": text, "cuda": number, "gpus": [{"name", "uuid", "total", "free", "capability", "pids",
    "graphics", "slices": [{"uuid", ...}]} or null for a GPU that was lost], "does": "hang" | "crash" | "talk",
    "ends": text}
"""

import atexit
import json
import os
import signal
import time
from typing import Any

import pynvml

DESCRIBED = json.loads(os.environ["FAKE_NVML"])
GPUS = DESCRIBED.get("gpus", [])
if "ends" in DESCRIBED:
    atexit.register(print, DESCRIBED["ends"])
PLACES = [*GPUS, *(part for gpu in GPUS if gpu for part in gpu.get("slices", []))]
"""A handle is the address of a place in this list, from 1 up."""
OK, NOT_SUPPORTED, TOO_SMALL, NOT_FOUND, LOST = 0, 3, 7, 6, 15


class Library:
    """Functions of the C library, by their names in it."""

    def nvmlInitWithFlags(self, flags: int) -> int:
        if DESCRIBED.get("does") == "hang":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            time.sleep(600)
        if DESCRIBED.get("does") == "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        if DESCRIBED.get("does") == "talk":
            print("NVML: a word on standard output", flush=True)
        return DESCRIBED.get("init", OK)

    def nvmlErrorString(self, code: int) -> bytes:
        return f"error {code}".encode()

    def nvmlSystemGetDriverVersion(self, text: Any, size: Any) -> int:
        return fill(text, DESCRIBED.get("driver"))

    def nvmlSystemGetCudaDriverVersion(self, number: Any) -> int:
        return fill(number._obj, DESCRIBED.get("cuda"))

    def nvmlDeviceGetCount_v2(self, number: Any) -> int:
        return fill(number._obj, len(GPUS))

    def nvmlDeviceGetHandleByIndex_v2(self, index: Any, handle: Any) -> int:
        return LOST if GPUS[index.value] is None else place(handle, GPUS[index.value])

    def nvmlDeviceGetName(self, handle: Any, text: Any, size: Any) -> int:
        return fill(text, at(handle).get("name"))

    def nvmlDeviceGetUUID(self, handle: Any, text: Any, size: Any) -> int:
        return fill(text, at(handle).get("uuid"))

    def nvmlDeviceGetMemoryInfo(self, handle: Any, memory: Any) -> int:
        if "total" not in at(handle):
            return NOT_SUPPORTED
        memory._obj.total, memory._obj.free = at(handle)["total"], at(handle)["free"]
        return OK

    def nvmlDeviceGetCudaComputeCapability(self, handle: Any, major: Any, minor: Any) -> int:
        if "capability" not in at(handle):
            return NOT_SUPPORTED
        major._obj.value, minor._obj.value = at(handle)["capability"]
        return OK

    def nvmlDeviceGetComputeRunningProcesses_v3(self, handle: Any, count: Any, rows: Any) -> int:
        return processes(at(handle).get("pids"), count._obj, rows)

    def nvmlDeviceGetGraphicsRunningProcesses_v3(self, handle: Any, count: Any, rows: Any) -> int:
        return processes(at(handle).get("graphics"), count._obj, rows)

    def nvmlDeviceGetMigMode(self, handle: Any, now: Any, pending: Any) -> int:
        return fill(now._obj, 1 if "slices" in at(handle) else None)

    def nvmlDeviceGetMaxMigDeviceCount(self, handle: Any, number: Any) -> int:
        return fill(number._obj, 7 if "slices" in at(handle) else None)

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: Any, index: Any, part: Any) -> int:
        parts = at(handle)["slices"]
        return place(part, parts[index.value]) if index.value < len(parts) else NOT_FOUND


def fill(target: Any, value: Any) -> int:
    if value is None:
        return NOT_SUPPORTED
    target.value = value.encode("latin-1") if isinstance(value, str) else value
    return OK


def place(handle: Any, described: dict[str, Any]) -> int:
    number = next(n for n, other in enumerate(PLACES, 1) if other is described)
    handle._obj.contents = pynvml.struct_c_nvmlDevice_t.from_address(number)
    return OK


def at(handle: Any) -> dict[str, Any]:
    return PLACES[pynvml.addressof(handle.contents) - 1]


def processes(pids: list[int] | None, count: Any, rows: Any) -> int:
    if pids is None:
        return NOT_SUPPORTED
    if rows is None and pids:
        count.value = len(pids)
        return TOO_SMALL
    for row, pid in zip(rows or (), pids, strict=False):
        row.pid = pid
    count.value = len(pids)
    return OK


pynvml.nvmlLib = Library()
