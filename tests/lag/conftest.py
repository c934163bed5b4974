"""The late device, built once per torch and source, for processes that find it on their module path."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
SOURCES = (HERE / "setup.py", HERE / "torch_lag" / "__init__.py", HERE / "torch_lag" / "lag.cpp")

METADATA = "Metadata-Version: 2.1\nName: torch_lag\nVersion: 0.1\n"
ENTRY_POINT = "[torch.backends]\nlag = torch_lag:autoload\n"

Python = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def lag_path(pytestconfig: pytest.Config) -> Path:
    """Return a folder with the installed device; skip the test where it cannot be built."""
    digest = hashlib.sha256(f"{torch.__version__} {sys.version}".encode())
    for source in SOURCES:
        digest.update(source.read_bytes())
    cache = pytestconfig.cache
    assert cache is not None
    folder = Path(cache.mkdir("lag")) / digest.hexdigest()[:16]
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several test processes may come here at once
        if not (folder / "torch_lag-0.1.dist-info").exists():
            _build(folder)
    return folder


def _build(folder: Path) -> None:
    if shutil.which(os.environ.get("CXX", "c++")) is None:
        pytest.skip("the late device needs a C++ compiler")
    command = [sys.executable, "setup.py", "-q", "build_ext", f"--build-lib={folder}", f"--build-temp={folder}/temp"]
    built = subprocess.run(
        command, cwd=HERE, env={**os.environ, "MAX_JOBS": "1"}, capture_output=True, text=True, check=False
    )
    if built.returncode:
        pytest.skip(f"the late device does not compile here: {built.stderr[-500:]}")
    shutil.copy(HERE / "torch_lag" / "__init__.py", folder / "torch_lag")
    info = folder / "torch_lag-0.1.new"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(METADATA)
    (info / "entry_points.txt").write_text(ENTRY_POINT)
    info.rename(folder / "torch_lag-0.1.dist-info")


@pytest.fixture
def python(lag_path: Path) -> Python:
    """Return python(*arguments, LAG_...=value): a Python process that has the device."""
    return python_with(lag_path)


def python_with(lag_path: Path) -> Python:
    """Return the function of the fixture `python`."""

    def run(*arguments: Any, **variables: Any) -> "subprocess.CompletedProcess[str]":
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join((str(lag_path), str(ROOT))),
            "OMP_NUM_THREADS": "1",
            "LAG_DELAY_US": "20",
            **{name: str(value) for name, value in variables.items()},
        }
        command = [sys.executable, *map(str, arguments)]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)

    return run
