"""The `trl` engine's plan: a pure translation of the configuration for one machine."""

import os
import tomllib
from pathlib import Path

import pytest
from fake_torch import FOR_CUDA_12_8, FOR_PROCESSORS, torch_says

from rlguide import check_machine, engines
from rlguide.config import load_config
from rlguide.engines.trl import Trl
from rlguide.errors import ConfigError
from rlguide.paths import TINY_POLICY, RunFiles
from rlguide.records import Gpu, GpuOwner, Machine, Plan, RunRecord, State, Status
from rlguide.store import write_record

LAPTOP = Machine(cores=2, memory_gib=8)
HOPPER = Gpu(index=0, name="H200", memory_gib=139, free_gib=138, compute_capability=(9, 0), owners=())
BUSY = Gpu(index=1, name="H200", memory_gib=139, free_gib=20, compute_capability=(9, 0), owners=())
OLD = Gpu(index=2, name="T4", memory_gib=15, free_gib=14.9, compute_capability=(7, 5), owners=())
UNKNOWN = Gpu(index=3, name="H200")


@pytest.fixture(autouse=True)
def _torch_for_cuda(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    torch_says(tmp_path_factory.mktemp("installed"), FOR_CUDA_12_8, monkeypatch)


def plan(changes: dict | None = None, *, machine: Machine = LAPTOP, source: str = "tiny") -> Plan:
    return Trl().plan(load_config(source, changes), Path("/runs/a"), machine=machine)


def server(*gpus: Gpu) -> Machine:
    return Machine(cores=16, memory_gib=128, gpus=gpus)


def test_planning_changes_nothing(tmp_path: Path):
    Trl().plan(load_config("tiny"), tmp_path / "run", machine=LAPTOP)

    assert list(tmp_path.iterdir()) == []


def test_the_engine_file_speaks_the_guides_vocabulary():
    rl = tomllib.loads(plan().files["rl.toml"])

    assert rl["max_steps"] == 20
    assert rl["model"]["name"] == str(TINY_POLICY)
    assert rl["orchestrator"]["batch_size"] == 128
    assert rl["orchestrator"]["rollouts_per_example"] == 16
    assert rl["orchestrator"]["train"]["sampling"]["max_completion_tokens"] == 128
    assert rl["orchestrator"]["train"]["env"] == [{"id": "reverse-text", "args": {}}]
    assert rl["trainer"]["optim"]["lr"] == 3e-4
    assert rl["ckpt"] == {}


def test_a_cpu_gets_float32_every_allowed_core_passive_waiting_and_no_gpu():
    made = plan()
    env = made.processes[0].env

    assert (made.precision, made.attention, made.threads, made.gpus) == ("float32", "sdpa", 2, ())
    assert made.exclusive_cpu
    assert (env["OMP_NUM_THREADS"], env["OMP_WAIT_POLICY"], env["GOMP_SPINCOUNT"]) == ("2", "PASSIVE", "1500")
    assert env["CUDA_VISIBLE_DEVICES"] == ""
    assert env["HF_HUB_OFFLINE"] == "1"


def test_a_modern_gpu_gets_bfloat16_and_an_old_one_does_not():
    assert plan(machine=server(HOPPER)).precision == "bfloat16"
    assert plan(machine=server(OLD)).precision == "float32"
    assert not plan(machine=server(HOPPER)).exclusive_cpu


def test_a_gpu_that_is_busy_or_of_unknown_memory_is_not_taken():
    assert plan(machine=server(BUSY, UNKNOWN)).gpus == ()
    assert plan(machine=server(BUSY, HOPPER)).gpus == (0,)


def test_a_named_gpu_is_taken_or_refused_by_name():
    assert plan({"gpus": [1]}, machine=server(HOPPER, BUSY)).processes[0].env["CUDA_VISIBLE_DEVICES"] == "1"
    with pytest.raises(ConfigError, match=r"gpus = \[7\]: no such GPU here \(seen: 0, 1\)"):
        plan({"gpus": [7]}, machine=server(HOPPER, BUSY))
    with pytest.raises(ConfigError, match="uses one GPU"):
        plan({"gpus": [0, 1]}, machine=server(HOPPER, BUSY))


def small(name: str, owners: tuple[GpuOwner, ...] = ()) -> Gpu:
    """A slice of the first GPU."""
    memory = {"memory_gib": 17, "free_gib": 2 if owners else 16.9}
    return Gpu(index=0, name="H200 MIG", uuid=name, compute_capability=(9, 0), owners=owners, **memory)


def divided(*slices: Gpu) -> Gpu:
    return HOPPER.model_copy(update={"slices": slices})


ADA, RUN = (GpuOwner(pid=7, who="python of ada"),), (GpuOwner(pid=8, who="a run of rlguide"),)
TAKEN = HOPPER.model_copy(update={"free_gib": 20, "owners": RUN})
BIG = Gpu(index=4, name="B200", memory_gib=180, free_gib=179, compute_capability=(10, 0), owners=())
OTHERS = BIG.model_copy(update={"owners": ADA})


@pytest.mark.parametrize(
    ("before", "after", "taken"),
    [
        ([divided(small("MIG-1"), small("MIG-2"))], [divided(small("MIG-1", RUN), small("MIG-2"))], "MIG-1"),
        ([divided(small("MIG-1", ADA), small("MIG-2"))], [divided(small("MIG-1"), small("MIG-2", RUN))], "MIG-2"),
        ([divided(small("MIG-1"))], [divided(small("MIG-1", RUN)), BIG], "MIG-1"),
        ([HOPPER, OTHERS], [TAKEN, BIG], "0"),
        ([OTHERS], [BIG], ""),
    ],
    ids=["another slice", "one that was busy", "a whole GPU", "a larger GPU", "a GPU for a run on the processor"],
)
def test_the_same_plan_again_is_that_run_whatever_has_become_free_meanwhile(
    tmp_path: Path, before: list[Gpu], after: list[Gpu], taken: str
):
    config, folder = load_config("tiny", {"engine": "trl"}), tmp_path / "run"
    first = engines.plan(config, folder, machine=server(*before))
    folder.mkdir()
    record = RunRecord(name="run", plan=first, state=State.RUNNING, created_at="2026-11-30T12:00:00+00:00")
    write_record(RunFiles(folder), record)

    again = engines.plan(config, folder, machine=server(*after))

    assert first.processes[0].env["CUDA_VISIBLE_DEVICES"] == taken
    assert again == first
    changed = engines.plan(config.replace({"seed": 3}), folder, machine=server(*after))
    assert changed.fingerprint != first.fingerprint
    assert engines.plan(config, tmp_path / "other", machine=server(*after)).gpus != first.gpus


def test_a_run_that_is_over_leaves_its_gpu_to_be_counted_once(tmp_path: Path):
    config, folder = load_config("tiny", {"engine": "trl"}), tmp_path / "run"
    first = engines.plan(config, folder, machine=server(HOPPER))
    folder.mkdir()
    record = RunRecord(name="run", plan=first, state=State.FAILED, created_at="2026-11-30T12:00:00+00:00")
    write_record(RunFiles(folder), record)

    note = engines.plan(config.replace({"seed": 3}), folder, machine=server(HOPPER)).notes[0]

    assert note.count("H200") == 1


def test_a_named_gpu_that_is_divided_is_its_first_free_slice():
    assert plan({"gpus": [0]}, machine=server(divided(small("MIG-1", ADA), small("MIG-2")))).gpus == ("MIG-2",)


def test_a_named_gpu_where_the_gpus_are_unknown_is_refused_with_the_way_to_see_them():
    unknown = Machine(cores=2, memory_gib=8, gpu_problem="the driver is not loaded", gpu_fix="sudo modprobe nvidia")

    with pytest.raises(ConfigError, match=r"\(seen: the driver is not loaded\)") as caught:
        plan({"gpus": [0]}, machine=unknown)

    assert caught.value.hint == "sudo modprobe nvidia"


OLD_DRIVER = "__version__ = '2.9'\ncuda: Optional[str] = '13.0'\n"


@pytest.mark.parametrize(
    ("torch", "said", "fix"),
    [
        (FOR_PROCESSORS, "torch 2.9+cpu is made for processors only", "pip uninstall torch"),
        (f"{FOR_PROCESSORS}hip = '6.2'\n", "torch 2.9+cpu is made for AMD's GPUs", "pip uninstall torch"),
        (OLD_DRIVER, "driver 535.1 runs CUDA up to 12.2, torch 2.9 is made for 13.0", "renew NVIDIA's driver"),
    ],
)
def test_a_torch_that_cannot_use_a_free_gpu_trains_on_the_processor_and_says_how_to_change_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, torch: str, said: str, fix: str
):
    torch_says(tmp_path / "other", torch, monkeypatch)
    machine = server(HOPPER).model_copy(update={"driver": "535.1", "cuda": (12, 2)})

    made = plan(machine=machine)

    assert (made.gpus, made.precision, made.exclusive_cpu) == ((), "float32", True)
    assert made.processes[0].env["CUDA_VISIBLE_DEVICES"] == ""
    assert made.estimate_s
    (note,) = (note for note in made.notes if "A GPU is free" in note)
    assert said in note
    assert fix in note
    with pytest.raises(ConfigError) as caught:
        plan({"gpus": [0]}, machine=machine)
    assert f"gpus = [0]: {said}" in caught.value.message
    assert fix in caught.value.hint
    assert "leave gpus out" in caught.value.hint


@pytest.mark.parametrize(
    ("torch", "cuda"), [("nonsense(", (12, 2)), (OLD_DRIVER, None), (FOR_CUDA_12_8, (12, 2)), (FOR_CUDA_12_8, (13, 0))]
)
def test_a_gpu_is_taken_where_nothing_is_known_against_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, torch: str, cuda: tuple[int, int] | None
):
    torch_says(tmp_path / "other", torch, monkeypatch)

    made = plan(machine=server(HOPPER).model_copy(update={"cuda": cuda}))

    assert made.gpus == (0,)
    assert not any("A GPU is free" in note for note in made.notes)


def test_no_word_about_torch_where_no_gpu_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    torch_says(tmp_path / "other", FOR_PROCESSORS, monkeypatch)

    assert plan(machine=server(BUSY)).notes == plan().notes


@pytest.mark.parametrize("name", ["/no/such/folder", "./here", "~/there", "a/b/c", "nothing"])
def test_a_model_folder_that_is_not_there_is_an_error_that_names_it(name: str):
    with pytest.raises(ConfigError, match=r"config\.json is missing") as caught:
        plan({"model.name": name})

    assert name in str(caught.value)
    assert "hint:" in str(caught.value)


def test_an_empty_folder_is_no_model(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"config\.json is missing"):
        plan({"model.name": str(tmp_path)})


def test_a_step_of_more_prompts_than_there_are_texts_is_refused():
    with pytest.raises(ConfigError, match="a step of 1050 prompts: there are 1000 texts"):
        plan({"orchestrator.batch_size": 2100, "orchestrator.rollouts_per_example": 2})


def test_a_hub_name_is_passed_on_and_may_use_the_network():
    made = plan(source="guide")

    assert made.policy == "PrimeIntellect/Qwen3-0.6B-Reverse-Text-SFT"
    assert "HF_HUB_OFFLINE" not in made.processes[0].env
    assert any("expect hours" in note for note in made.notes)


def test_wandb_is_off_unless_asked_for_and_no_key_travels_in_the_plan(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WANDB_API_KEY", "planted-secret")

    assert "WANDB_MODE" not in plan().processes[0].env
    asked = plan({"wandb_mode": "offline", "wandb.project": "p", "run_name": "first"})
    assert asked.processes[0].env["WANDB_MODE"] == "offline"
    assert asked.processes[0].env["WANDB_PROJECT"] == "p"
    assert tomllib.loads(asked.files["rl.toml"])["wandb"]["name"] == "first"
    assert "planted-secret" not in asked.model_dump_json()


def test_equal_plans_have_equal_fingerprints_and_a_changed_setting_another():
    assert plan().fingerprint == plan().fingerprint
    assert plan({"trainer.optim.lr": 1e-4}).fingerprint != plan().fingerprint
    assert plan({"seed": 1}).fingerprint != plan().fingerprint
    assert plan({"time_limit_s": 30.0}).fingerprint == plan().fingerprint


def test_a_plan_says_that_a_run_of_another_one_has_its_name():
    there = engines.plan(load_config("tiny"))
    there.directory.mkdir(parents=True)
    created = "2026-01-01T00:00:00+00:00"
    write_record(RunFiles(there.directory), RunRecord(name="x", plan=there, state=State.SUCCEEDED, created_at=created))

    taken = "'reverse-text' holds a run of another plan"
    assert engines.why_taken(there) is None
    assert engines.plan(load_config("tiny", {"seed": 1})).notes[-1] == f"A launch will refuse: {taken}."
    (check,) = check_machine(config=load_config("tiny", {"seed": 1}), only=["plan"]).checks
    assert (check.status, check.seen) == (Status.WARN, taken)


def test_a_plan_names_an_environment_that_was_set_as_it_was_typed():
    config = load_config("tiny", {"orchestrator.train.env": [{"id": "reverse-text", "args": {"dataset": "hub"}}]})

    assert engines.plan(config).changes == (
        'orchestrator.train.env [{id = "reverse-text"}] → [{id = "reverse-text", args = {dataset = "hub"}}]',
    )


def test_a_plan_names_what_was_set_and_its_fingerprint_does_not_depend_on_that_list():
    changed = engines.plan(load_config("tiny", {"seed": 7, "trainer.optim.lr": 1e-4}), machine=LAPTOP)

    assert changed.changes == ("seed 0 → 7", "trainer.optim.lr 0.0003 → 0.0001")
    assert changed.fingerprint == plan({"seed": 7, "trainer.optim.lr": 1e-4}).fingerprint
    assert engines.plan(load_config("guide"), machine=LAPTOP).changes == ()


def test_the_estimate_grows_with_the_steps_and_is_unknown_for_a_policy_never_measured():
    assert plan({"max_steps": 40}).estimate_s > plan().estimate_s > 0
    assert plan(source="guide").estimate_s is None


def test_the_programs_are_this_interpreters_own():
    assert os.access(plan().processes[0].argv[0], os.X_OK)
    assert plan().processes[0].argv[1:4] == ("-P", "-m", "rlguide.programs.train_trl")


def test_a_free_slice_of_a_divided_gpu_is_taken_by_its_own_name():
    made = plan(machine=server(divided(small("MIG-1"))))

    assert made.gpus == ("MIG-1",)
    assert made.processes[0].env["CUDA_VISIBLE_DEVICES"] == "MIG-1"
