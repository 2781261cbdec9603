"""The probe counts limits that the kernel sets, and never takes "could not look" for "none"."""

import os
from pathlib import Path

import psutil
import pytest

from rlguide.probe import GIB, machine


def limits(tmp_path: Path, membership: str, files: dict[str, str]) -> dict[str, Path]:
    for name, text in files.items():
        path = tmp_path / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "membership").write_text(membership)
    return {"cgroups": tmp_path / "cgroup", "membership": tmp_path / "membership"}


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


@pytest.mark.parametrize("junk", ["", "much", "-1", "\x00"])
def test_rubbish_beside_a_limit_leaves_the_limit(tmp_path: Path, junk: str):
    files = {"memory.max": f"{GIB}\n", "memory.current": junk, "memory.stat": f"inactive_file {junk}\nanon"}

    assert machine(**limits(tmp_path, "0::/\n", files)).memory_gib == 1.0


@pytest.mark.parametrize("membership", [b"\xff\xfe", b"", b"rubbish", b"0:::::\n::\n", b"0::/../..\n"])
def test_rubbish_about_this_process_limits_nothing(tmp_path: Path, membership: bytes):
    (tmp_path / "membership").write_bytes(membership)

    assert machine(cgroups=tmp_path, membership=tmp_path / "membership").cores == machine().cores


def test_a_system_without_control_groups_has_no_limits(tmp_path: Path):
    assert machine(cgroups=tmp_path / "none", membership=tmp_path / "none").cores >= 1
