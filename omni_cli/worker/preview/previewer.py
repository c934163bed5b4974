"""Make the previews of a runner: after which steps, of which samples, and without ever failing a request."""

import os
from collections.abc import Callable, Mapping
from typing import Any

import torch

from omni_cli.log import logger
from omni_cli.request import GenerationRequest
from omni_cli.worker.loader import LoadedPipeline
from omni_cli.worker.pipeline.invocation import Invocation
from omni_cli.worker.pipeline.step_reporter import MakePreviews
from omni_cli.worker.preview.latent_images import LatentToRgb, X0Estimator, image_latents
from omni_cli.worker.preview.latent_rgb import latent_rgb_of
from omni_cli.worker.runner_protocol import Picture


class Previewer:
    """Makes previews after every `every`-th step of one loaded pipeline, until the first fault."""

    def __init__(
        self,
        loaded: LoadedPipeline,
        every: int,
        report: Callable[[str], None],
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        """Find the map from latents to RGB. If there is none, the first step of a call reports why, as the fault."""
        self._every = every
        self._pipeline = pipeline = loaded.pipeline
        self._to_rgb: LatentToRgb | None = None
        self._fault: str | None = None
        try:
            latent_rgb = latent_rgb_of(pipeline.vae, loaded.card, loaded.info.revision, loaded.device, report, environ)
            self._to_rgb = LatentToRgb(latent_rgb, loaded.device)
        except Exception as error:  # boundary: a model without previews can still run
            self._disable(error)

    def for_call(self, call: Invocation, request: GenerationRequest) -> MakePreviews:
        """Return the function that makes the previews of one pipeline call; `request` is any of those that share it."""
        previous: tuple[Any, Any] | None = None
        estimator: X0Estimator | None = None

        def make_previews(
            step: int, total: int, sigma: Any | None, latents: Any | None
        ) -> tuple[tuple[Picture, ...], str | None]:
            nonlocal previous, estimator
            if self._to_rgb is None or (latents is None and step % self._every):
                return (), self._pop_fault()
            try:
                estimator = estimator or X0Estimator(self._pipeline.scheduler)
                pictures: tuple[Picture, ...] = ()
                if step % self._every == 0:
                    pictures = self._pictures(call, request, self._to_rgb, estimator, sigma, latents, previous)
                previous = None if sigma is None else (latents, sigma)
            except Exception as error:  # boundary: a preview that fails must not fail its request
                self._disable(error)
                return (), self._pop_fault()
            return pictures, None

        return make_previews

    def _pictures(
        self,
        call: Invocation,
        request: GenerationRequest,
        to_rgb: LatentToRgb,
        estimator: X0Estimator,
        sigma: Any | None,
        latents: Any | None,
        previous: tuple[Any, Any] | None,
    ) -> tuple[Picture, ...]:
        """Return one picture for each request of the call, of its first sample."""
        if latents is None:
            raise ValueError(f"{type(self._pipeline).__name__} does not expose its latents at a step")
        first_samples = {owner: call.owners.index(owner) for owner in dict.fromkeys(call.owners)}
        rows_per_sample = len(latents) // len(call.samples)

        def select(latents: Any) -> Any:
            samples = torch.stack([latents[sample * rows_per_sample] for sample in first_samples.values()])
            return image_latents(samples, to_rgb.channels, request.height, request.width, request.num_frames)

        selected_previous = None if previous is None else (select(previous[0]), previous[1])
        x0 = estimator.estimate(select(latents), sigma, selected_previous)
        return tuple(Picture(owner, to_rgb(x0[row])) for row, owner in enumerate(first_samples))

    def _disable(self, error: Exception) -> None:
        """Make no more previews, and keep `error` as the fault to report."""
        logger.info("no previews", exc_info=error)
        self._to_rgb = None
        self._fault = f"{type(error).__name__}: {error}"

    def _pop_fault(self) -> str | None:
        """Return the fault the first time, None afterwards."""
        fault, self._fault = self._fault, None
        return fault
