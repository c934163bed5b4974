"""Runs a prompt file to its end, while a seeded schedule of faults goes on: start, break, start again with the same command."""

import random
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.chaos.faults import OF_THE_DISK, Fault
from tests.chaos.run import PATIENCE_S, Place, Run, running

GAP = 5
"""Requests that finish between two faults, on the average."""

STARTUP = 0.3
"""Share of the starts that meet a fault before anything is finished."""

CODES = {0, 1, 3, 130, 143, -2, -9, -15}
"""How a run may end: -2 and -15 are signals that come before there is anything to finish."""

AT_START_CODES = {2}
"""And if its disk is full when it begins."""

LEAK = 8
"""Descriptors that a run may hold more of at its end than at its beginning: encoders and files that are just open."""


@dataclass
class Report:
    """What happened, for the person who asked for a long proof."""

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
        """Figures, not the log."""
        faults = ", ".join(f"{name} {count}" for name, count in sorted(self.faults.items()))
        return (
            f"chaos seed {self.seed}: {self.requests} requests, {self.faults.total()} faults ({faults}), {self.runs} runs, "
            f"exit codes {dict(self.codes)}, failures on the way {dict(self.failures)}, "
            f"last process gone after {self.longest_leaving:.2f} s, {self.seconds:.0f} s in all"
        )


class Monkey:
    """One proof."""

    def __init__(
        self, place: Place, wanted: Sequence[dict[str, Any]], kinds: Sequence[Fault], count: int, seed: int
    ) -> None:
        """`count` faults of `kinds`, dealt so that each comes as often as the others."""
        self.place = place
        self._dice = random.Random(seed)
        self._faults: list[Fault] = []
        while len(self._faults) < count:
            self._faults += self._dice.sample(kinds, len(kinds))
        del self._faults[count:]
        flags = ("--workers", "2", "--encoder", "ffmpeg", "--writers", "2", "--disk-wait", "1")
        self._command = place.command(place.prompts(wanted), *flags)
        self._done: Counter[str] = Counter()
        self.report = Report(len(wanted), seed)

    def work(self) -> Report:
        """Run until a run ends well with no fault left, or nothing is left to do."""
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
        """Faults, while the run goes on; those that it met."""
        met: list[Fault] = []
        early = self._dice.random() < STARTUP
        while self._faults:
            if early and not met:
                run.wait_for(lambda: False, self._dice.uniform(0.0, 2.5))
            else:
                target = run.finished + self._dice.randint(1, 2 * GAP - 1)
                run.wait_for(lambda target=target: run.finished >= target, PATIENCE_S)  # type: ignore[misc]
                time.sleep(self._dice.random() * 0.03)
            if run.over:
                break
            fault = self._faults.pop()
            if (did := fault(run, self.place, self._dice)) is None:
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
        allowed = CODES | (AT_START_CODES if any(fault in OF_THE_DISK for fault in met) else set())
        assert code in (allowed if met else {0}), f"{code} {run.noise}\n{story}"
        said = "\n".join(run.noise)
        assert "Traceback" not in said, f"{said}\n{story}"
        assert "bug" not in said, f"{said}\n{story}"
        edge = len(run.samples) // 4
        if edge >= 5:
            grown = min(run.samples[-edge:]) - min(run.samples[:edge])
            assert grown <= LEAK, f"{grown} descriptors more: {run.samples}\n{story}"
