"""The runner's part of previews: which steps are due, whose latents they are, and that no request fails for them."""

import os
from collections.abc import Callable, Mapping
from typing import Any

import torch

from omni_cli.log import logger
from omni_cli.request import GenerationRequest
from omni_cli.worker.calls import Call
from omni_cli.worker.loader import LoadedPipeline
from omni_cli.worker.preview.factors import factors
from omni_cli.worker.preview.project import Palette, Space, picture, plane
from omni_cli.worker.protocol import Picture
from omni_cli.worker.steps import Sketcher


class Previewer:
    """Makes previews after every `every`th step of one loaded pipeline; after the first fault, no more."""

    def __init__(
        self,
        loaded: LoadedPipeline,
        every: int,
        report: Callable[[str], None],
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        """Find the colours of the VAE's latents. A VAE that has none is no error: the first step says why there is no preview."""
        self._every = every
        self._pipeline = pipeline = loaded.pipeline
        self._palette: Palette | None = None
        self._fault: str | None = None
        try:
            colours = factors(pipeline.vae, loaded.card, loaded.info.revision, loaded.device, report, environ)
            self._palette = Palette(colours, loaded.device)
        except Exception as error:  # boundary: a preview is never worth a run
            self._fail(error)

    def sketcher(self, call: Call, request: GenerationRequest) -> Sketcher:
        """What looks at the steps of one call of the pipeline; `request` is any of those that share it."""
        before: tuple[Any, Any] | None = None
        space: Space | None = None

        def sketch(
            step: int, total: int, sigma: Any | None, latents: Any | None
        ) -> tuple[tuple[Picture, ...], str | None]:
            nonlocal before, space
            if self._palette is None or (latents is None and step % self._every):
                return (), self._take_fault()
            try:
                space = space or Space(self._pipeline.scheduler)
                pictures: tuple[Picture, ...] = ()
                if step % self._every == 0:
                    pictures = self._look(call, request, self._palette, space, sigma, latents, before)
                before = None if sigma is None else (latents, sigma)
            except Exception as error:  # boundary: no request fails for its preview
                self._fail(error)
                return (), self._take_fault()
            return pictures, None

        return sketch

    def _look(
        self,
        call: Call,
        request: GenerationRequest,
        palette: Palette,
        space: Space,
        sigma: Any | None,
        latents: Any | None,
        before: tuple[Any, Any] | None,
    ) -> tuple[Picture, ...]:
        """One picture for each request of the call: its first sample."""
        if latents is None:
            raise ValueError(f"{type(self._pipeline).__name__} does not show its latents at a step")
        firsts = {owner: call.owners.index(owner) for owner in dict.fromkeys(call.owners)}
        rows = len(latents) // len(call.samples)

        def chosen(latents: Any) -> Any:
            samples = torch.stack([latents[first * rows] for first in firsts.values()])
            return plane(samples, palette.channels, request.height, request.width, request.num_frames)

        then = None if before is None else (chosen(before[0]), before[1])
        clean = space.clean(chosen(latents), sigma, then)
        return tuple(Picture(owner, picture(clean[row], palette)) for row, owner in enumerate(firsts))

    def _fail(self, error: Exception) -> None:
        logger.info("no previews", exc_info=error)
        self._palette = None
        self._fault = f"{type(error).__name__}: {error}"

    def _take_fault(self) -> str | None:
        """The fault, once."""
        fault, self._fault = self._fault, None
        return fault
