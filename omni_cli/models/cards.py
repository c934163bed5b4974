"""Cards: what a pipeline class needs known and does not say itself. Data, no code per model.

Sources of the numbers: each class's `__call__` signature and its model card's recommended settings. A pipeline without a
card gets one derived from its signature by the loader.
"""

import msgspec

from omni_cli.media import Kind
from omni_cli.request import GenerationRequest


class SizeRule(msgspec.Struct, frozen=True, kw_only=True):
    """Which sizes a pipeline takes unchanged: height and width multiples of `multiple`, num_frames = `frame_step`·k + `frame_offset`."""

    multiple: int = 8
    frame_step: int = 1
    frame_offset: int = 0

    def size_ok(self, value: int) -> bool:
        """True if a height or width of `value` pixels is taken as it is."""
        return value >= self.multiple and value % self.multiple == 0

    def frames_ok(self, value: int) -> bool:
        """True if a clip of `value` frames is made at exactly that length."""
        return value >= 1 and (value - self.frame_offset) % self.frame_step == 0

    def nearest_sizes(self, value: int) -> tuple[int, ...]:
        """Valid sizes around `value`, ascending."""
        low = value // self.multiple * self.multiple
        return tuple(size for size in (low, low + self.multiple) if size > 0)

    def nearest_frames(self, value: int) -> tuple[int, ...]:
        """Valid frame counts around `value`, ascending."""
        low = (value - self.frame_offset) // self.frame_step * self.frame_step + self.frame_offset
        return tuple(count for count in (low, low + self.frame_step) if count >= 1)


class LatentRgb(msgspec.Struct, frozen=True, kw_only=True):
    """Colours of a VAE's latents, as they are denoised: levels 0..255 = latents · `weights` + `bias`; a row of three per channel."""

    weights: tuple[tuple[float, float, float], ...]
    bias: tuple[float, float, float]


class Card(msgspec.Struct, frozen=True, kw_only=True):
    """One pipeline class.

    `defaults` holds what a request gets when neither it, a flag nor the user said (fps included). `batchable`: a list of
    prompts with a list of generators gives each sample the same result as alone. `output_type` is what the loader asks
    the pipeline for: "device" goes through the processor seam, "pt" and "np" are for pipelines that check a list.
    `processors` are attributes of the pipeline that hold a processor which makes its output, where they have names of their own.
    `value_range` are the floats that mean black and white in its output, where no processor of diffusers tells.
    `call` holds constant keywords of the pipeline's call. `sample_rate` is that of its sound in Hz, for a pipeline that does not say
    it itself. `parameters` are the keywords its `__call__` takes; empty means
    not known before loading. `latent_rgb` is for previews, where it is known for the VAE; else it is fitted.
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
