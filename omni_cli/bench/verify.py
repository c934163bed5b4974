"""The claim that makes the times comparable: every arm made the same pictures. Decides what must be equal to what.

Lossless files are compared as they are. Lossy ones are compared between arms with the same encoder as decoded frames; the plain
loop's encoder has other settings, so its levels are compared before encoding, from a pass that writes arrays and is not measured.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from omni_cli.bench.arms import PLAIN, Arm
from omni_cli.bench.conduct import as_levels
from omni_cli.bench.engine_arm import EngineArm
from omni_cli.request import GenerationRequest
from omni_cli.writers.readback import LOSSLESS, Difference, folders_differ

EXACT = 0
ROUNDED = 1
"""Levels that the plain loop may be off in a narrow float: diffusers denormalizes in that type, the engine in float32."""


@dataclass(frozen=True, slots=True)
class Check:
    """One comparison. `allowed` is in levels; None: reported only, because another batch size may compute other floats."""

    arm: str
    against: str
    what: str
    found: Difference
    allowed: int | None

    @property
    def passed(self) -> bool:
        """True unless the pictures differ by more than is allowed."""
        return self.allowed is None or self.found.levels <= self.allowed

    def __str__(self) -> str:
        """`plain = async: pixels of the files, 8 frames`, or by how much they differ."""
        sign, apart = "=", ""
        if self.found.levels:
            sign = "≠" if not self.passed else "≈"
            apart = (
                ", of another size or number"
                if self.found.levels > 255
                else f", at most {self.found.levels} of 255 levels apart"
            )
        frames = f"{self.found.frames} frame{'' if self.found.frames == 1 else 's'}"
        return f"{self.arm} {sign} {self.against}: {self.what}, {frames}{apart}"


def verify(arms: Sequence[Arm], requests: Sequence[GenerationRequest], dtype: str) -> list[Check]:
    """Compare the files of the last round of every arm; lossy ones with other floats or encoders behind them as levels."""
    return list(_Comparison(arms, requests, dtype).checks(arms))


class _Comparison:
    """One arm of the engine is the reference."""

    def __init__(self, arms: Sequence[Arm], requests: Sequence[GenerationRequest], dtype: str) -> None:
        self._engines = [arm for arm in arms if isinstance(arm, EngineArm)]
        self._reference = next((arm for arm in self._engines if arm.spec.name == "async"), self._engines[0])
        self._requests, self._dtype = requests, dtype
        planned = self._reference.plan(requests)
        self._names = [name for request in planned for name in request.files]
        self._lossless = planned[0].request.format in LOSSLESS
        self._written: set[str] = set()

    def checks(self, arms: Sequence[Arm]) -> Iterator[Check]:
        """Arms of the same batch size exactly, by their files; the plain loop and another batch size by levels."""
        for engine in self._engines:
            alike = next(other for other in (self._reference, *self._engines) if _same_calls(other, engine))
            if alike is not engine:
                what = "pixels of the files" if self._lossless else "decoded frames of the files"
                found = folders_differ(engine.folder, alike.folder, self._names)
                yield Check(engine.spec.name, alike.spec.name, what, found, EXACT)
            elif engine is not self._reference:
                yield self._levels(engine, None)
        for arm in arms:
            if arm.spec.name == PLAIN:
                yield self._levels(arm, EXACT if self._dtype == "float32" else ROUNDED)

    def _levels(self, arm: Arm, allowed: int | None) -> Check:
        """`arm` against the reference, before a lossy encoder has changed the levels."""
        names, what = self._names, "pixels of the files"
        if not self._lossless:
            requests, what = as_levels(self._requests), "levels before encoding"
            names = [name for request in self._reference.plan(requests) for name in request.files]
            for one in (arm, self._reference):
                if one.spec.name not in self._written:
                    one.run(requests)
                    self._written.add(one.spec.name)
        found = folders_differ(arm.folder, self._reference.folder, names)
        return Check(arm.spec.name, self._reference.spec.name, what, found, allowed)


def _same_calls(one: Arm, other: Arm) -> bool:
    """True if both run the same pipeline calls, so that the same floats come out."""
    return one.spec.batched == other.spec.batched
