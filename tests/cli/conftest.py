"""Running the program in a process of its own."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

COMMAND = [sys.executable, "-m", "omni_cli"]
Start = Callable[..., "subprocess.Popen[str]"]


def omni_gen(*args: str | Path, **options: Any) -> "subprocess.CompletedProcess[str]":
    """Run the program to its end, with these options of `subprocess.run`."""
    return subprocess.run(
        [*COMMAND, *map(str, args)], capture_output=True, text=True, timeout=300, check=False, **options
    )


@pytest.fixture
def start() -> Iterator[Start]:
    """Return a function that starts the program in the background; kill what is left at the end."""
    processes: list[subprocess.Popen[str]] = []

    def start(*args: str | Path) -> "subprocess.Popen[str]":
        pipe = subprocess.PIPE
        command = [*COMMAND, *map(str, args)]
        processes.append(subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, bufsize=1))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        with process:
            pass


def manifest_rows(folder: Path) -> list[dict[str, Any]]:
    """Read the rows of the manifest in `folder`."""
    return [json.loads(line) for line in (folder / "manifest.jsonl").read_text(encoding="utf-8").splitlines()]
