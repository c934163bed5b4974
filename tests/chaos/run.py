"""A real `omni-gen run`, watched from outside.

test thread ── start, signals, wait ──> process ── events on stderr ──> reader thread ──> what is known, under one condition
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

from tests.chaos.places import namespace, with_mounts
from tests.chaos.processes import Family, descriptors

NULL = ("--runner", "omni_cli.worker.null:NullRunner")

PATIENCE_S = 120.0
"""A run that would hang fails the test instead."""


@dataclass
class Place:
    """Where runs of one test are: their output folder, and what they must leave as empty as they found it."""

    root: Path
    family: Family = field(default_factory=Family)

    def __post_init__(self) -> None:
        """Make the folders that must stay empty."""
        for folder in (self.shm, self.temp):
            folder.mkdir()

    @property
    def out(self) -> Path:
        """The output folder."""
        return self.root / "out"

    @property
    def shm(self) -> Path:
        """What the runs see as /dev/shm, where that can be arranged."""
        return self.root / "shm"

    @property
    def temp(self) -> Path:
        """What the runs see as the folder of temporary files."""
        return self.root / "tmp"

    def prompts(self, rows: Sequence[dict[str, Any]]) -> Path:
        """A prompt file."""
        path = self.root / "prompts.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return path

    def command(self, prompts: Path, *flags: str) -> list[str]:
        """A run of `prompts` with the cheap runner."""
        mounts = with_mounts('mount --bind "$1" /dev/shm', self.shm) if namespace() else ()
        run = [sys.executable, "-m", "omni_cli", "run", str(prompts), "-o", str(self.out), *NULL]
        return [*mounts, *run, "--progress", "json", *flags]

    def check_nothing_left(self, patience: float = PATIENCE_S) -> float:
        """No process, no shared memory, no temporary file of a run that has ended; seconds until that was so."""
        waited = self.family.wait_until_gone(patience)
        left = [str(path) for folder in (self.shm, self.temp) for path in folder.rglob("*")]
        assert not left, left
        return waited


class Run:
    """One process."""

    def __init__(self, command: Sequence[str], place: Place) -> None:
        """Start it."""
        self.done: Counter[str] = Counter()
        self.finished = 0
        self.failed: Counter[str] = Counter()
        self.started = False
        self.restarts = 0
        self.forwards = 0
        self.samples: list[int] = []
        self.noise: list[str] = []
        self.changed = threading.Condition()
        environment = {**place.family.environment(), "TMPDIR": str(place.temp)}
        self.process = subprocess.Popen(
            command,
            env=environment,
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
        """True once it has ended."""
        return self.process.poll() is not None

    def send(self, number: int) -> bool:
        """Signal the parent; False if it has ended."""
        if self.over:
            return False
        self.process.send_signal(number)
        return True

    def wait_for(self, what: Callable[[], bool], patience: float) -> bool:
        """Wait until `what` is so, at most until the run has ended or `patience` seconds are over; whether it is."""
        with self.changed:
            self.changed.wait_for(lambda: what() or not self._reader.is_alive(), patience)
            return what()

    def wait(self) -> int:
        """Its exit code, negative for a signal; all it said has been read."""
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
        except ValueError:  # the last line of one that was killed, or a word of the interpreter
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
    """A run that is gone at the end of the block, with all its processes."""
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
