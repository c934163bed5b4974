"""Previews in the worker: colours that are right for the VAE, guesses without noise, and no harm when it does not work."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import diffusers
import msgspec
import pytest
import torch

from omni_cli.models.cards import LatentRgb
from omni_cli.models.registry import card_for
from omni_cli.request import GenerationRequest
from omni_cli.worker.calls import Call, Sample
from omni_cli.worker.preview import factors as factors_module
from omni_cli.worker.preview.factors import factors
from omni_cli.worker.preview.fit import as_denoised, drawn_clips, fit
from omni_cli.worker.preview.previewer import Previewer
from omni_cli.worker.preview.project import Palette, Space, picture, plane
from omni_cli.worker.protocol import StepState
from omni_cli.worker.runner import DiffusersRunner
from tests.worker.conftest import planned

CPU = torch.device("cpu")
COLOURS = LatentRgb(weights=((10.0, 0.0, 0.0), (0.0, 20.0, 0.0), (0.0, 0.0, -5.0)), bias=(100.0, 50.0, 200.0))


class Linear(torch.nn.Module):
    """A VAE whose latents are averaged pixels, mixed: what the fit is to find out is known exactly."""

    def __init__(self, video: bool, **config: Any) -> None:
        super().__init__()
        self.encoder = torch.nn.Sequential(torch.nn.Conv3d(3, 4, 1) if video else torch.nn.Conv2d(3, 4, 1))
        self.config = config
        self.dtype = torch.float32
        self.mix = torch.tensor([[1.0, 0.5, 0.0], [0.0, -1.0, 0.3], [0.2, 0.0, 2.0], [0.0, 0.0, 0.0]])

    def encode(self, pixels: torch.Tensor) -> Any:
        if pixels.ndim == 4:
            means = torch.nn.functional.avg_pool2d(pixels, 8)
        else:
            parts = [pixels[:, :, :1], *pixels[:, :, 1:].chunk(2, dim=2)]
            means = torch.stack([torch.nn.functional.avg_pool2d(part.mean(2), 8) for part in parts], dim=2)
        mixed = torch.einsum("cr,br...->bc...", self.mix, means) + 3
        return SimpleNamespace(latent_dist=SimpleNamespace(mode=lambda: mixed))


@pytest.mark.parametrize("video", [False, True])
def test_the_fit_finds_the_colours_of_a_linear_vae(video: bool) -> None:
    vae = Linear(video, scaling_factor=0.5, shift_factor=3.0)
    found = fit(vae, CPU)
    mixed = torch.tensor([[0.4, -0.2, 0.6]])
    latents = torch.cat([(mixed @ vae.mix.T) * 0.5], dim=1)
    levels = latents @ torch.tensor(found.weights) + torch.tensor(found.bias)
    assert (levels - (mixed + 1) * 127.5).abs().max() < 3


def test_drawn_clips_are_coloured_moving_and_always_the_same() -> None:
    clips = drawn_clips(3, 5, 32)
    assert clips.shape == (3, 5, 3, 32, 32)
    assert torch.equal(clips, drawn_clips(3, 5, 32))
    assert clips.abs().max() <= 1
    assert clips.std() > 0.2
    assert not torch.equal(clips[:, 0], clips[:, 1])
    assert (clips[:, :, 0] - clips[:, :, 1]).std() > 0.1


def test_latents_are_scaled_as_the_configuration_of_the_vae_says() -> None:
    raw = torch.full((1, 2, 1, 1), 5.0)

    def scaled(buffers: dict[str, Any] | None = None, **config: Any) -> list[float]:
        vae = torch.nn.Module()
        for name, value in (buffers or {}).items():
            vae.register_buffer(name, torch.tensor(value))
        vae.config = config  # type: ignore[assignment]
        return as_denoised(vae, raw).flatten().tolist()  # type: ignore[no-any-return]

    statistics = {"latents_mean": [1.0, 3.0], "latents_std": [2.0, 4.0]}
    assert scaled() == [5, 5]
    assert scaled(scaling_factor=2.0, shift_factor=1.0) == [8, 8]
    assert scaled(**statistics) == [2, 0.5]
    assert scaled(**statistics, scaling_factor=0.5) == [1, 0.25]
    assert scaled(statistics) == [2, 0.5]


# ── where colours come from ──


@pytest.fixture
def fits(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    done: list[Any] = []

    def counted(vae: Any, device: torch.device) -> LatentRgb:
        done.append(vae)
        return COLOURS

    monkeypatch.setattr(factors_module, "fit", counted)
    return done


def found(tmp_path: Path, revision: str | None, card: str = "WanPipeline", **config: Any) -> LatentRgb:
    vae, known = SimpleNamespace(config=Config(config)), card_for(card)
    assert known is not None
    return factors(vae, known, revision, CPU, lambda what: None, {"XDG_CACHE_HOME": str(tmp_path)})


class Config(dict[str, Any]):
    """diffusers' FrozenDict: values are attributes as well."""

    def __getattr__(self, name: str) -> Any:
        return self[name]


def test_a_fit_is_kept_for_its_revision_and_a_broken_file_is_fitted_again(tmp_path: Path, fits: list[Any]) -> None:
    assert found(tmp_path, "r1") == found(tmp_path, "r1") == COLOURS
    assert len(fits) == 1
    found(tmp_path, "r2")
    assert len(fits) == 2
    (kept, _) = sorted((tmp_path / "omni-gen" / "latent-rgb").iterdir())
    assert msgspec.json.decode(kept.read_bytes(), type=LatentRgb) == COLOURS
    for broken in (b"", b'{"weights": 1}', b"\xff"):
        kept.write_bytes(broken)
    found(tmp_path, "r1")
    found(tmp_path, "r2")
    assert len(fits) == 3


def test_without_a_revision_or_a_cache_the_fit_is_done_each_time(tmp_path: Path, fits: list[Any]) -> None:
    assert found(tmp_path, None) == COLOURS
    assert not [*tmp_path.iterdir()]
    (tmp_path / "omni-gen").write_text("in the way")
    assert found(tmp_path, "r1") == found(tmp_path, "r1") == COLOURS
    assert len(fits) == 3


def test_the_cards_factors_are_taken_for_the_vae_they_are_known_for(tmp_path: Path, fits: list[Any]) -> None:
    for card in ("StableDiffusionPipeline", "StableDiffusionXLPipeline"):
        known = found(tmp_path, "r", card, latent_channels=4)
        levels = torch.tensor(known.bias)
        assert len(known.weights) == 4
        assert 120 < levels.min() <= levels.max() < 160, "no latents at all are a middle grey"
    assert fits == []
    found(tmp_path, "r", "StableDiffusionXLPipeline", latent_channels=4, latents_mean=[0.0] * 4)  # Playground 2.5
    found(tmp_path, "r16", "StableDiffusionXLPipeline", latent_channels=16)
    assert len(fits) == 2


# ── noise ──


def euler(space: Space, clean: torch.Tensor, levels: list[float], mix: Callable[[float], torch.Tensor]) -> torch.Tensor:
    """What is guessed at the second of two points of the straight way to `clean`."""
    then, now = (torch.tensor(level) for level in levels)
    guess: torch.Tensor = space.clean(mix(levels[1]), now, (mix(levels[0]), then))
    return guess


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
def test_the_guess_of_a_straight_way_is_its_end_whatever_the_scheduler() -> None:
    generator = torch.Generator().manual_seed(1)
    clean, noise = (torch.randn(1, 4, 8, 8, generator=generator) for _ in range(2))
    flow = Space(diffusers.FlowMatchEulerDiscreteScheduler())
    assert torch.allclose(euler(flow, clean, [0.9, 0.8], lambda s: (1 - s) * clean + s * noise), clean, atol=1e-4)
    exploding = diffusers.EulerDiscreteScheduler()
    exploding.set_timesteps(4)
    guess = euler(Space(exploding), clean, [14.0, 9.0], lambda s: clean + s * noise)
    assert torch.allclose(guess, clean, atol=1e-4)
    preserving = Space(diffusers.DPMSolverMultistepScheduler())
    guess = euler(preserving, clean, [14.0, 9.0], lambda s: (clean + s * noise) / math.sqrt(1 + s * s))
    assert torch.allclose(guess, clean, atol=1e-3)


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
def test_a_sampler_that_adds_noise_is_not_prolonged() -> None:
    latents, before = torch.full((1, 4, 2, 2), 6.0), torch.zeros(1, 4, 2, 2)
    ancestral = diffusers.EulerAncestralDiscreteScheduler()
    ancestral.set_timesteps(4)
    guess = Space(ancestral).clean(latents, torch.tensor(3.0), (before, torch.tensor(9.0)))
    assert torch.allclose(guess, latents / math.sqrt(10))


def test_steps_without_noise_levels_or_without_a_fall_are_taken_as_they_are() -> None:
    latents = torch.ones(1, 4, 2, 2)
    space = Space(diffusers.FlowMatchEulerDiscreteScheduler())
    assert space.clean(latents, None, None) is latents
    assert torch.equal(space.clean(latents, torch.tensor(0.5), (latents * 9, torch.tensor(0.5))), latents)


# ── geometry ──


def grid(*shape: int) -> torch.Tensor:
    return torch.arange(math.prod(shape), dtype=torch.float32).view(shape)


def test_planes_of_every_layout() -> None:
    image = grid(2, 3, 4, 6)
    assert torch.equal(plane(image, 3, 32, 48, None), image)
    clip = grid(2, 3, 5, 4, 6)
    assert torch.equal(plane(clip, 3, 32, 48, 17), clip[:, :, 2])
    assert torch.equal(plane(clip.transpose(1, 2), 3, 32, 48, 17), clip[:, :, 2])


@pytest.mark.parametrize("name", ["FluxPipeline", "QwenImagePipeline"])
def test_packed_latents_are_unpacked_as_the_pipeline_packs_them(name: str) -> None:
    image = grid(2, 3, 4, 6)
    packed = getattr(diffusers, name)._pack_latents(image, 2, 3, 4, 6)
    assert torch.equal(plane(packed, 3, 32, 48, None), image)


def test_packed_clips_are_unpacked_as_ltx_packs_them() -> None:
    clip = grid(1, 8, 3, 2, 3)
    packed = diffusers.LTXPipeline._pack_latents(clip, 1, 1)
    assert torch.equal(plane(packed, 8, 64, 96, 17), clip[:, :, 1])


@pytest.mark.parametrize("shape", [(1, 5, 4, 4), (1, 3), (1, 7, 3), (1, 4, 4, 4, 4, 4)])
def test_latents_that_are_no_pictures_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"are no pictures|make no grid"):
        plane(grid(*shape), 3, 32, 32, None)


def test_a_picture_has_the_levels_of_its_latents_and_a_bounded_size() -> None:
    latents = torch.stack([torch.full((2, 2), value) for value in (5.0, 100.0, 1000.0)])
    assert picture(latents, Palette(COLOURS, CPU)).tolist() == [[[150, 255, 0]] * 2] * 2
    assert picture(latents * float("nan"), Palette(COLOURS, CPU)).tolist() == [[[0, 0, 0]] * 2] * 2
    assert picture(torch.zeros(3, 600, 300), Palette(COLOURS, CPU)).shape == (200, 100, 3)


# ── in the runner ──


@dataclass
class Loaded:
    """The part of a loaded pipeline that previews look at."""

    pipeline: Any
    card: Any = None
    info: Any = None
    device: torch.device = CPU


def sketcher(pipeline: Any, fits: list[Any], every: int = 2) -> Any:
    pipeline.vae = SimpleNamespace(config=Config())
    loaded = Loaded(pipeline, SimpleNamespace(latent_rgb=None), SimpleNamespace(revision=None))
    sample = Sample("x", None, 1)
    return Previewer(loaded, every, lambda what: None).sketcher(  # type: ignore[arg-type]
        Call((sample, sample, sample), (0, 0, 4), {}), GenerationRequest(height=16, width=16)
    )


def test_every_request_of_a_call_gets_its_first_sample_after_every_kth_step(fits: list[Any]) -> None:
    look = sketcher(SimpleNamespace(scheduler=diffusers.FlowMatchEulerDiscreteScheduler()), fits)
    latents = torch.arange(3.0).view(3, 1, 1, 1).expand(3, 3, 2, 2)
    assert look(1, 4, None, latents) == ((), None)
    pictures, fault = look(2, 4, None, latents)
    assert fault is None
    assert [picture.owner for picture in pictures] == [0, 4]
    assert [picture.pixels[0, 0].tolist() for picture in pictures] == [[100, 50, 200], [120, 90, 190]]


def test_the_first_fault_is_told_once_and_ends_previews(fits: list[Any]) -> None:
    look = sketcher(SimpleNamespace(scheduler=None), fits)
    strange = torch.zeros(3, 1, 9)
    assert look(1, 4, None, strange) == ((), None)
    pictures, fault = look(2, 4, None, strange)
    assert pictures == ()
    assert fault == "ValueError: latents of shape [2, 1, 9] are no pictures of 3 channels"
    assert look(4, 4, None, torch.zeros(3, 3, 2, 2)) == ((), None)


def test_a_vae_that_cannot_be_fitted_is_told_at_the_first_step() -> None:
    loaded = Loaded(SimpleNamespace(), SimpleNamespace(latent_rgb=None), SimpleNamespace(revision=None))
    previewer = Previewer(loaded, 1, lambda what: None)  # type: ignore[arg-type]
    look = previewer.sketcher(Call((Sample("x", None, 1),), (0,), {}), GenerationRequest())
    pictures, fault = look(1, 2, None, torch.zeros(1, 3, 2, 2))
    assert pictures == ()
    assert "has no attribute 'vae'" in str(fault)
    assert look(2, 2, None, torch.zeros(1, 3, 2, 2)) == ((), None)


def test_a_real_pipeline_is_sketched_in_both_modes_and_its_pixels_stay_the_same(
    runner_of: Callable[..., DiffusersRunner], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    runner = runner_of("wan")
    fields: dict[str, Any] = {"prompt": "x", "height": 32, "width": 32, "num_frames": 5, "num_inference_steps": 4}
    (before,) = runner.execute_stepwise([planned(**fields)], lambda state: True)
    monkeypatch.setattr(runner, "_previewer", Previewer(runner._model, 2, lambda what: None))
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
