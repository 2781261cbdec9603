"""A torch that says of itself what a test wants, found by this Python before the one that is installed."""

import sys
from pathlib import Path

import pytest

FOR_CUDA_12_8 = "__version__ = '2.9'\ncuda: Optional[str] = '12.8'\n"
FOR_PROCESSORS = "__version__ = '2.9+cpu'\ncuda: Optional[str] = None\n"


def torch_says(folder: Path, version: str | bytes, patch: pytest.MonkeyPatch) -> Path:
    """From now on torch is in `folder`, with this in its `version.py`; children of this Python have their own."""
    place = folder / "torch"
    place.mkdir(parents=True, exist_ok=True)
    (place / "__init__.py").touch()
    (place / "version.py").write_bytes(version if isinstance(version, bytes) else version.encode())
    patch.syspath_prepend(str(folder))
    patch.delitem(sys.modules, "torch", raising=False)
    return place
