"""What a newcomer cannot be expected to know is explained in the glossary, once it stands on a page or in a message."""

import ast
import re
from pathlib import Path

import nbformat
import pytest
from test_docs import ROOT, glossary

from rlguide.paths import PACKAGE

TECHNICAL = {
    "affinity": "affinity", "attention": "attention", "checkout": "checkout", "cgroup": "control group",
    "compute capability": "compute capability", "constraints": "constraints", "control groups?": "control group",
    "CUDA": "CUDA", "driver": "driver", "dry.run": "dry run", "extra": "extra", "flash.attn": "flash-attn",
    "GPUs?": "GPU", "gradient norm": "gradient norm", "Hugging Face token": "Hugging Face token",
    "lock file": "lock file", "loopback": "loopback", "MIG": "slice", "NVML": "NVML",
    "ports?": "port", "prime-rl": "prime-rl", "proxy": "proxy",
    "release": "release", "resampled": "resampling", "revision": "revision", "sdpa": "sdpa", "slices?": "slice",
    "torch": "torch", "PyTorch": "torch", "TRL": "TRL",
    "uv": "uv", "verifiers": "verifiers", "vf-eval": "verifiers", "virtual environment": "virtual environment",
    "W&B": "W&B", "Weights & Biases": "W&B", "wheel": "wheel",
}  # fmt: skip
"""Pattern of a word → the entry that explains it."""


def pages() -> str:
    """Everything that a reader is shown: documents, notebooks, and the texts in the code."""
    documents = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    notebooks = (nbformat.read(path, as_version=4) for path in sorted((ROOT / "notebooks").glob("*.ipynb")))
    modules = (ast.walk(ast.parse(path.read_text(encoding="utf-8"))) for path in PACKAGE.rglob("*.py"))
    told = [node.value for nodes in modules for node in nodes if isinstance(node, ast.Constant)]
    return "\n".join(
        [path.read_text(encoding="utf-8") for path in documents]
        + [cell.source for notebook in notebooks for cell in notebook.cells]
        + [text for text in told if isinstance(text, str)]
    )


def test_technical_words_that_readers_meet_are_explained():
    met = pages()

    assert [word for word in TECHNICAL if not re.search(rf"\b{word}\b", met)] == []
    assert set(TECHNICAL.values()) - set(glossary()) == set()


@pytest.mark.parametrize(
    ("entry", "also"),
    [
        ("slice", "MIG"),
        ("control group", "cgroup"),
        ("torch", "PyTorch"),
        ("verifiers", "vf-eval"),
        ("resampling", "bootstrap"),
        ("revision", "commit"),
    ],
)
def test_an_entry_has_the_other_name_under_which_a_reader_may_look(entry: str, also: str):
    assert also in glossary()[entry]


def test_an_anchor_is_the_entry_in_small_letters():
    lines = Path(ROOT / "GLOSSARY.md").read_text(encoding="utf-8").splitlines()
    rows = [re.match(r'- <a id="(.+?)"></a>\*\*(.+?)\*\*', line) for line in lines if line.startswith("- ")]

    assert [row[1] for row in rows] == [re.sub(r"[^\w-]", "", row[2].lower().replace(" ", "-")) for row in rows]
