"""The records that travel between the parts of rlguide: frozen, typed, and the same in memory and in JSON.

Nothing here acts. A value that was not measured is `None`, never 0.
"""

import math
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator

SCHEMA_VERSION = 1


class Record(BaseModel):
    """Base of all records: cannot be changed after it was made; unknown fields and numbers not finite are refused.

    A schema is built when it is first used: every process needs few of them, and a launch would wait for all.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)


class Measured(Record):
    """What an engine says: a number that is not finite was not measured."""

    @field_validator("*", mode="before")
    @classmethod
    def _gap(cls, value: Any) -> Any:
        return None if isinstance(value, float) and not math.isfinite(value) else value


# ---------------------------------------------------------------------------------- what is asked, and from where


class Parameters(Record):
    """What a reader sets at the top of a notebook, or hands to papermill. `None` means "as configured"."""

    model_config = ConfigDict(strict=True)

    engine: str | None = None
    run_name: str | None = None
    preset: str | None = None
    max_steps: int | None = None
    seed: int | None = None
    time_limit_s: float | None = None
    """Time limit of the run, seconds."""
    gpus: list[int] | None = None
    """Indices of the GPUs to use."""
    wandb_mode: str | None = None
    sentence: str | None = None
    """The reader's own text, tried before and after training; no part of the configuration."""

    @property
    def given(self) -> dict[str, Any]:
        """The parameters that are not `None`, by name."""
        return self.model_dump(exclude_none=True)


class Provenance(Record):
    """What something was made with: enough to tell later why a number differs."""

    packages: dict[str, str]
    """Distributions that decide the outcome → version; one of an engine's own Python has its name in brackets."""
    python: str
    commit: str | None = None
    """Commit of the checkout that rlguide runs from; `None` when it runs from none, or git cannot say."""
    modified: bool | None = None
    """True when the checkout differs from that commit."""
    system: str
    """Operating system with its release, and the kind of processor."""
    processor: str
    cores: int
    """Whole processor cores that this process may use."""
    memory_gib: float | None
    """Memory available to new programs."""
    gpus: tuple[str, ...] = ()
    gpu_problem: str | None = None
    made_at: str
    """ISO 8601 with offset."""


# ------------------------------------------------------------------------------------------------------ the machine


class GpuOwner(Record):
    """Somebody who computes on a GPU."""

    pid: int | None = None
    """`None` for a process that is not visible from this container."""
    who: str
    """In words, for example `a run of rlguide`, or `python of ada`."""


class Gpu(Record):
    """One GPU, or a slice (MIG) of one. Unknown is `None`, and never counts as free."""

    index: int
    """NVIDIA's number, by place on the bus; a slice has that of its GPU."""
    name: str
    uuid: str | None = None
    memory_gib: float | None = None
    free_gib: float | None = None
    compute_capability: tuple[int, int] | None = None
    owners: tuple[GpuOwner, ...] | None = None
    """Who computes on it; empty: nobody. `None`: that could not be found out."""
    slices: tuple["Gpu", ...] | None = None
    """Its parts when it is divided; it cannot be used as a whole then."""

    @property
    def is_free(self) -> bool:
        """True when nobody is on it and nine tenths of its memory are there, both known for certain."""
        known = self.memory_gib is not None and self.free_gib is not None
        return known and self.owners == () and self.slices is None and self.free_gib >= 0.9 * self.memory_gib


class Machine(Record):
    """What a run may use here."""

    cores: int
    """Whole processor cores that this process may use: affinity mask and cgroup quota count."""
    memory_gib: float | None
    """Memory available to new programs; a cgroup limit counts."""
    gpus: tuple[Gpu, ...] = ()
    """Those that `CUDA_VISIBLE_DEVICES` leaves, in its order."""
    gpu_problem: str | None = None
    """Why GPUs could not be listed; unknown is not the same as none."""
    gpu_notice: str | None = None
    """What is odd about those that were listed, for example that a variable hides them."""
    gpu_fix: str | None = None
    """What to do about the problem or the oddity."""
    driver: str | None = None
    """Version of NVIDIA's driver."""
    cuda: tuple[int, int] | None = None
    """Highest CUDA version that the driver can run."""


# ---------------------------------------------------------------------------------------------- a plan, before a run


def _inside(path: Path) -> Path:
    if path.is_absolute() or ".." in path.parts:
        raise ValueError(f"{path} leads out of the run directory")
    return path


InRun = Annotated[Path, AfterValidator(_inside)]
"""A path relative to the run directory. A run is written to and cleaned by such paths, so that none leads elsewhere."""


class Process(Record):
    """One program that an engine wants started."""

    name: str
    """Component name, as in the guide: `trainer`, `orchestrator`, `inference`, or `launcher`."""
    argv: tuple[str, ...]
    """Program and arguments. Never holds a secret: other users of the machine can read it."""
    env: dict[str, str] = Field(default_factory=dict)
    """Variables added to the inherited environment. Never holds a secret: it is written to `run.json`."""
    log: InRun
    """File that gets standard output and standard error, relative to the run directory."""


class MetricSource(Record):
    """A file in which an engine reports its steps, or that a component failed, and the dialect to read it in."""

    component: str
    path: InRun
    """Relative to the run directory."""
    dialect: str
    """Key of `rlguide.parsing.DIALECTS`, or of `ALARMS` there."""


class Layout(Record):
    """Where an engine puts things, relative to the run directory."""

    logs: dict[str, InRun]
    """Log file of each component."""
    rollouts: InRun
    """Folder of `step_N/` folders."""
    rollouts_file: str
    """Name of the file of rollouts in a `step_N/` folder: one JSON object a line."""
    checkpoints: InRun
    """Folder of `step_N/` folders."""
    checkpoint_markers: tuple[str, ...] = ()
    """Files without which a checkpoint is not complete, `{step}` in place of its number; none: it is once named."""
    weights: InRun
    """Folder of `step_N/` folders in Hugging Face format."""
    weights_marker: str
    """File in a `weights/step_N/` folder that is written last; without it the weights are not complete."""


class Plan(Record):
    """What a launch would start, as data; making one changes nothing."""

    engine: str
    release: str
    """Version of the training framework, for example `trl 1.16.0`."""
    policy: str
    """Warm start: absolute folder, or Hub name."""
    directory: Path
    """The run directory, absolute."""
    processes: tuple[Process, ...] = Field(min_length=1)
    resume_args: tuple[str, ...] = ()
    """Added to the first process to go on from its last complete checkpoint; `{step}` in them stands for the number of
    that one, and without one they are left out."""
    files: dict[str, str]
    """Files to write into the run directory before the start: relative path → text."""
    metrics: tuple[MetricSource, ...]
    alarms: tuple[MetricSource, ...] = ()
    """Logs in which an engine tells that one of the components failed that it started itself."""
    layout: Layout
    max_steps: int
    batch_size: int
    """Rollouts a step."""
    time_limit_s: float
    """Time limit, seconds from launch."""
    grace_s: float
    """Seconds between the request to end and the kill; longer than the engine's own clean-up."""
    exclusive_cpu: bool
    """True when the run needs the processor for itself: two torch processes on a CPU nearly stop each other."""
    gpus: tuple[int | str, ...] = ()
    """By index; a slice (MIG) by its UUID."""
    ports: dict[str, int] = Field(default_factory=dict)
    precision: str
    attention: str
    threads: int | None = None
    estimate_s: float | None = None
    """Expected seconds from launch to end, `None` when unknown."""
    wandb_user: str | None = None
    """W&B account that the run must report to, `*` for any, `None` for none; a launch asks whose the key is."""
    notes: tuple[str, ...] = ()
    """What the reader should know before starting, one sentence each."""
    changes: tuple[str, ...] | None = None
    """What was set otherwise than in the preset, as `seed 0 → 7`; `None` when unknown. Not part of the fingerprint."""
    recording: str | None = None
    """What is played back instead of a training; such a run leaves no weights. `None` for a training."""
    fingerprint: str
    """Hash of everything that decides the outcome; equal fingerprints are the same plan."""


# -------------------------------------------------------------------------------------------------- a run, on disk


class State(StrEnum):
    """States of a run. `interrupted` is found at a look and never written."""

    PLANNED = "planned"
    STARTING = "starting"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"
    INTERRUPTED = "interrupted"

    @property
    def is_success(self) -> bool:
        return self is State.SUCCEEDED

    @property
    def is_over(self) -> bool:
        return self in {State.SUCCEEDED, State.FAILED, State.STOPPED, State.INTERRUPTED}


class StoppedBy(StrEnum):
    """Who ended a run before its last step."""

    USER = "user"
    TIME_LIMIT = "time cap"  # as stored runs have it; shown as "the time limit"
    SIGNAL = "signal"


class ProcessIdentity(Record):
    """Names one process for good: a pid alone is reused."""

    pid: int
    start_time: float
    """Seconds from boot on Linux, because the clock may be set meanwhile; seconds since the epoch elsewhere."""
    host: str
    boot_id: str
    """Changes with every boot of the host."""


class ComponentStatus(Record):
    """One started process of a run and how it ended."""

    name: str
    identity: ProcessIdentity | None = None
    exit_code: int | None = None
    """None while it lives; negative: ended by that signal, as in `subprocess`."""


class RunRecord(Record):
    """The content of `run.json`. The supervisor alone writes it, atomically.

    As read, `name` and `plan.directory` are those of the directory that holds it.
    """

    schema_version: int = SCHEMA_VERSION
    name: str
    made_in: Path | None = Field(None, exclude=True)
    """Where the run was made, when this is a copy or was moved; found at a look and never written."""
    plan: Plan
    state: State
    stopped_by: StoppedBy | None = None
    reason: str | None = None
    """One sentence for the reader when the run failed or was stopped."""
    failed_component: str | None = None
    attempt: int = 1
    """1 for the first launch, one more for each resume."""
    mark: str | None = None
    """Value of `RLGUIDE_RUN` in the environment of every process of the run; nobody else's."""
    supervisor: ProcessIdentity | None = None
    components: tuple[ComponentStatus, ...] = ()
    family: dict[int, float] = Field(default_factory=dict, exclude=True)
    """Processes by pid, as an earlier version named them: no reason to signal anybody, and no longer written."""
    created_at: str
    """Wall-clock time of the launch, ISO 8601 with offset; for people, never for arithmetic."""
    elapsed_s: float = 0.0
    """Seconds of this attempt so far, or in all when it is over, from a monotonic clock."""
    ready_s: float | None = None
    """Seconds from launch to the first evidence of training (the first step)."""


class StepRecord(Measured):
    """One line of `steps.jsonl`: what is known of one training step. Absent is `None`, never 0."""

    step: int
    """The engine's own number. The guide's release of prime-rl and our trl engine count from 0."""
    completed_updates: int
    """Weight updates done once this step is over."""
    attempt: int = 1
    elapsed_s: float | None = None
    """Seconds from the start of the attempt to the end of the step."""
    seconds: float | None = None
    """Duration of the step; with several components, the trainer's, which waits for the batch."""
    sampling_s: float | None = None
    """Seconds of the orchestrator for the batch: waiting for weights, sampling and scoring."""
    reward: float | None = None
    """Mean reward of the batch, 0 to 1, of the policy before this step's update."""
    reward_std: float | None = None
    """Standard deviation over the rollouts of the batch."""
    right_form: float | None = None
    """Share of completions, 0 to 1, that hold an answer between the tags."""
    degenerate_groups: float | None = None
    """Share of groups, 0 to 1, in which all rewards are equal."""
    reward_errors: int | None = None
    """Rollouts whose reward could not be computed."""
    completion_tokens: float | None = None
    """Mean completion length in tokens."""
    sequence_tokens: float | None = None
    """Mean length of prompt and completion together, in tokens."""
    truncated: float | None = None
    """Share of completions, 0 to 1, cut at `max_completion_tokens`."""
    loss: float | None = None
    entropy: float | None = None
    """Nats a token."""
    grad_norm: float | None = None
    lr: float | None = None
    tokens_per_s: float | None = None
    mismatch_kl: float | None = None
    """Only engines with a separate inference server have it."""
    off_policy_level: float | None = None
    """Updates between the policy that sampled and the one that is updated, the most in the batch."""
    peak_memory_gib: float | None = None
    mfu: float | None = None
    """Model FLOPs utilisation, percent."""


class RunSummary(Record):
    """One line of a list of runs."""

    name: str
    directory: Path
    state: State | None
    """As found at this look; `None` when the record cannot be read."""
    problem: str | None = None
    """Why it cannot be read, or that the run is a copy."""
    engine: str | None = None
    created_at: str | None = None
    age_s: float | None = None
    """Seconds since the first launch, as found at this look by the wall clock."""
    elapsed_s: float | None = None
    completed_updates: int = 0
    max_steps: int | None = None
    reward_first: float | None = None
    reward_last: float | None = None


class Rollout(Measured):
    """One prompt → completion → reward of a training step."""

    step: int
    text: str
    """The text to reverse."""
    completion: str
    reward: float
    advantage: float | None = None


# ---------------------------------------------------------------------------------------------------------- checks


class Status(StrEnum):
    """Outcome of a check."""

    PASS = "pass"
    WARN = "warn"
    FAIL = "fail"
    SKIP = "skip"


class Check(Record):
    """One prerequisite, tested."""

    id: str
    title: str
    status: Status
    seen: str
    wanted: str
    fix: str | None = None
    seconds: float = 0.0


class MachineReport(Record):
    """What a machine offers an engine: every check, and one verdict."""

    engine: str
    checks: tuple[Check, ...]
    verdict: str
    """One or two sentences for the reader."""

    @property
    def status(self) -> Status:
        """The worst of the checks; a skipped one does not count."""
        found = {check.status for check in self.checks}
        return next((status for status in (Status.FAIL, Status.WARN) if status in found), Status.PASS)
