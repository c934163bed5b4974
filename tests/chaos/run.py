"""A real `omni-gen run`, observed from outside.

test thread ── start, signals, wait ──> process ── events on stderr ──> reader thread ──> fields of Run, under one
condition
"""

import json
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omni_cli.config import OUTPUT_TIMEOUT_VARIABLE
from tests.chaos.hanging import VARIABLE
from tests.chaos.places import namespace, with_mounts
from tests.chaos.processes import Family, descriptors

NULL = "omni_cli.worker.null:NullRunner"
HANGING = "tests.chaos.hanging:HangingRunner"

PATIENCE_S = 120.0
"""Seconds after which a run that hangs fails its test."""


@dataclass
class Place:
    """The folders of one test: the output folder, and those that every run must leave empty."""

    root: Path
    family: Family = field(default_factory=Family)
    hang_timeout: float | None = None
    """Seconds that runs wait for an output, None for their default."""

    def __post_init__(self) -> None:
        """Create the folders that must stay empty, and the one for faults of HANGING."""
        for folder in (self.shm, self.temp, self.hangs):
            folder.mkdir()

    @property
    def out(self) -> Path:
        """The output folder."""
        return self.root / "out"

    @property
    def shm(self) -> Path:
        """The folder that runs see as /dev/shm, where mounting is allowed."""
        return self.root / "shm"

    @property
    def temp(self) -> Path:
        """The runs' folder for temporary files."""
        return self.root / "tmp"

    @property
    def hangs(self) -> Path:
        """The folder of the files that ask HANGING for a fault."""
        return self.root / "hangs"

    def ask_to_hang(self, fault: str) -> None:
        """Let the next forward of HANGING, or its output, hang."""
        (self.hangs / fault).touch()

    def is_asked_to_hang(self, fault: str) -> bool:
        """Return whether that is still to happen."""
        return (self.hangs / fault).exists()

    def environment(self) -> dict[str, str]:
        """Return the environment of a run."""
        timeout = {} if self.hang_timeout is None else {OUTPUT_TIMEOUT_VARIABLE: f"{self.hang_timeout:g}"}
        return {**self.family.environment(), "TMPDIR": str(self.temp), VARIABLE: str(self.hangs), **timeout}

    def prompts(self, rows: Sequence[dict[str, Any]]) -> Path:
        """Write `rows` as a prompt file and return its path."""
        path = self.root / "prompts.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return path

    def command(self, prompts: Path, *flags: str, runner: str = NULL) -> list[str]:
        """Return the command that renders `prompts` without a model."""
        mounts = with_mounts('mount --bind "$1" /dev/shm', self.shm) if namespace() else ()
        run = [sys.executable, "-m", "omni_cli", "run", str(prompts), "-o", str(self.out), "--runner", runner]
        return [*mounts, *run, "--progress", "json", *flags]

    def check_nothing_left(self, patience: float = PATIENCE_S) -> float:
        """Assert that no process, shared memory or temporary file is left; return the seconds waited."""
        waited = self.family.wait_until_gone(patience)
        left = [str(path) for folder in (self.shm, self.temp) for path in folder.rglob("*")]
        assert not left, left
        return waited


class Run:
    """A running `omni-gen run`."""

    def __init__(self, command: Sequence[str], place: Place) -> None:
        """Start the process."""
        self.done: Counter[str] = Counter()
        self.finished = 0
        self.failed: Counter[str] = Counter()
        self.started = False
        self.restarts = 0
        self.forwards = 0
        self.samples: list[int] = []
        self.noise: list[str] = []
        self.changed = threading.Condition()
        self.process = subprocess.Popen(
            command,
            env=place.environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """Process id of the parent."""
        return self.process.pid

    @property
    def over(self) -> bool:
        """True once the process has exited."""
        return self.process.poll() is not None

    def send(self, number: int) -> bool:
        """Send a signal to the parent; return False if it has exited."""
        if self.over:
            return False
        self.process.send_signal(number)
        return True

    def wait_for(self, condition: Callable[[], bool], patience: float) -> bool:
        """Wait until `condition()` holds, the run ends, or `patience` seconds pass; return `condition()`."""
        with self.changed:
            self.changed.wait_for(lambda: condition() or not self._reader.is_alive(), patience)
            return condition()

    def wait(self) -> int:
        """Read stderr to its end and return the exit code, negative for a signal; a run must go on meanwhile."""
        finished = -1
        while self._reader.is_alive() and self.finished > finished:
            finished = self.finished
            self.wait_for(lambda: False, PATIENCE_S)
        code = self.process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        assert not self._reader.is_alive(), "somebody holds the run's stderr"
        return code

    def _read(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as lines:
            for line in lines:
                with self.changed:
                    self._take(line)
                    self.changed.notify_all()
        with self.changed:
            self.changed.notify_all()

    def _take(self, line: str) -> None:
        try:
            event = json.loads(line)
        except ValueError:  # the torn last line of a killed run, or a message of the interpreter
            self.noise.append(line.rstrip())
            return
        match event["event"]:
            case "run_started":
                self.started = True
            case "forward_started":
                self.forwards += 1
            case "note" if "starting it again" in event["text"]:
                self.restarts += 1
            case "request_finished":
                result = event["result"]
                self.finished += 1
                if result["status"] == "done":
                    self.done[result["id"]] += 1
                else:
                    self.failed[(result["error"] or {}).get("kind", result["status"])] += 1
                if (count := descriptors(self.pid)) is not None:
                    self.samples.append(count)


@contextmanager
def running(command: Sequence[str], place: Place) -> Iterator[Run]:
    """Start a run; end all its processes on exit from the `with` block."""
    run = Run(command, place)
    try:
        yield run
    finally:
        if not run.over:
            run.send(signal.SIGCONT)
            run.send(signal.SIGKILL)
        run.process.wait()
        deadline = time.monotonic() + PATIENCE_S
        while place.family.alive() and time.monotonic() < deadline:
            time.sleep(0.05)
