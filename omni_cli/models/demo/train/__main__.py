"""`python -m omni_cli.models.demo.train --out DIR`: from nothing to a folder that `WanPipeline` loads.

    drawn clips -> vae.py -> DIR/vae.pt -> latents.py -> dit.py -> DIR/dit.pt -> export.py -> DIR/weights
                                                          text.py ^     evaluate.py: obedience, as it goes

Both stages write a checkpoint every minute; `--resume` goes on from them. A stage whose time is spent is only loaded.
"""

import argparse
import os
from pathlib import Path

os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "8192")  # read once, when torch first runs a convolution

import torch
from diffusers import WanPipeline

from omni_cli.models.demo.train import evaluate, vae
from omni_cli.models.demo.train.dit import DiTStage
from omni_cli.models.demo.train.export import export, pipeline, set_statistics

LOGGED_SCENES, LOGGED_SIZES = 24, ((9, 64, 64), (9, 128, 128))


def main() -> None:
    """Runs both stages and exports."""
    options = _options()
    torch.set_num_threads(options.threads)
    torch.set_flush_denormal(True)  # denormals slow late training down several times
    options.out.mkdir(parents=True, exist_ok=True)
    autoencoder = vae.train(options.out, options.minutes_vae, options.seed, options.resume)
    for size in ((1, 64, 64), (9, 64, 64), (9, 128, 128)):
        print(f"vae {size}: {vae.psnr(autoencoder, *size):.2f} dB", flush=True)
    stage = DiTStage(autoencoder.requires_grad_(False), options.seed)
    checkpoint = options.out / "dit.pt"
    if options.resume and checkpoint.exists():
        stage.load(checkpoint)
    set_statistics(autoencoder, stage.pools.mean, stage.pools.std)
    stage.train(checkpoint, options.minutes_dit, _log_obedience)
    export(_pipeline(stage), options.export or options.out / "weights")


def _log_obedience(stage: DiTStage) -> None:
    print(evaluate.quick(_pipeline(stage), LOGGED_SCENES, LOGGED_SIZES), flush=True)


def _pipeline(stage: DiTStage) -> WanPipeline:
    return pipeline(stage.vae, stage.encoder, stage.words, stage.transformer)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train the demo model from nothing.")
    parser.add_argument("--out", type=Path, required=True, help="folder for checkpoints and the result")
    parser.add_argument("--export", type=Path, help="where the diffusers folder goes; OUT/weights by default")
    parser.add_argument("--minutes-vae", type=float, default=25.0)
    parser.add_argument("--minutes-dit", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoints in OUT")
    return parser.parse_args()


if __name__ == "__main__":
    main()
