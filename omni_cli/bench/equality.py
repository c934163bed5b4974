"""Comparison of the arms' pixels: times are comparable only between arms that made the same pictures.

Files of lossless formats are compared directly. Lossy files are compared as decoded frames between arms with the same
encoder settings. The plain loop's encoder has other settings, so its levels are compared before encoding, in a pass
that writes arrays and is not measured. On a CPU the number of threads changes single levels, so the plain loop has
those of the engine in a pass of its own.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from omni_cli.bench.arms import Arm
from omni_cli.bench.engine_arm import EngineArm
from omni_cli.bench.plain_arm import PlainArm
from omni_cli.request import GenerationRequest
from omni_cli.writers.readback import LOSSLESS, Difference, folders_differ

EXACT = 0
ROUNDED = 1
"""Levels by which the plain loop may differ in a 16-bit dtype, in which diffusers denormalizes; the engine uses
float32."""


@dataclass(frozen=True, slots=True)
class OutputComparison:
    """A comparison of two arms' pixels. `allowed` is in levels of 255.

    None as `allowed`: reported only, because another batch size may compute other floats.
    """

    arm: str
    against: str
    what: str
    difference: Difference
    allowed: int | None

    @property
    def passed(self) -> bool:
        """True unless the pictures differ by more than is allowed."""
        return self.allowed is None or self.difference.levels <= self.allowed

    def __str__(self) -> str:
        """Return `plain = async: pixels of the files, 8 frames`, or by how much they differ."""
        sign, apart = "=", ""
        if self.difference.levels:
            sign = "≠" if not self.passed else "≈"
            apart = (
                ", of another size or number"
                if self.difference.levels > 255
                else f", at most {self.difference.levels} of 255 levels apart"
            )
        frames = f"{self.difference.frames} frame{'' if self.difference.frames == 1 else 's'}"
        return f"{self.arm} {sign} {self.against}: {self.what}, {frames}{apart}"


def compare_outputs(arms: Sequence[Arm], requests: Sequence[GenerationRequest], dtype: str) -> list[OutputComparison]:
    """Compare every arm's files of the last round, those of `requests`, with the engine's.

    Renders `requests` once more as arrays where a lossy format has to be compared before encoding. Raises EngineError
    if that fails.
    """
    return list(_OutputComparer(arms, requests, dtype).comparisons(arms))


class _OutputComparer:
    """A comparison of arms with a reference, which is the arm `async`, else the first arm of the engine."""

    def __init__(self, arms: Sequence[Arm], requests: Sequence[GenerationRequest], dtype: str) -> None:
        self._engines = [arm for arm in arms if isinstance(arm, EngineArm)]
        self._reference = next((arm for arm in self._engines if arm.spec.name == "async"), self._engines[0])
        self._requests, self._dtype = requests, dtype
        planned = self._reference.plan(requests)
        self._names = [name for request in planned for name in request.files]
        self._lossless = planned[0].request.format in LOSSLESS
        self._with_arrays: set[str] = set()

    def comparisons(self, arms: Sequence[Arm]) -> Iterator[OutputComparison]:
        """Compare arms of one batch size by their files, exactly; the plain loop and other batch sizes by levels."""
        for engine in self._engines:
            # Arms of one batch size run the same pipeline calls, so the same floats come out.
            candidates = (self._reference, *self._engines)
            twin = next(other for other in candidates if other.spec.batched == engine.spec.batched)
            if twin is not engine:
                what = "pixels of the files" if self._lossless else "decoded frames of the files"
                difference = folders_differ(engine.folder, twin.folder, self._names)
                yield OutputComparison(engine.spec.name, twin.spec.name, what, difference, EXACT)
            elif engine is not self._reference:
                yield self._compare_levels(engine, None)
        for arm in arms:
            if not arm.spec.is_engine:
                yield self._compare_levels(arm, EXACT if self._dtype == "float32" else ROUNDED)

    def _compare_levels(self, arm: Arm, allowed: int | None) -> OutputComparison:
        """Compare `arm` with the reference, before encoding if the format is lossy."""
        names, what = self._names, "pixels of the files"
        requests = self._requests
        if not self._lossless:
            requests = [msgspec.structs.replace(request, format="npy") for request in self._requests]
            what = "levels before encoding"
            names = [name for request in self._reference.plan(requests) for name in request.files]
            for renderer in (arm, self._reference):
                if isinstance(renderer, EngineArm) and renderer.spec.name not in self._with_arrays:
                    renderer.run(requests)
                    self._with_arrays.add(renderer.spec.name)
        if isinstance(arm, PlainArm) and (not self._lossless or self._reference.threads is not None):
            arm.run(requests, self._reference.threads)
        difference = folders_differ(arm.folder, self._reference.folder, names)
        return OutputComparison(arm.spec.name, self._reference.spec.name, what, difference, allowed)
