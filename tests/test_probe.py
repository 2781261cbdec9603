"""The probe counts limits that the kernel sets, and never takes "could not look" for "none"."""

import os
from pathlib import Path

import psutil
import pytest

from rlguide.probe import GIB, find_gpus, machine, parse_gpus, visible
from rlguide.records import Gpu


def limits(tmp_path: Path, membership: str, files: dict[str, str]) -> dict[str, Path]:
    for name, text in files.items():
        path = tmp_path / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "membership").write_text(membership)
    return {"cgroups": tmp_path / "cgroup", "membership": tmp_path / "membership"}


def fake_nvidia_smi(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)


def test_this_machine_has_cores_and_memory():
    found = machine()

    assert 1 <= found.cores <= (os.cpu_count() or 1)
    assert 0 < found.memory_gib <= psutil.virtual_memory().total / GIB


def test_cores_follow_the_affinity_mask():
    mask = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(mask)})
    try:
        cores = machine().cores
    finally:
        os.sched_setaffinity(0, mask)

    assert cores == 1


@pytest.mark.parametrize(
    ("membership", "files"),
    [
        ("0::/job\n", {"job/cpu.max": "100000 100000\n"}),
        ("0::/job/step\n", {"job/cpu.max": "150000 100000\n", "job/step/cpu.max": "max 100000\n"}),
        ("0::/somewhere/outside/this/container\n", {"cpu.max": "50000 100000\n"}),
        ("3:cpu,cpuacct:/job\n", {"cpu,cpuacct/job/cpu.cfs_quota_us": "100000\n",
                                  "cpu,cpuacct/job/cpu.cfs_period_us": "100000\n"}),
    ],
)  # fmt: skip
def test_cores_follow_a_quota_of_either_version(tmp_path: Path, membership: str, files: dict[str, str]):
    assert machine(**limits(tmp_path, membership, files)).cores == 1


@pytest.mark.parametrize("text", ["max 100000\n", "", "nonsense\n", "100000 0\n"])
def test_no_quota_or_an_unreadable_one_limits_nothing(tmp_path: Path, text: str):
    assert machine(**limits(tmp_path, "0::/\n", {"cpu.max": text})).cores == machine().cores


def test_memory_follows_the_limit_and_cache_does_not_count_as_used(tmp_path: Path):
    files = {
        "memory.max": f"{3 * GIB}\n",
        "memory.current": f"{2 * GIB}\n",
        "memory.stat": f"anon {GIB}\ninactive_file {GIB // 2}\n",
    }

    assert machine(**limits(tmp_path, "0::/\n", files)).memory_gib == 1.5


def test_memory_follows_a_limit_of_version_one(tmp_path: Path):
    files = {"memory/memory.limit_in_bytes": f"{GIB}\n", "memory/memory.usage_in_bytes": "0\n"}

    assert machine(**limits(tmp_path, "4:memory:/\n", files)).memory_gib == 1.0


def test_a_system_without_control_groups_has_no_limits(tmp_path: Path):
    assert machine(cgroups=tmp_path / "none", membership=tmp_path / "none").cores >= 1


def test_hostile_fields_of_a_gpu_are_unknown_and_never_zero():
    answer = (
        "WARNING: infoROM is corrupted\r\n"
        "0, NVIDIA H100, 81559, 81079, 9.0\r\n"
        "1, NVIDIA H100, [N/A], [Insufficient Permissions], [N/A]\r\n"
        "2, X, 81559 MiB, ERR!, [Not Supported]\r\n"
        "\r\n"
    )

    first, second, third = parse_gpus(answer)

    assert first == Gpu(index=0, name="NVIDIA H100", memory_gib=79.6, free_gib=79.2, compute_capability=(9, 0))
    assert second == Gpu(index=1, name="NVIDIA H100")
    assert third == Gpu(index=2, name="X", memory_gib=79.6)


GPUS = tuple(Gpu(index=index, name="X") for index in range(8))


@pytest.mark.parametrize(
    ("variable", "indices"),
    [(None, list(range(8))), ("4,7", [4, 7]), ("7, 4", [7, 4]), ("", []), ("-1", []), ("1,9,2", [1])],
)
def test_the_variable_hides_gpus_as_cuda_does(variable: str | None, indices: list[int]):
    found, problem = visible(GPUS, variable)

    assert [gpu.index for gpu in found] == indices
    assert problem is None


def test_a_variable_that_is_not_indices_is_a_problem_not_an_absence():
    found, problem = visible(GPUS, "GPU-aaa")

    assert found == ()
    assert "GPU-aaa" in problem


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18", "version mismatch"),
        ("echo 'could not talk to the driver' >&2; exit 9", "could not talk to the driver"),
    ],
)
def test_a_failing_nvidia_smi_means_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, expected: str
):
    fake_nvidia_smi(tmp_path, monkeypatch, script)

    gpus, problem = find_gpus()

    assert gpus == ()
    assert expected in problem


def test_a_nvidia_smi_that_cannot_be_started_means_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    fake_nvidia_smi(tmp_path, monkeypatch, "")
    (tmp_path / "nvidia-smi").write_bytes(b"\x7fELF not a program")

    assert "cannot be started" in find_gpus()[1]


def test_no_devices_is_none_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    fake_nvidia_smi(tmp_path, monkeypatch, "echo 'No devices were found'; exit 6")

    assert find_gpus() == ((), None)


def test_gpus_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    fake_nvidia_smi(tmp_path, monkeypatch, "echo '0, NVIDIA H200, 143771, 143000, 9.0'")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    assert [gpu.name for gpu in machine().gpus] == ["NVIDIA H200"]
