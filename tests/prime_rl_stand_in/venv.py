"""A virtual environment with the programs of prime-rl's, and modules that can be imported in place of the real ones.

Made by hand in a few milliseconds: a link to a Python, `pyvenv.cfg`, and small files.
"""

import sys
from collections.abc import Collection
from pathlib import Path

PROGRAMS = {
    "rl": "launcher", "inference": "inference", "orchestrator": "orchestrator", "torchrun": "torchrun",
    "trainer": "trainer", "vf-eval": "vf_eval", "uv": "uv",
}  # fmt: skip
"""Name of a program → module of this package."""
TRAINER_MODULE = "prime_rl/trainer/rl/train.py"
TORCH_VERSION = '__version__ = "2.11.0+cu128"\ncuda = "12.8"\nhip = None\n'
MODEL = "from prime_rl_stand_in.model import *\n"
MODULES = {
    "flash_attn": ("2.8.3", ""),
    "ring_flash_attn": ("0.1.8", "import flash_attn\n"),
    "verifiers": ("0.1.14", ""),
    "vllm": ("0.20.2", ""),
    "transformers": ("5.6.2", MODEL),
    "pynvml": ("12.575.51", ""),
    "torch": ("2.11.0+cu128", MODEL),
    "reverse_text": ("0.1.5", "from prime_rl_stand_in.environment import load_environment as load_environment\n"),
}
"""Name of a module that can be imported → its version, and its code besides that."""
DISTRIBUTIONS = {"pynvml": "nvidia-ml-py"}
SCRIPT = """#!/bin/sh
'''exec' "{python}" "$0" "$@"
' '''
import sys
from prime_rl_stand_in.{module} import main
sys.exit(main())
"""
"""The first lines start Python also where the path is too long for `#!`, or has a blank in it."""


def make_venv(checkout: Path, *, python: Path | str = sys.executable, without: Collection[str] = ()) -> Path:
    """The folder `.venv` of a checkout, without the modules in `without`. What is there already is written anew."""
    python = Path(python)
    folder = checkout / ".venv"
    site = folder / "lib" / f"python{version_of(python)}" / "site-packages"
    (folder / "bin").mkdir(parents=True, exist_ok=True)
    site.mkdir(parents=True, exist_ok=True)
    base = _base_of(python)
    (folder / "pyvenv.cfg").write_text(f"home = {base.parent}\ninclude-system-site-packages = false\n")
    for name in ("python", "python3"):
        link = folder / "bin" / name
        link.unlink(missing_ok=True)
        link.symlink_to(base)
    for name, module in PROGRAMS.items():
        _write_program(folder / "bin" / name, module, python=folder / "bin" / "python")
    (site / "prime_rl.pth").write_text(f"{checkout / 'src'}\n")
    ours = site / "prime_rl_stand_in"
    ours.unlink(missing_ok=True)
    ours.symlink_to(Path(__file__).resolve().parent)
    for name in MODULES:
        if name not in without:
            _write_module(site, name)
    return folder


def _write_program(path: Path, module: str, *, python: Path) -> None:
    path.write_text(SCRIPT.format(python=python, module=module))
    path.chmod(0o755)


def _write_module(site: Path, name: str) -> None:
    """One module with its metadata, as an installer leaves them. Modules of one file stay one file."""
    version, code = MODULES[name]
    text = f'"""A stand-in for {name}."""\n\n__version__ = "{version}"\n{code}'
    if name == "torch":
        (site / name).mkdir(exist_ok=True)
        (site / name / "version.py").write_text(TORCH_VERSION)
        (site / name / "__init__.py").write_text(text)
    else:
        (site / f"{name}.py").write_text(text)
    project = DISTRIBUTIONS.get(name, name.replace("_", "-"))
    metadata = site / f"{project.replace('-', '_')}-{version}.dist-info"
    metadata.mkdir(exist_ok=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project}\nVersion: {version}\n")


def version_of(python: Path) -> str:
    """Major and minor version of a Python."""
    if python == Path(sys.executable):
        return ".".join(map(str, sys.version_info[:2]))
    import subprocess  # only here: every program loads this module, and starts faster without

    code = "import sys; print('.'.join(map(str, sys.version_info[:2])))"
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def _base_of(python: Path) -> Path:
    """The interpreter behind a virtual environment's: a link to a link would be taken for that environment."""
    return Path(sys._base_executable if python == Path(sys.executable) else python).resolve()
