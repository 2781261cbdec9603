"""What uv, git and the Hub print when they fail is put into words, with one thing to do."""

import pytest

from rlguide.troubles import UNKNOWN, explained

NETWORK = """error: Request failed after 3 retries in 8.2s
  cause: Failed to fetch: https://download.example/torch-2.11.whl
  cause: error sending request for url (https://download.example/torch-2.11.whl)
  cause: client error (Connect)
  cause: dns error
  cause: failed to lookup address information: Name or service not known"""
PYTHON = """error: Request failed after 3 retries in 8.2s
  cause: Failed to download `https://github.com/astral-sh/python-build-standalone/releases/download/x.tar.gz`
  cause: dns error"""
OLD_LOCK = """error: Failed to parse `uv.lock`
  Caused by: TOML parse error at line 13, column 1"""
INNOCENT = "Downloading nvidia-cuda-nvcc-cu12 (401.2MiB)\n + proxy-tools==0.1\nerror: something new"
OTHER = "error: HTTP status client error (404 Not Found) for url (https://hub.example/@aa/mini_swe_agent_plus-0.2.17-py3-none-any.whl)"


@pytest.mark.parametrize(
    ("output", "told"),
    [
        ("error: failed to write to file\n  Caused by: No space left on device (os error 28)", "the disk is full"),
        ("cp: error writing: Disk quota exceeded", "the disk is full"),
        ("error: Read-only file system (os error 30)", "may not be written"),
        ("error: failed to create directory `x`: Permission denied (os error 13)", "may not be written"),
        (OLD_LOCK, "cannot read the lock file"),
        ("error: Required uv version `>=0.11.1` does not match the running version", "cannot read the lock file"),
        ("  cause: Hash mismatch for `torch==2.11`", "another file than the lock file names"),
        ("error: directory `x` cannot be used because no `pyvenv.cfg` file was found", "no virtual environment"),
        ("error: failed to create directory `x/.venv`: File exists (os error 17)", "no virtual environment"),
        ("error: The current Python platform is not compatible with the lockfile's supported environments", "Linux"),
        ("error: interpreter resolved to 3.11, incompatible with the project's Python requirement", "Python 3.12"),
        ("error: No interpreter found for Python 3.12 in search path", "Python 3.12"),
        (PYTHON, "Python 3.12"),
        ("  × Failed to build `flash-attn==2.8.3`\n  RuntimeError: CUDA_HOME is not set", "flash-attn"),
        ("  × No solution found when resolving dependencies", "do not fit together"),
        ("fatal: remote error: upload-pack: not our ref 024abb", "does not have that revision"),
        ("fatal: 'x' does not appear to be a git repository", "does not have that revision"),
        ("fatal: unable to access 'https://github.com/x/': Could not resolve host: github.com", "not reached"),
        ("fatal: unable to access 'https://github.com/x/': Failed to connect to github.com port 443", "not reached"),
        ("  cause: tcp connect error\n  cause: Connection refused (os error 111)", "not reached"),
        ("error: Failed to fetch\n  cause: operation timed out", "not reached"),
        (NETWORK, "not reached"),
        ("error: tunnel error: unsuccessful", "not reached"),
        ("nvcc was not found", "flash-attn"),
        ("huggingface_hub.errors.RepositoryNotFoundError: 401 Client Error", "the Hub does not show this policy"),
        ("huggingface_hub.errors.OfflineModeIsEnabled: Cannot reach x: offline mode is enabled", "HF_HUB_OFFLINE"),
    ],
)
def test_a_failure_is_told_in_plain_words(output: str, told: str):
    trouble = explained(f"some lines\n{output}\n", {})

    assert told in trouble.told
    assert trouble.hint


def test_a_package_that_is_not_to_be_had_is_named_and_whether_it_is_needed():
    needed, other = explained(OTHER, {}), explained(OTHER, {"mini-swe-agent-plus": "envs"})

    assert needed.told.startswith("the package mini-swe-agent-plus is not to be had (404 at https://hub.example")
    assert "it is needed" in needed.told
    assert "not needed here, only for the extra 'envs'" in other.told
    assert "--no-install-package mini-swe-agent-plus" in other.hint


def test_a_server_that_refuses_in_words_of_its_own_is_told_too():
    output = "HTTP status server error (501 Unsupported method ('HEAD')) for url (http://127.0.0.1:1/x-1.whl)"

    assert explained(output, {}).told.startswith("the package x is not to be had (501 at http://127.0.0.1:1/x-1.whl)")


@pytest.mark.parametrize("output", ["", "\0\n", "Segmentation fault", "x" * 100_000, INNOCENT])
def test_what_is_not_understood_is_not_guessed_at(output: str):
    assert explained(output, {}) == UNKNOWN
