"""The run configuration: one typed model in the guide's own vocabulary, its presets, and its TOML form.

Precedence, lowest first: preset, file, overrides (the form, papermill parameters or the command line).
Nothing here knows an engine; each engine translates a `RunConfig` into its own dialect.
"""

import os
import shlex
import shutil
import tomllib
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from tomlkit.exceptions import TOMLKitError

from rlguide.errors import ConfigError
from rlguide.files import write_atomically
from rlguide.paths import RunFiles, outputs_root
from rlguide.records import Parameters
from rlguide.toml_form import edited_toml, explained_toml
from rlguide.view.written import as_toml
from rlguide.wanted import explained

TINY = "tiny-qwen3"
"""`model.name` of the warm start that ships with rlguide."""


class Section(BaseModel):
    """A table of the file. Values are never converted: `"20"` or `2.5` is not a whole number."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True)


class Model(Section):
    name: str = TINY
    """Warm start: `tiny-qwen3` (ships with rlguide), a folder in Hugging Face format, or a Hub name."""


class Wandb(Section):
    mode: Literal["off", "offline", "online"] = "off"
    """Weights & Biases logging: `off`, `offline` (files only), or `online` (needs your own account)."""
    expected_user: str | None = Field(None, min_length=1, examples=["ada"])
    """W&B account that an `online` run must report to; with another one's key it does not start. Unset, any."""
    project: str = "reverse-text"
    """W&B project that gets the run."""
    name: str | None = Field(None, min_length=1, examples=["my-run"])
    """Name of the run in W&B; unset, `run_name`."""


class TrainSampling(Section):
    max_completion_tokens: int = Field(128, ge=1)
    """Longest completion, tokens; longer ones are cut and lose their closing tag."""
    temperature: float = Field(1.0, ge=0.01, le=10)
    """Sampling temperature during training; 1 samples the policy as it is."""


class EnvironmentArguments(Section):
    dataset: Literal["rlguide", "hub"] | None = Field(None, examples=["hub"])
    """Training texts: `rlguide` (frozen, ship with the package) or `hub` (`PrimeIntellect/Reverse-Text-RL`, the run
    guide's). Unset, `hub` for prime-rl with another policy than the tiny one, else `rlguide`."""


class Environment(Section):
    id: Literal["reverse-text"] = "reverse-text"
    """Environment that makes prompts and scores completions."""
    args: EnvironmentArguments = EnvironmentArguments()


class Train(Section):
    sampling: TrainSampling = TrainSampling()
    env: list[Environment] = Field([Environment()], min_length=1, max_length=1)


class Orchestrator(Section):
    batch_size: int = Field(128, ge=2, le=1_000_000)
    """Rollouts a step: prompts × group size."""
    rollouts_per_example: int = Field(16, ge=2)
    """Group size: rollouts of one prompt, compared with each other."""
    train: Train = Train()

    @model_validator(mode="after")
    def _batch_is_whole_groups(self) -> "Orchestrator":
        batch, group = self.batch_size, self.rollouts_per_example
        if batch % group:
            near = sorted({max(1, batch // group) * group, (batch // group + 1) * group})
            raise ValueError(
                f"batch_size {batch} is not divisible by rollouts_per_example {group}; "
                f"nearest valid batch_size: {' or '.join(map(str, near))}"
            )
        return self


class Optim(Section):
    lr: float = Field(3e-4, gt=0, le=1)
    """Learning rate, constant over the run."""


class TrainerModel(Section):
    attn: Literal["flash_attention_2", "flash_attention_3", "sdpa"] | None = Field(None, examples=["sdpa"])
    """Attention of prime-rl's trainer; unset, its own choice, `flash_attention_2`."""


class Trainer(Section):
    model: TrainerModel = TrainerModel()
    optim: Optim = Optim()


class Checkpoints(Section):
    interval: int | None = Field(None, ge=1, examples=[5])
    """Steps between checkpoints; unset, one checkpoint at the end."""


class Inference(Section):
    port: int = Field(8000, ge=1, le=65535)
    """Port of the engine's own inference server, where it has one."""
    host: str = Field("127.0.0.1", min_length=1)
    """Address where that server listens: at `127.0.0.1` this machine alone can reach it, at `0.0.0.0`, as in the run
    guide, other machines can too."""
    gpu_memory_utilization: float | None = Field(None, gt=0, le=1, examples=[0.5])
    """Share of a GPU's memory that prime-rl's inference server takes; unset, its own choice, 0.9."""


class PrimeRl(Section):
    checkout: str | None = Field(None, min_length=1, examples=["~/prime-rl"])
    """Folder of prime-rl's checkout; unset, `$RLGUIDE_PRIME_RL`, else `~/prime-rl`."""


class Replay(Section):
    speed: float = Field(10, gt=0, le=1000)
    """How many times as fast as it was recorded the `replay` engine plays a recording."""


class EvaluationSettings(Section):
    num_tasks: int = Field(40, ge=2, le=256)
    """Held-out texts to evaluate on, at most the 256 that there are."""
    rollouts_per_task: int = Field(3, ge=1, le=1000)
    """Completions a text."""
    max_tokens: int = Field(1024, ge=1)
    """Longest completion in an evaluation, tokens."""
    temperature: float = Field(1.0, ge=0, le=10)
    """Sampling temperature in an evaluation; 0 is greedy."""
    threshold: float = Field(0.5, ge=0, le=1)
    """Reward from which a completion counts as passed."""


class RunConfig(Section):
    """Everything that is asked of a run."""

    preset: Literal["tiny", "guide"] = "tiny"
    """Starting point: `tiny` trains in minutes without a GPU, `guide` is the run guide's own experiment."""
    engine: Literal["auto", "trl", "prime-rl", "replay"] = "auto"
    """Training framework; `auto` chooses by GPUs and by what is installed."""
    run_name: str = Field("reverse-text", pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")
    """Folder of the run below the outputs folder: letters, digits, `.`, `_` and `-`."""
    max_steps: int = Field(20, ge=1, le=1_000_000)
    """Training steps; each is one weight update."""
    seq_len: int = Field(2048, ge=16, le=1_000_000)
    """Longest prompt and completion together, tokens."""
    seed: int = Field(0, ge=0, lt=2**32)
    """Decides prompts and samples; with the trl engine, the same seed on the same machine gives the same curve."""
    time_limit_s: float = Field(600, ge=1, le=31_536_000)
    """Time limit of a run, seconds; the run is saved and stopped when it is reached."""
    gpus: list[int] | None = Field(None, examples=[[0, 1]])
    """GPUs to use, by index; unset, free ones are chosen."""
    model: Model = Model()
    wandb: Wandb = Wandb()
    orchestrator: Orchestrator = Orchestrator()
    trainer: Trainer = Trainer()
    ckpt: Checkpoints = Checkpoints()
    inference: Inference = Inference()
    prime_rl: PrimeRl = PrimeRl()
    replay: Replay = Replay()
    evaluation: EvaluationSettings = EvaluationSettings()

    @model_validator(mode="after")
    def _lengths_fit(self) -> "RunConfig":
        for key, tokens in (
            ("orchestrator.train.sampling.max_completion_tokens", self.max_completion_tokens),
            ("evaluation.max_tokens", self.evaluation.max_tokens),
        ):
            if tokens >= self.seq_len:
                raise ValueError(f"{key} {tokens} leaves no room for a prompt in seq_len {self.seq_len}")
        gpus = self.gpus or []
        if self.gpus == [] or len(set(gpus)) != len(gpus) or any(gpu < 0 for gpu in gpus):
            raise ValueError(f"gpus {self.gpus} must be different indices from 0 up, or left out")
        return self

    @property
    def max_completion_tokens(self) -> int:
        return self.orchestrator.train.sampling.max_completion_tokens

    @property
    def wandb_name(self) -> str:
        return self.wandb.name or self.run_name

    @property
    def environment(self) -> Environment:
        return self.orchestrator.train.env[0]

    def replace(self, changes: Mapping[str, Any]) -> "RunConfig":
        """A copy with dotted keys or parameter names changed, for example `{"trainer.optim.lr": 1e-4}`.

        Raises `ConfigError` for an unknown key or a value that does not fit.
        """
        return _validated(_with_changes(self.model_dump(exclude_none=True), changes), "the changes")

    def settings(self, other: "RunConfig | None" = None) -> list[tuple[str, Any, Any]]:
        """Rows (dotted key, value in `other`, value here) of every key; `other` defaults to the preset."""
        base = _flat((other or from_preset(self.preset)).model_dump())
        here = _flat(self.model_dump())
        return [(key, base.get(key), here.get(key)) for key in base | here]

    def difference(self, other: "RunConfig | None" = None) -> list[tuple[str, Any, Any]]:
        """The rows of `settings` where the two differ."""
        return [(key, there, here) for key, there, here in self.settings(other) if there != here]

    def to_toml(self) -> str:
        """The whole configuration as a TOML file, every key explained; what is not set stands there as a comment."""
        return explained_toml(self)


PARAMETERS = {name: name for name in Parameters.model_fields if name != "sentence"} | {"wandb_mode": "wandb.mode"}
"""Papermill and command-line parameters → dotted keys."""

PRESETS: dict[str, dict[str, Any]] = {
    "tiny": {},
    "guide": {
        "preset": "guide",
        "model.name": "PrimeIntellect/Qwen3-0.6B-Reverse-Text-SFT",
        "inference.host": "0.0.0.0",
        "trainer.optim.lr": 3e-6,
    },
}
"""Preset → what differs from the defaults above."""


def from_preset(name: Any) -> RunConfig:
    """The configuration of a preset. Raises `ConfigError` for an unknown name."""
    if not isinstance(name, str) or name not in PRESETS:
        raise ConfigError(f"unknown preset {name!r}", hint=f"presets: {', '.join(PRESETS)}")
    return _validated(_with_changes({}, PRESETS[name]), f"preset {name}")


def load_config(source: str | Path | Parameters = "tiny", overrides: Mapping[str, Any] | None = None) -> RunConfig:
    """Read a configuration from a preset's name, a TOML file, a run directory, or the name of a run.

    `overrides` maps dotted keys or parameter names to values; `None` means "as configured". Parameters of a notebook
    change what is configured for the run that they name, or its preset where nothing is.
    Raises `ConfigError` with the key and the value seen.
    """
    changes = {key: value for key, value in (overrides or {}).items() if value is not None}
    if isinstance(source, Parameters):
        changes = {key: value for key, value in source.given.items() if key in PARAMETERS} | changes
        source = _configured(changes)
    if str(source) in PRESETS:
        return from_preset(changes.get("preset", str(source))).replace(changes)
    path = find_config(Path(source))
    document = _read_toml(path)
    preset = changes.get("preset", document.get("preset", "tiny"))
    merged = _merge(from_preset(preset).model_dump(exclude_none=True), document)
    return _validated(_with_changes(merged, changes), str(path))


def _configured(changes: Mapping[str, Any]) -> str | Path:
    """Where the run that `changes` name is configured: its own file, or the preset, also when the file has another."""
    preset = changes.get("preset", "tiny")
    path = RunFiles(outputs_root() / changes.get("run_name", RunConfig().run_name)).config
    is_of_it = path.is_file() and ("preset" not in changes or _read_toml(path).get("preset", "tiny") == preset)
    return path if is_of_it else preset


def find_config(source: Path) -> Path:
    """The configuration file that `source` names: itself, or `config.toml` of a run."""
    folders = () if "\0" in str(source) else (source, outputs_root() / source)
    for candidate in (source, *(RunFiles(folder).config for folder in folders)):
        if os.path.isfile(candidate):  # noqa: PTH113 - unlike Path.is_file it is False, no error, for an impossible name
            return candidate.resolve()
    raise ConfigError(
        f"no configuration at {str(source)!r}",
        look=outputs_root(),
        hint=f"give a preset ({', '.join(PRESETS)}), a TOML file, or the name of a run",
    )


def write_config(config: RunConfig, path: Path, *, over: RunConfig | None = None) -> None:
    """Write `config` to `path`, all of it or nothing. An existing file keeps its comments, order and spelling.

    With `over`, a file that holds neither these values nor those of `config` is somebody's work, and left alone.
    Raises `ConfigError` then, and when the file cannot be written, or not be changed without harm.
    """
    if over is not None and path.is_file() and (held := load_config(path.resolve())) not in (over, config):
        edits = (held.difference() or held.difference(config))[:3]
        told = ", ".join(f"{key} = {as_toml(value)}" for key, _, value in edits)
        edit = f"`rlguide config {shlex.quote(str(path))} --set KEY=VALUE --output {shlex.quote(str(path))}`"
        hint = f"{edit} changes single keys and keeps the others; to start anew, remove the file or write to another"
        raise ConfigError(f"a file with other values is there: {told}", look=path, hint=hint)
    text = _edited(config, path) if path.exists() else config.to_toml()
    try:
        write_atomically(path, text)
    except OSError as error:
        raise ConfigError(f"the configuration cannot be written: {error}", look=path) from None


def save_config(config: RunConfig, files: RunFiles, *, before: RunConfig | None = None) -> Path | None:
    """Write the configuration of a run; a file that says the same is left as it stands.

    One with other values than those `before` is somebody's work: a copy of it is kept, and returned.
    Raises `ConfigError` as `write_config` does, and `OSError`.
    """
    kept, held = None, load_config(files.config) if files.config.is_file() else before
    if held not in (config, before):
        files.earlier.mkdir(exist_ok=True)
        names = (files.earlier / f"config-{number}.toml" for number in count(1))
        kept = shutil.copy2(files.config, next(path for path in names if not path.exists()))
    if held != config or not files.config.exists():
        write_config(config, files.config)
    return kept


def _edited(config: RunConfig, path: Path) -> str:
    """The text of the file at `path` with the values of `config`; checked, since TOML can be written in many ways."""
    _read_toml(path)
    try:
        text = edited_toml(path.read_text(encoding="utf-8"), config)
        kept = RunConfig.model_validate(tomllib.loads(text)) == config
    except (TOMLKitError, TypeError, AttributeError, ValueError):  # ValueError: also pydantic's and tomllib's
        kept = False
    if not kept:
        hint = "write to another file; that one will have every key, explained"
        raise ConfigError("this file cannot be changed in place without losing something", look=path, hint=hint)
    return text


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the configuration cannot be read: {error}", look=path) from None
    except (ValueError, RecursionError) as error:  # ValueError: also a number of thousands of digits
        hint = "fix that line, or start from `rlguide config`"
        raise ConfigError(f"not a TOML file: {error}", look=path, hint=hint) from None


def _merge(base: dict[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        both_tables = isinstance(value, Mapping) and isinstance(merged.get(key), dict)
        merged[key] = _merge(merged[key], value) if both_tables else value
    return merged


def _with_changes(data: dict[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    for key, value in changes.items():
        *tables, last = PARAMETERS.get(key, key).split(".")
        nested: dict[str, Any] = {last: value}
        for table in reversed(tables):
            nested = {table: nested}
        data = _merge(data, nested)
    return data


def _flat(data: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in data.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) and value else {f"{prefix}{key}": value}
    return flat


def _validated(data: Mapping[str, Any], origin: str) -> RunConfig:
    try:
        return RunConfig.model_validate(data)
    except ValidationError as error:
        problems = [explained(problem, known_keys()) for problem in error.errors()]
        raise ConfigError("\n".join(problems), look=origin, hint="`rlguide config` shows every key") from None


def known_keys() -> Iterator[str]:
    """Every dotted key of the configuration."""
    return iter(_flat(RunConfig().model_dump()))
