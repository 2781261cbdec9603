"""The workflows of continuous integration can be read, and what they call is there."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

from rlguide.cli import app

ROOT = Path(__file__).resolve().parent.parent
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
TARGETS = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))
VARIABLES = set(re.findall(r"^([A-Z]+) \?=", MAKEFILE, re.MULTILINE))

each_workflow = pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)


def workflow(name: str) -> dict[Any, Any]:
    """A workflow; its key `on` is the truth value, for YAML 1.1 reads it so."""
    return yaml.safe_load((ROOT / ".github" / "workflows" / name).read_text(encoding="utf-8"))


def jobs(name: str) -> list[dict[str, Any]]:
    return list(workflow(name)["jobs"].values())


def commands(name: str) -> list[str]:
    return [step["run"] for job in jobs(name) for step in job["steps"] if "run" in step]


def uploads(name: str) -> list[dict[str, Any]]:
    return [step for job in jobs(name) for step in job["steps"] if "upload-artifact" in step.get("uses", "")]


def test_there_are_two_workflows():
    assert [path.name for path in WORKFLOWS] == ["cpu.yml", "gpu.yml"]


@each_workflow
def test_every_command_is_a_target_of_the_makefile_with_variables_that_it_has(path: Path):
    for command in commands(path.name):
        program, target, *rest = command.split()
        assert (program, target in TARGETS) == ("make", True), command
        assert set(re.findall(r"\b([A-Z]+)=", " ".join(rest))) <= VARIABLES
        options = get_command(app).commands.get(target)
        for option in re.findall(r"(?<!\S|-)\"?(--[a-z][a-z-]*)", " ".join(rest)):
            assert option in {name for parameter in options.params for name in parameter.opts}, command


@each_workflow
def test_jobs_have_a_limit_and_may_only_read(path: Path):
    assert workflow(path.name)["permissions"] == {"contents": "read"}
    assert all(job["timeout-minutes"] <= 90 for job in jobs(path.name))


@each_workflow
def test_no_command_takes_a_value_into_the_shell_that_someone_else_wrote(path: Path):
    assert not [command for command in commands(path.name) if "${{" in command]


@each_workflow
def test_executed_notebooks_and_the_report_are_kept_also_after_a_failure(path: Path):
    (upload,) = uploads(path.name)

    assert upload["if"] == "always()"
    assert upload["with"]["path"].split() == ["outputs/*/notebooks/*.ipynb", "outputs/*/report.html"]


def test_every_push_is_checked_on_a_processor():
    assert "push" in workflow("cpu.yml")[True]
    assert commands("cpu.yml") == ["make lint", "make test", "make tutorial", "make test-core"]


def test_the_light_core_is_tested_on_the_oldest_and_the_newest_python():
    core = workflow("cpu.yml")["jobs"]["core"]

    assert core["strategy"]["matrix"] == {"python": ["3.11", "3.13"]}
    assert core["env"] == {"PYTHON": "python${{ matrix.python }}"}


def test_gpus_are_used_by_hand_one_and_two():
    (job,) = jobs("gpu.yml")

    assert set(workflow("gpu.yml")[True]) == {"workflow_dispatch"}
    assert "self-hosted" in job["runs-on"]
    assert [row["gpus"] for row in job["strategy"]["matrix"]["include"]] == [1, 2]
    assert all((ROOT / job["env"][name]).is_file() for name in ("CONSTRAINTS",))
    assert set(job["env"]) - {"CUDA_VISIBLE_DEVICES", "RUN_NAME"} <= VARIABLES
