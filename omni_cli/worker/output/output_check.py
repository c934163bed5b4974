"""Find NaN, infinity and outputs of one colour while an output is being written.

A sum is not finite if any of its terms is not, so one sum per band, taken while the band is in the cache, is the whole
test for NaN and infinity. Only if a sum is not finite (large finite values can overflow too) are the values searched
one by one. For the test of one colour, levels are compared with those of the first pixel until one differs.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import torch

from omni_cli.config import EngineConfig
from omni_cli.errors import ConstantOutput, NonFiniteOutput
from omni_cli.media import MediaSpec


@dataclass(frozen=True, slots=True)
class OutputPolicy:
    """What makes an output fail. With `keep_invalid` an invalid one is written all the same, with a note."""

    keep_invalid: bool = False
    fail_on_constant: bool = False
    fail_on_nsfw: bool = False

    @classmethod
    def from_config(cls, engine: EngineConfig) -> "OutputPolicy":
        """Return the policy of the settings `engine`."""
        return cls(engine.keep_invalid, engine.fail_on_constant, engine.fail_on_nsfw)


STRICT = OutputPolicy()


class OutputCheck:
    """Collects what one output holds, on its own device. Only `finish` waits for the device."""

    def __init__(self, policy: OutputPolicy, samples: int, device: torch.device) -> None:
        self.policy = policy
        self._sum = torch.zeros((), device=device)
        self._varies = [torch.zeros((), dtype=torch.bool, device=device) for _ in range(samples)]
        self._first_pixel: list[torch.Tensor | None] = [None] * samples
        self._decided = [not policy.fail_on_constant] * samples

    def add_floats(self, values: torch.Tensor) -> None:
        """Add `values`, float32 [...], to the test for NaN and infinity."""
        self._sum += values.sum()

    def add_levels(self, sample: int, pixels: torch.Tensor) -> None:
        """Add `pixels`, uint8 [..., C], to the test of `sample` for one colour."""
        if self._decided[sample]:
            return
        first = self._first_pixel[sample]
        if first is None:
            first = self._first_pixel[sample] = pixels.flatten(0, -2)[0].clone()
        self._varies[sample] |= (pixels != first).any()
        if pixels.device.type == "cpu":  # on other devices, reading the result would wait for it
            self._decided[sample] = bool(self._varies[sample])

    def finish(self, spec: MediaSpec, parts: Iterable[tuple[str, torch.Tensor]]) -> tuple[str, ...]:
        """Return notes on the faults that the policy keeps.

        `parts`: (name, values [...]) of the output before conversion, searched for a fault only if there is one.
        Raises NonFiniteOutput or ConstantOutput for a fault that the policy does not keep.
        """
        notes = []
        if not bool(self._sum.isfinite()) and (where := _locate_non_finite(parts)):
            fault = f"{spec.kind} output is not finite: {where}"
            if not self.policy.keep_invalid:
                raise NonFiniteOutput(
                    f"{fault}; the model overflowed: load it with a wider --dtype (bfloat16 or float32), "
                    "or write the output all the same with --keep-invalid"
                )
            notes.append(f"kept, although the {fault}")
        if self.policy.fail_on_constant and (constant := self._constant_samples()):
            fault = f"{spec.kind} output is one colour in every pixel: {constant}"
            if not self.policy.keep_invalid:
                raise ConstantOutput(
                    f"{fault}; a safety checker may have blackened it, or the model's dtype is too narrow"
                )
            notes.append(f"kept, although the {fault}")
        return tuple(notes)

    def _constant_samples(self) -> str:
        """List the samples that are one colour, with their levels; empty if there are none."""
        samples = zip(self._first_pixel, self._varies, strict=True)
        return ", ".join(
            f"sample {number} is {tuple(first.tolist())}"
            for number, (first, varies) in enumerate(samples)
            if first is not None and not bool(varies)
        )


def _locate_non_finite(parts: Iterable[tuple[str, torch.Tensor]]) -> str:
    """Count NaN and infinity in `parts` and name the first part that holds one; empty if there are none."""
    where, nans, infinities, total = "", 0, 0, 0
    for name, values in parts:
        total += values.numel()
        if bool(values.isfinite().all()):
            continue
        where = where or name
        nans += int(values.isnan().sum())
        infinities += int(values.isinf().sum())
    return f"{nans} NaN and {infinities} infinite of {total} values, the first in {where}" if where else ""
