"""The `prime-rl` engine's plan: what its launcher is started with on a machine with two GPUs, and what is refused."""

import os
import socket
import tomllib
from pathlib import Path
from typing import Any

import pytest
from prime_rl_stand_in import make_checkout

from rlguide import engines
from rlguide.config import load_config
from rlguide.errors import ConfigError, EngineMissing
from rlguide.paths import RunFiles
from rlguide.records import Gpu, GpuOwner, Machine, Plan, RunRecord, State
from rlguide.store import write_record


def gpu(index: int, **known: Any) -> Gpu:
    return Gpu(index=index, **({"name": "H200", "memory_gib": 139, "free_gib": 138.5, "owners": ()} | known))


TWO = Machine(cores=32, memory_gib=256, gpus=(gpu(0), gpu(1)))


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_checkout(tmp_path_factory.mktemp("prime rl") / "checkout")


def planned(checkout: Path, directory: Path, *, machine: Machine = TWO, **changes: Any) -> Plan:
    asked = {"engine": "prime-rl", "prime_rl.checkout": str(checkout)}
    asked |= {key.replace("__", "."): value for key, value in changes.items()}
    return engines.plan(load_config("tiny", asked), directory, machine=machine)


def test_the_launcher_of_the_checkout_gets_the_file_and_the_folder_of_the_run(checkout: Path, tmp_path: Path):
    (launcher,) = planned(checkout, tmp_path / "run").processes

    assert launcher.argv == (
        *(str(checkout / ".venv/bin/rl"), "@", str(tmp_path / "run/rl.toml")),
        *("--output-dir", str(tmp_path / "run/engine")),
    )
    assert launcher.env["PATH"].split(os.pathsep)[0] == str(checkout / ".venv/bin")
    assert launcher.env["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert launcher.env["MPLBACKEND"] == "agg"


@pytest.mark.parametrize(
    ("machine", "gpus", "wanted"),
    [
        (TWO, None, (0, 1)),
        (TWO, [1, 0], (1, 0)),
        (Machine(cores=8, memory_gib=64, gpus=tuple(gpu(number) for number in range(8))), [4, 7], (4, 7)),
        (Machine(cores=8, memory_gib=64, gpus=(gpu(0, free_gib=20.0), gpu(1), gpu(2))), None, (1, 2)),
        (Machine(cores=8, memory_gib=64, gpus=(gpu(0, free_gib=138.4), gpu(1))), None, (0, 1)),
    ],
)
def test_the_first_gpu_serves_and_the_second_trains(
    checkout: Path, tmp_path: Path, machine: Machine, gpus: list[int] | None, wanted: tuple[int, int]
):
    made = planned(checkout, tmp_path / "run", machine=machine, gpus=gpus)

    assert made.gpus == wanted
    assert made.processes[0].env["CUDA_VISIBLE_DEVICES"] == f"{wanted[0]},{wanted[1]}"
    assert f"GPU {wanted[0]} serves the policy (inference), GPU {wanted[1]} updates it (trainer)." in made.notes


@pytest.mark.parametrize(
    ("machine", "gpus", "told"),
    [
        (Machine(cores=8, memory_gib=64), None, "needs 2 free GPUs .seen: none; free: none"),
        (Machine(cores=8, memory_gib=64, gpus=(gpu(0), gpu(1, owners=None))), None, "seen: GPUs 0 and 1; free: GPU 0"),
        (TWO, [0], "uses 2 GPUs"),
        (TWO, [0, 1, 2], "uses 2 GPUs"),
        (TWO, [0, 5], "no GPU 5 for it here .seen: GPUs 0 and 1"),
    ],
)
def test_too_few_gpus_are_refused_with_what_was_seen(
    checkout: Path, tmp_path: Path, machine: Machine, gpus: list[int] | None, told: str
):
    with pytest.raises(ConfigError, match=told) as refused:
        planned(checkout, tmp_path / "run", machine=machine, gpus=gpus)

    assert refused.value.hint


@pytest.mark.parametrize("gpus", [None, [3, 1]])
def test_a_plan_for_elsewhere_is_the_one_that_a_machine_with_all_of_it_would_make_and_says_what_it_assumes(
    checkout: Path, tmp_path: Path, gpus: list[int] | None
):
    bare = Machine(cores=2, memory_gib=4, gpu_problem="no driver")
    there = Machine(cores=32, memory_gib=256, gpus=tuple(gpu(number) for number in range(4)))
    asked = {"engine": "prime-rl", "prime_rl.checkout": str(checkout), "gpus": gpus}
    config = load_config("tiny", asked)

    assumed = engines.plan(config, tmp_path / "run", machine=bare, elsewhere=True)
    made = engines.plan(config, tmp_path / "run", machine=there)

    assert assumed.model_copy(update={"notes": made.notes}) == made
    assert assumed.notes[1:] == made.notes[1:]
    assert assumed.notes[0].startswith(
        "Assumed, whatever is here: prime-rl, the guide's release (024abb204), installed"
    )
    assert assumed.notes[0].endswith("GPUs 3 and 1, free." if gpus else "GPUs 0 and 1, free.")


def test_other_engines_are_never_assumed(tmp_path: Path):
    config = load_config("tiny", {"engine": "replay"})

    assert engines.plan(config, tmp_path / "run", elsewhere=True) == engines.plan(config, tmp_path / "run")


def test_a_taken_port_is_passed_over_for_both_who_need_it_and_leaves_the_plan_the_same(checkout: Path, tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as holder:
        taken = holder.getsockname()[1]
        made = planned(checkout, tmp_path / "run", inference__port=taken)
    free = planned(checkout, tmp_path / "run", inference__port=taken)

    written = tomllib.loads(made.files["rl.toml"])
    port = made.ports["inference"]
    assert port > taken == free.ports["inference"]
    assert written["inference"]["server"]["port"] == port
    assert written["orchestrator"]["client"]["base_url"] == [f"http://localhost:{port}/v1"]
    assert f"Port {taken} is taken here; the inference server gets {port}." in made.notes
    assert made.fingerprint == free.fingerprint


def test_the_packaged_texts_reach_the_hubs_own_environment_as_a_data_set(checkout: Path, tmp_path: Path):
    ours = [{"id": "reverse-text", "args": {"dataset": "rlguide"}}]
    made = planned(checkout, tmp_path / "run", orchestrator__train__env=ours)

    (environment,) = tomllib.loads(made.files["rl.toml"])["orchestrator"]["train"]["env"]
    assert environment["args"]["dataset_split"] == "train"
    assert (Path(environment["args"]["dataset_name"]) / "train.jsonl").is_file()
    assert made.processes[0].env["HF_HUB_OFFLINE"] == "1"


def test_the_tiny_policy_gets_texts_that_it_can_spell_and_any_other_those_of_the_guide(checkout: Path, tmp_path: Path):
    texts = {}
    for name in ("tiny-qwen3", "owner/model"):
        made = planned(checkout, tmp_path / "run", model__name=name)
        (environment,) = tomllib.loads(made.files["rl.toml"])["orchestrator"]["train"]["env"]
        texts[name] = "args" in environment
        assert ("HF_HUB_OFFLINE" in made.processes[0].env) == texts[name]

    assert texts == {"tiny-qwen3": True, "owner/model": False}


def test_the_inference_server_listens_to_this_machine_only_unless_told_otherwise(checkout: Path, tmp_path: Path):
    ours = planned(checkout, tmp_path / "run")
    open_to_all = planned(checkout, tmp_path / "run", inference__host="0.0.0.0")

    assert tomllib.loads(ours.files["rl.toml"])["inference"]["server"]["host"] == "127.0.0.1"
    assert "host" not in tomllib.loads(open_to_all.files["rl.toml"])["inference"].get("server", {})
    assert any("listens to other machines" in note for note in open_to_all.notes)


def test_the_same_plan_again_is_that_run_on_its_own_gpus_and_port(checkout: Path, tmp_path: Path):
    first = planned(checkout, tmp_path / "run", gpus=None)
    RunFiles(tmp_path / "run").directory.mkdir()
    write_record(
        RunFiles(tmp_path / "run"),
        RunRecord(name="run", plan=first, state=State.RUNNING, created_at="2026-11-30T12:00:00+00:00"),
    )
    taken = tuple(gpu(index, free_gib=10.0, owners=(GpuOwner(pid=7, who="a run"),)) for index in (0, 1))
    busy = Machine(cores=32, memory_gib=256, gpus=(*taken, gpu(2), gpu(3)))

    again = planned(checkout, tmp_path / "run", machine=busy)

    assert (again.fingerprint, again.gpus, again.processes) == (first.fingerprint, (0, 1), first.processes)
    assert planned(checkout, tmp_path / "other", machine=busy).gpus == (2, 3)


def test_two_free_gpus_and_an_installed_checkout_choose_prime_rl_and_one_gpu_does_not(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("RLGUIDE_PRIME_RL", str(checkout))
    one = TWO.model_copy(update={"gpus": (gpu(0), gpu(1, free_gib=1.0))})

    assert engines.fitting(load_config("tiny"), TWO)[0] == "prime-rl"
    assert engines.fitting(load_config("tiny"), one)[0] == "trl"
    assert engines.fitting(load_config("tiny", {"gpus": [1]}), TWO)[0] == "trl"


def test_two_free_gpus_without_a_checkout_say_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("RLGUIDE_PRIME_RL", raising=False)

    name, why = engines.fitting(load_config("tiny"), TWO)

    assert name == "trl"
    assert "rlguide install --engine prime-rl" in why


@pytest.mark.parametrize("gone", ["rl", "inference", "vf-eval"])
def test_a_checkout_that_is_not_installed_is_refused_with_the_command(tmp_path: Path, gone: str):
    checkout = make_checkout(tmp_path / "checkout")
    (checkout / ".venv" / "bin" / gone).unlink()

    with pytest.raises(EngineMissing, match=f"there is no {gone}.*rlguide install --engine prime-rl"):
        planned(checkout, tmp_path / "run")


def test_another_release_is_refused_with_what_differs_and_the_way_out(tmp_path: Path):
    checkout = make_checkout(tmp_path / "checkout", release="C")

    with pytest.raises(EngineMissing, match=r"(?s)orchestrator\.group_size.*checkout"):
        planned(checkout, tmp_path / "run")


def test_the_tools_of_a_run_are_those_of_its_checkout_on_its_first_gpu(checkout: Path, tmp_path: Path):
    tools = engines.tools(planned(checkout, tmp_path / "run", gpus=[1, 0]))

    assert tools.server("/a/policy", 4242, 7) == (
        *(str(checkout / ".venv/bin/inference"), "--model.name", "/a/policy"),
        *("--server.host", "127.0.0.1", "--server.port", "4242", "--seed", "7"),
    )
    assert tools.vf_eval() == (str(checkout / ".venv/bin/vf-eval"),)
    assert tools.environment(str(tmp_path))["CUDA_VISIBLE_DEVICES"] == "1"
    assert tools.arguments["dataset_split"] == "test"
    assert not tools.exclusive_cpu
