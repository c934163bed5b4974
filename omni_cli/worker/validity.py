"""Right or refused: what is learnt about an output while it is being written, and what becomes of one that is not right.

A sum is not finite if anything in it is not, so one sum per band, taken while the band is in the cache, is the whole check; only
a sum that is not finite (which huge finite values can also make) has the output looked through. Levels are compared with the
first pixel's until one differs.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import torch

from omni_cli.config import EngineConfig
from omni_cli.errors import ConstantOutput, NonFiniteOutput
from omni_cli.media import MediaSpec


@dataclass(frozen=True, slots=True)
class Validity:
    """The policy. `keep_invalid`: what breaks it is written all the same, and noted."""

    keep_invalid: bool = False
    fail_on_constant: bool = False

    @classmethod
    def of(cls, engine: EngineConfig) -> "Validity":
        """The policy that the settings ask for."""
        return cls(engine.keep_invalid, engine.fail_on_constant)


STRICT = Validity()


class Inspection:
    """Watches one output go by, on its own device, and judges it in the end. Only the verdict waits for the device."""

    def __init__(self, policy: Validity, samples: int, device: torch.device) -> None:
        """Of an output of `samples` samples."""
        self.policy = policy
        self._sum = torch.zeros((), device=device)
        self._varied = [torch.zeros((), dtype=torch.bool, device=device) for _ in range(samples)]
        self._first: list[torch.Tensor | None] = [None] * samples
        self._settled = [not policy.fail_on_constant] * samples

    def see_floats(self, values: torch.Tensor) -> None:
        """`values`, float32 of any shape, are part of the output."""
        self._sum += values.sum()

    def see_levels(self, sample: int, pixels: torch.Tensor) -> None:
        """`pixels`, uint8 [..., C], are the next part of `sample`."""
        if self._settled[sample]:
            return
        first = self._first[sample]
        if first is None:
            first = self._first[sample] = pixels.flatten(0, -2)[0].clone()
        self._varied[sample] |= (pixels != first).any()
        if pixels.device.type == "cpu":  # elsewhere, asking would be waiting
            self._settled[sample] = bool(self._varied[sample])

    def verdict(self, spec: MediaSpec, parts: Iterable[tuple[str, torch.Tensor]]) -> tuple[str, ...]:
        """Notes on what is wrong and kept. `parts` are the output's source again, each with its name, for a closer look.

        Raises NonFiniteOutput or ConstantOutput for what the policy refuses.
        """
        notes = []
        if not bool(self._sum.isfinite()) and (found := _not_finite(parts)):
            text = f"{spec.kind} output is not finite: {found}"
            if not self.policy.keep_invalid:
                raise NonFiniteOutput(
                    f"{text}; the model overflowed: load it with a wider --dtype (bfloat16 or float32), "
                    "or see it all the same with --keep-invalid"
                )
            notes.append(f"kept, although the {text}")
        if self.policy.fail_on_constant and (found := self._constant()):
            text = f"{spec.kind} output is one colour in every pixel: {found}"
            if not self.policy.keep_invalid:
                raise ConstantOutput(
                    f"{text}; a safety checker may have blackened it, or the model's dtype is too narrow"
                )
            notes.append(f"kept, although the {text}")
        return tuple(notes)

    def _constant(self) -> str:
        """The samples that are one colour, with their levels; empty if none is."""
        seen = zip(self._first, self._varied, strict=True)
        return ", ".join(
            f"sample {number} is {tuple(first.tolist())}"
            for number, (first, varied) in enumerate(seen)
            if first is not None and not bool(varied)
        )


def _not_finite(parts: Iterable[tuple[str, torch.Tensor]]) -> str:
    """Where the first NaN or infinity is and how many there are; empty if there is none."""
    where, nans, infinities, total = "", 0, 0, 0
    for name, values in parts:
        total += values.numel()
        if bool(values.isfinite().all()):
            continue
        where = where or name
        nans += int(values.isnan().sum())
        infinities += int(values.isinf().sum())
    return f"{nans} NaN and {infinities} infinite of {total} values, the first in {where}" if where else ""
