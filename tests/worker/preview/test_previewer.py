"""Previews are made after the right steps and of the right samples, and a fault ends them without failing a request."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import diffusers
import pytest
import torch

from omni_cli.models.cards import LatentRgb
from omni_cli.request import GenerationRequest
from omni_cli.worker.pipeline.invocation import Invocation, Sample
from omni_cli.worker.preview.previewer import Previewer
from omni_cli.worker.runner import DiffusersRunner
from omni_cli.worker.runner_protocol import StepState
from tests.factories import planned
from tests.worker.preview.test_latent_rgb_fit import Config

CPU = torch.device("cpu")
COLOURS = LatentRgb(weights=((10.0, 0.0, 0.0), (0.0, 20.0, 0.0), (0.0, 0.0, -5.0)), bias=(100.0, 50.0, 200.0))


@dataclass
class FakeLoadedPipeline:
    """The part of a loaded pipeline that previews need."""

    pipeline: Any
    card: Any = field(default_factory=lambda: SimpleNamespace(latent_rgb=COLOURS))
    info: Any = field(default_factory=lambda: SimpleNamespace(revision=None))
    device: torch.device = CPU


def make_previews(scheduler: Any) -> Any:
    """Return the preview function of a call with two samples of request 0 and one of request 4, every second step."""
    pipeline = SimpleNamespace(scheduler=scheduler, vae=SimpleNamespace(config=Config(latent_channels=3)))
    sample = Sample("x", None, 1)
    call = Invocation((sample, sample, sample), (0, 0, 4), {})
    previewer = Previewer(FakeLoadedPipeline(pipeline), 2, lambda what: None)  # type: ignore[arg-type]
    return previewer.for_call(call, GenerationRequest(height=16, width=16))


def test_every_kth_step_shows_the_first_sample_of_each_request() -> None:
    preview = make_previews(diffusers.FlowMatchEulerDiscreteScheduler())
    latents = torch.arange(3.0).view(3, 1, 1, 1).expand(3, 3, 2, 2)
    assert preview(1, 4, None, latents) == ((), None)
    pictures, fault = preview(2, 4, None, latents)
    assert fault is None
    assert [picture.owner for picture in pictures] == [0, 4]
    assert [picture.pixels[0, 0].tolist() for picture in pictures] == [[100, 50, 200], [120, 90, 190]]


def test_the_first_fault_is_reported_once_and_ends_previews() -> None:
    preview = make_previews(None)
    malformed = torch.zeros(3, 1, 9)
    assert preview(1, 4, None, malformed) == ((), None)
    pictures, fault = preview(2, 4, None, malformed)
    assert pictures == ()
    assert fault == "ValueError: expected latents of pictures with 3 channels, got shape [2, 1, 9]"
    assert preview(4, 4, None, torch.zeros(3, 3, 2, 2)) == ((), None)


def test_a_pipeline_without_a_vae_reports_the_fault_at_the_first_step() -> None:
    previewer = Previewer(FakeLoadedPipeline(SimpleNamespace()), 1, lambda what: None)  # type: ignore[arg-type]
    preview = previewer.for_call(Invocation((Sample("x", None, 1),), (0,), {}), GenerationRequest())
    pictures, fault = preview(1, 2, None, torch.zeros(1, 3, 2, 2))
    assert pictures == ()
    assert "has no attribute 'vae'" in str(fault)
    assert preview(2, 2, None, torch.zeros(1, 3, 2, 2)) == ((), None)


def test_previews_of_a_real_pipeline_do_not_change_its_pixels(
    runner_of: Callable[..., DiffusersRunner], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    runner = runner_of("wan")
    fields: dict[str, Any] = {"prompt": "x", "height": 32, "width": 32, "num_frames": 5, "num_inference_steps": 4}
    (before,) = runner.execute_stepwise([planned(**fields)], lambda state: True)
    monkeypatch.setattr(runner._state, "previewer", Previewer(runner._model, 2, lambda what: None))
    seen: list[StepState] = []

    def on_state(state: StepState) -> bool:
        seen.append(state)
        return True

    (after,) = runner.execute_stepwise([planned(**fields)], on_state)
    assert torch.equal(before.data, after.data)
    assert [(state.step, len(state.pictures), state.fault) for state in seen] == [
        (1, 0, None),
        (2, 1, None),
        (3, 0, None),
        (4, 1, None),
    ]
    assert seen[1].pictures[0].pixels.shape == (4, 4, 3)
