"""The stand-in for `uv`: `--version`, `sync` and `pip install` of one wheel by its address, as uv 0.13.9 does them."""

import argparse
import hashlib
import io
import os
import shutil
import sys
import time
import urllib.error
import urllib.request
import venv
import zipfile
from pathlib import Path

from installer_stand_in import note_call, told, write_program

MODULES = ("flash_attn", "ring_flash_attn", "verifiers", "vllm")
NO_VENV = "error: Project virtual environment directory `{0}` cannot be used because no `pyvenv.cfg` file was found"
HASHES = "error: Failed to download `reverse-text @ {0}`\n  cause: Hash mismatch for `reverse-text @ {0}`"


def main() -> int:
    parser = argparse.ArgumentParser(prog="uv")
    parser.add_argument("--version", action="store_true")
    parser.add_argument("--directory", type=Path, default=Path())
    commands = parser.add_subparsers(dest="command")
    sync = commands.add_parser("sync")
    sync.add_argument("--extra", action="append", default=[])
    sync.add_argument("--frozen", action="store_true")
    sync.add_argument("--inexact", action="store_true")
    pip = commands.add_parser("pip").add_subparsers(dest="command", required=True).add_parser("install")
    pip.add_argument("--python", type=Path, required=True)
    pip.add_argument("--no-deps", action="store_true", required=True)
    pip.add_argument("--reinstall", action="store_true")
    pip.add_argument("wheel")
    asked = parser.parse_args()
    if asked.version:
        print(told()["version"])
        return 0
    note_call("uv")
    name = "sync" if asked.command == "sync" else "pip"
    if why := told()["fails"].get(name):
        return failed(why)
    return synced(asked) if name == "sync" else installed(asked)


def failed(why: str) -> int:
    print(why, file=sys.stderr)
    return 2


def synced(asked: argparse.Namespace) -> int:
    """As the lock file says; without `--inexact` whatever else is there goes."""
    folder = asked.directory.absolute() / os.environ.get("UV_PROJECT_ENVIRONMENT", ".venv")
    if folder.is_file():
        return failed(NO_VENV.format(folder))
    if told()["central"] and "UV_PROJECT_ENVIRONMENT" not in os.environ:
        central = Path(told()["calls"]).with_name("environments")
        central.mkdir()
        shutil.rmtree(folder)
        folder.symlink_to(central)
    if told()["stays"]:
        print("Downloading torch (800.0MiB)", file=sys.stderr, flush=True)
        time.sleep(60)
    cfg = folder / "pyvenv.cfg"
    if cfg.is_file() and f"version = {sys.version.split()[0]}" not in cfg.read_text():
        print(f"Removed virtual environment at: {folder}", file=sys.stderr)
        shutil.rmtree(folder)
    venv.create(folder.resolve(), symlinks=True)
    site = site_packages(folder)
    wanted = [name for name in MODULES if name not in told()["without"]]
    if "flash-attn" not in asked.extra:
        wanted.remove("flash_attn")
    if not asked.inexact:
        for path in [*site.glob("reverse_text*"), *site.glob("flash_attn.py")]:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for name in wanted:
        (site / f"{name}.py").write_text(told()["broken"].get(name, "__version__ = '1.2.3'\n"))
    entry = site / "prime_rl" / "entrypoints"
    entry.mkdir(parents=True, exist_ok=True)
    (entry / "rl.py").write_text("")
    for name in ("rl", "hf"):
        write_program(folder / "bin" / name, name)
    print("Installed 280 packages in 3ms", file=sys.stderr)
    return 0


def installed(asked: argparse.Namespace) -> int:
    """One wheel, checked against the hash in its address; what it says of itself is believed."""
    address, _, sha256 = asked.wheel.partition("#sha256=")
    folder = asked.python.parent.parent
    if not (folder / "pyvenv.cfg").is_file():
        return failed(f"error: No virtual environment or system Python installation found for path `{asked.python}`")
    try:
        local = "://" not in address
        data = Path(address).read_bytes() if local else urllib.request.urlopen(address, timeout=10).read()
    except urllib.error.HTTPError as error:
        return failed(
            f"error: Failed to fetch: {address}\n"
            f"  cause: HTTP status client error ({error.code} {error.reason}) for url ({address})"
        )
    except OSError:
        return failed(f"error: Failed to fetch: {address}\n  cause: tcp connect error\n  cause: Connection refused")
    if sha256 and hashlib.sha256(data).hexdigest() != sha256:
        return failed(HASHES.format(asked.wheel))
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        archive.extractall(site_packages(folder))
    print(f" + reverse-text==0.1.5 (from {address})", file=sys.stderr)
    return 0


def site_packages(folder: Path) -> Path:
    return next(folder.glob("lib/python3*/site-packages"))
