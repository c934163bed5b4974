"""Training: its fast paths compute what diffusers computes, a resumed run is the same run, and the export loads."""

import random
from pathlib import Path

import numpy as np
import pytest
import torch
from diffusers import WanPipeline
from torch import nn

from omni_cli.config import ModelConfig
from omni_cli.models.demo.scenes import all_scenes
from omni_cli.models.registry import known_card
from tools.demo_model import dit, text, vae
from tools.demo_model.draw import draw, random_placements
from tools.demo_model.export import build_pipeline, export, set_latent_statistics
from tools.demo_model.latents import Bucket, LatentPools
from tools.demo_model.optim import Trainer, orthogonalize
from tools.demo_model.round_trip import round_trip
from tools.demo_model.scene_data import held_out, training_scenes

PROMPTS = ["a red circle on a blue background", "", "a green square moving left on a black background, at noon"]


@torch.no_grad()
@pytest.mark.parametrize("length", [32, 512])
def test_one_biased_padding_row_replaces_all_of_them(length: int) -> None:
    torch.manual_seed(0)
    tokenizer, transformer = text.build_tokenizer(), dit.build(4)
    encoder = text.build_encoder(len(tokenizer))
    nn.init.normal_(transformer.proj_out.weight)
    noisy, t = torch.randn(3, 4, 2, 4, 6), torch.tensor([10.0, 500.0, 990.0])
    with torch.compiler.set_stance("force_eager"):
        ours = dit.velocity(transformer, noisy, t, *text.embed(encoder, tokenizer, PROMPTS, [length] * 3))
    batch = tokenizer(PROMPTS, padding="max_length", max_length=length, return_tensors="pt")
    hidden = encoder(**batch).last_hidden_state * batch["attention_mask"].unsqueeze(-1)
    theirs = transformer(noisy, t, hidden, return_dict=False)[0]
    assert torch.allclose(ours, theirs, atol=1e-3 * theirs.std().item())


@torch.no_grad()
def test_speed_up_changes_no_result() -> None:
    torch.manual_seed(0)
    plain = vae.build().eval()
    fast = vae.build().eval()
    fast.load_state_dict(plain.state_dict())
    vae.speed_up(fast)
    clips = draw(all_scenes()[:2], random_placements(2, torch.Generator()), 5, 32, 48) * 2 - 1
    latents = plain.encode(clips).latent_dist.mode()
    assert torch.allclose(fast.encode(clips).latent_dist.mode(), latents, atol=1e-4)
    assert torch.allclose(vae.decode(fast, latents).clamp(-1, 1), plain.decode(latents).sample, atol=1e-4)


def test_orthogonalized_matrices_have_singular_values_near_one() -> None:
    values = torch.linalg.svdvals(orthogonalize(torch.randn(3, 24, 40, generator=torch.Generator().manual_seed(0))))
    assert values.min() > 0.5
    assert values.max() < 1.5


def test_resumed_training_equals_uninterrupted_training() -> None:
    def fresh() -> Trainer:
        torch.manual_seed(0)
        return Trainer(nn.ModuleDict({"net": nn.Linear(4, 4)}), lr=0.01, matrix_lr=0.01, ema=0.9, warmup=1)

    def go(trainer: Trainer, steps: int) -> None:
        for _ in range(steps):
            trainer.step(trainer.modules["net"](torch.ones(1, 4)).square().sum(), 0.0)

    whole, first, second = fresh(), fresh(), fresh()
    go(whole, 6)
    go(first, 3)
    second.load_state_dict(first.state_dict())
    go(second, 3)
    assert torch.equal(whole.modules["net"].weight, second.modules["net"].weight)
    assert torch.equal(whole.ema["net.weight"], second.ema["net.weight"])


def test_pools_contain_no_held_out_scene() -> None:
    pools = LatentPools(
        vae.build(), random.Random(0), torch.Generator().manual_seed(0), measured_sizes=[(5, 32, 32, 4)]
    )
    bucket = Bucket(1, 32, 32, 64, 1.0, 1.0)
    pools.pools[bucket] = []
    scenes, latents = pools.batch(bucket)
    assert latents.shape == (64, vae.CONFIG["z_dim"], 1, 4, 4)
    assert set(scenes) <= set(training_scenes())
    assert not set(scenes) & set(held_out())


def test_export_is_a_folder_that_wan_pipeline_loads(tmp_path: Path) -> None:
    tokenizer, autoencoder = text.build_tokenizer(), vae.build()
    set_latent_statistics(autoencoder, torch.zeros(12), torch.ones(12))
    export(build_pipeline(autoencoder, text.build_encoder(len(tokenizer)), tokenizer, dit.build(12)), tmp_path)
    pipe = WanPipeline.from_pretrained(tmp_path, torch_dtype=torch.float32, local_files_only=True)
    pipe.set_progress_bar_config(disable=True)
    video = pipe("a red circle", num_frames=5, height=32, width=32, num_inference_steps=1, output_type="np").frames
    assert video.shape == (1, 5, 32, 32, 3)
    card = known_card("WanPipeline", ModelConfig(model=str(tmp_path)))
    assert card is not None
    assert (card.defaults.height, card.defaults.num_frames) == (64, 9)


def test_round_trips_keep_size_and_length() -> None:
    for shape in ((1, 48, 80, 3), (9, 48, 80, 3)):
        assert round_trip(np.zeros(shape, np.uint8)).shape == shape
