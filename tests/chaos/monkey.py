"""Run a prompt file to its end through a seeded schedule of faults: start, break, start the same command again."""

import random
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.chaos.faults import DISK_FAULTS, Fault
from tests.chaos.run import HANGING, NULL, PATIENCE_S, Place, Run, running

GAP = 5
"""Least average number of requests that finish between two faults, which are spread over all requests."""

STARTUP = 0.3
"""Share of the starts that meet a fault before any request is finished."""

CODES = {0, 1, 3, 130, 143, -2, -9, -15}
"""Exit codes of a broken run: -2 and -15 are signals before the handlers are installed."""

AT_START_CODES = {2}
"""Further exit codes of a run whose disk is full at the start."""

LEAK = 8
"""Descriptors that a run may hold more at its end than at its start: encoders and open files."""


@dataclass
class Report:
    """What happened, for the person who asked for a long run."""

    requests: int
    seed: int
    faults: Counter[str] = field(default_factory=Counter)
    runs: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    codes: Counter[int] = field(default_factory=Counter)
    longest_leaving: float = 0.0
    seconds: float = 0.0
    log: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        """Return the figures, without the log."""
        faults = ", ".join(f"{name} {count}" for name, count in sorted(self.faults.items()))
        return (
            f"chaos seed {self.seed}: {self.requests} requests, {self.faults.total()} faults ({faults}), "
            f"{self.runs} runs, "
            f"exit codes {dict(self.codes)}, failures on the way {dict(self.failures)}, "
            f"last process gone after {self.longest_leaving:.2f} s, {self.seconds:.0f} s in all"
        )


class Monkey:
    """A run of a prompt file under a schedule of faults."""

    def __init__(
        self, place: Place, wanted: Sequence[dict[str, Any]], kinds: Sequence[Fault], count: int, seed: int
    ) -> None:
        """Draw `count` faults of `kinds`, each about as often as the others.

        With faults of HANGS, `place.hang_timeout` is how long runs wait for a forward, too.
        """
        self.place = place
        self._rng = random.Random(seed)
        self._faults: list[Fault] = []
        while len(self._faults) < count:
            self._faults += self._rng.sample(kinds, len(kinds))
        del self._faults[count:]
        self._gap = max(GAP, len(wanted) // count)
        flags = ("--workers", "2", "--encoder", "ffmpeg", "--writers", "2", "--disk-wait", "1")
        runner = NULL
        if place.hang_timeout is not None:
            flags, runner = (*flags, "--forward-timeout", f"{place.hang_timeout:g}"), HANGING
        self._command = place.command(place.prompts(wanted), *flags, runner=runner)
        self._done: Counter[str] = Counter()
        self.report = Report(len(wanted), seed)

    def work(self) -> Report:
        """Run the command again and again until it exits with 0."""
        start = time.monotonic()
        most = 2 * len(self._faults) + 10
        while self._one_run() != 0:
            assert self.report.runs < most, f"no end after {most} runs"
        self.report.seconds = time.monotonic() - start
        return self.report

    def _one_run(self) -> int:
        self.report.runs += 1
        with running(self._command, self.place) as run:
            met = self._break(run)
            code = run.wait()
            self._check_end(run, met, code)
        return code

    def _break(self, run: Run) -> list[Fault]:
        """Apply faults while the run goes on; return those applied."""
        met: list[Fault] = []
        early = self._rng.random() < STARTUP
        while self._faults:
            if early and not met:
                run.wait_for(lambda: False, self._rng.uniform(0.0, 2.5))
            else:
                target = run.finished + self._rng.randint(1, 2 * self._gap - 1)
                run.wait_for(lambda target=target: run.finished >= target, PATIENCE_S)  # type: ignore[misc]
                time.sleep(self._rng.random() * 0.03)
            if run.over:
                break
            fault = self._faults.pop()
            if (did := fault(run, self.place, self._rng)) is None:
                self._faults.insert(0, fault)
                early = False
                continue
            met.append(fault)
            self.report.faults[fault.__name__] += 1
            self.report.log.append(f"run {self.report.runs}, {run.finished} finished: {fault.__name__}: {did}")
        return met

    def _check_end(self, run: Run, met: list[Fault], code: int) -> None:
        report = self.report
        report.log.append(f"run {report.runs} ended with {code} after {run.finished}: {run.noise[-1:]}")
        report.codes[code] += 1
        report.failures += run.failed
        report.longest_leaving = max(report.longest_leaving, self.place.check_nothing_left())
        self._done += run.done
        story = "\n".join(report.log)
        twice = [id_ for id_, count in self._done.items() if count > 1]
        assert not twice, f"done twice: {twice}\n{story}"
        allowed = CODES | (AT_START_CODES if any(fault in DISK_FAULTS for fault in met) else set())
        assert code in (allowed if met else {0}), f"{code} {run.noise}\n{story}"
        output = "\n".join(run.noise)
        assert "Traceback" not in output, f"{output}\n{story}"
        assert "bug" not in output, f"{output}\n{story}"
        edge = len(run.samples) // 4
        if edge >= 5:
            grown = min(run.samples[-edge:]) - min(run.samples[:edge])
            assert grown <= LEAK, f"{grown} descriptors more: {run.samples}\n{story}"
