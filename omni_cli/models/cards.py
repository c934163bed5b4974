"""Cards: what omni-gen must know of a pipeline class beyond its code. Data, no code per model.

The numbers come from each class's `__call__` signature and its model card's recommended settings. The loader infers a
card from the signature of a pipeline that has none.
"""

import msgspec

from omni_cli.media import Kind
from omni_cli.request import GenerationRequest


class SizeRule(msgspec.Struct, frozen=True, kw_only=True):
    """The sizes that a pipeline renders exactly: height and width in multiples of `multiple` pixels, and
    num_frames = `frame_step`·k + `frame_offset`.
    """

    multiple: int = 8
    frame_step: int = 1
    frame_offset: int = 0

    def size_ok(self, value: int) -> bool:
        """Return True if the pipeline renders a height or width of `value` pixels exactly."""
        return value >= self.multiple and value % self.multiple == 0

    def frames_ok(self, value: int) -> bool:
        """Return True if the pipeline renders exactly `value` frames."""
        return value >= 1 and (value - self.frame_offset) % self.frame_step == 0

    def nearest_sizes(self, value: int) -> tuple[int, ...]:
        """Return the valid sizes around `value`, ascending."""
        low = value // self.multiple * self.multiple
        return tuple(size for size in (low, low + self.multiple) if size > 0)

    def nearest_frames(self, value: int) -> tuple[int, ...]:
        """Return the valid frame counts around `value`, ascending."""
        low = (value - self.frame_offset) // self.frame_step * self.frame_step + self.frame_offset
        return tuple(count for count in (low, low + self.frame_step) if count >= 1)


class LatentRgb(msgspec.Struct, frozen=True, kw_only=True):
    """A linear map from a VAE's latents to RGB levels 0..255: latents · `weights` [channels, 3] + `bias`."""

    weights: tuple[tuple[float, float, float], ...]
    bias: tuple[float, float, float]


class Card(msgspec.Struct, frozen=True, kw_only=True):
    """What omni-gen knows of one pipeline class.

    `defaults` are the values of a request where neither it, a flag nor a user card gives one (fps included).
    `batchable`: a list of prompts with a list of generators gives each sample the same result as alone.
    `output_type` is what the loader asks the pipeline for: "device" for the tensor before the output processor, "pt" or
    "np" for pipelines that accept only those.
    `processors` are the pipeline's attributes that hold its output processors, where their names are unusual.
    `value_range` is the floats of black and white in the output, where no processor of diffusers defines them.
    `call` holds constant keywords of the pipeline's call.
    `sample_rate` is that of its sound in Hz, where the pipeline does not define it.
    `parameters` are the keywords that its `__call__` takes; empty if unknown before loading.
    `latent_rgb` is for previews; None if it is unknown for the VAE and must be fitted.
    """

    pipeline: str
    kind: Kind
    sizes: SizeRule = SizeRule()
    defaults: GenerationRequest = GenerationRequest()
    batchable: bool = False
    output_type: str = "device"
    processors: tuple[str, ...] = ()
    value_range: tuple[float, float] | None = None
    call: dict[str, int | float | str | bool] = {}
    sample_rate: int | None = None
    parameters: tuple[str, ...] = ()
    latent_rgb: LatentRgb | None = None
