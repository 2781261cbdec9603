"""Asks NVIDIA's management library (NVML) for every GPU and prints one JSON object; opens no CUDA context.

    python -P nvml_gpus.py

Run by file name, in a process of its own: the library can hang and crash. Needs nothing but `nvidia-ml-py`.
What the library does not tell is null, never 0.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any


def main() -> None:
    print(json.dumps(answer()))


def answer() -> dict[str, Any]:
    """The driver and all GPUs, or `problem`: a code of NVML, or `absent` when its Python package is not there."""
    try:
        import pynvml
    except ImportError:
        return {"problem": "absent"}
    try:
        pynvml.nvmlInit()
        count = pynvml.nvmlDeviceGetCount()
    except pynvml.NVMLError as error:
        return {"problem": error.value, "told": str(error)}
    return {
        "driver": told(pynvml.nvmlSystemGetDriverVersion),
        "cuda": told(pynvml.nvmlSystemGetCudaDriverVersion),
        "gpus": [gpu(pynvml, index) for index in range(count)],
    }


def told(function: Callable[..., Any], *arguments: Any) -> Any:
    """What the library answers, `None` when it refuses: not supported, not permitted, a GPU that was lost."""
    import pynvml

    try:
        return function(*arguments)
    except (pynvml.NVMLError, UnicodeDecodeError):
        return None


def gpu(pynvml: Any, index: int) -> dict[str, Any]:
    handle = told(pynvml.nvmlDeviceGetHandleByIndex, index)
    if handle is None:
        return {"index": index}
    capability = told(pynvml.nvmlDeviceGetCudaComputeCapability, handle)
    return {
        "index": index,
        "capability": capability,
        "divided": (told(pynvml.nvmlDeviceGetMigMode, handle) or [0])[0] == pynvml.NVML_DEVICE_MIG_ENABLE,
        "slices": [part | {"capability": capability} for part in slices(pynvml, handle)],
        **device(pynvml, handle),
    }


def device(pynvml: Any, handle: Any) -> dict[str, Any]:
    memory = told(pynvml.nvmlDeviceGetMemoryInfo, handle)
    return {
        "name": told(pynvml.nvmlDeviceGetName, handle),
        "uuid": told(pynvml.nvmlDeviceGetUUID, handle),
        "total": memory and memory.total,
        "free": memory and memory.free,
        "pids": pids(told(pynvml.nvmlDeviceGetComputeRunningProcesses, handle)),
        "graphics": pids(told(pynvml.nvmlDeviceGetGraphicsRunningProcesses, handle)),
    }


def pids(processes: Any) -> list[int] | None:
    return None if processes is None else [process.pid for process in processes]


def slices(pynvml: Any, handle: Any) -> Iterator[dict[str, Any]]:
    """The parts (MIG) of a divided GPU."""
    for number in range(told(pynvml.nvmlDeviceGetMaxMigDeviceCount, handle) or 0):
        part = told(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, number)
        if part is not None:
            yield device(pynvml, part)


if __name__ == "__main__":
    main()
