"""Training of the demo model from random weights: `python -m tools.demo_model --out DIR`.

    drawn clips -> vae.py -> DIR/vae.pt -> latents.py -> dit.py -> DIR/dit.pt -> export.py -> DIR/weights
                                                           ^ text.py   └─> evaluate.py: accuracy during training

Both stages write a checkpoint every minute and continue from it with `--resume`. A stage whose minutes are used up is
only loaded.
"""

import argparse
import os
from pathlib import Path

os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "8192")  # torch reads it at its first convolution

import torch
from diffusers import WanPipeline

from tools.demo_model import evaluate, vae
from tools.demo_model.dit import DiTStage
from tools.demo_model.export import build_pipeline, export, set_latent_statistics

LOGGED_SCENES, LOGGED_SIZES = 24, ((9, 64, 64), (9, 128, 128))


def main() -> None:
    """Run both stages and export the pipeline."""
    options = _options()
    torch.set_num_threads(options.threads)
    torch.set_flush_denormal(True)  # denormals make late training several times slower
    options.out.mkdir(parents=True, exist_ok=True)
    autoencoder = vae.train(options.out, options.minutes_vae, options.seed, options.resume)
    for size in ((1, 64, 64), (9, 64, 64), (9, 128, 128)):
        print(f"vae {size}: {vae.psnr(autoencoder, *size):.2f} dB", flush=True)
    stage = DiTStage(autoencoder.requires_grad_(False), options.seed)
    checkpoint = options.out / "dit.pt"
    if options.resume and checkpoint.exists():
        stage.load(checkpoint)
    set_latent_statistics(autoencoder, stage.pools.mean, stage.pools.std)
    stage.train(checkpoint, options.minutes_dit, _log_accuracy)
    export(_build_pipeline(stage), options.export or options.out / "weights")


def _log_accuracy(stage: DiTStage) -> None:
    print(evaluate.evaluate_sample(_build_pipeline(stage), LOGGED_SCENES, LOGGED_SIZES), flush=True)


def _build_pipeline(stage: DiTStage) -> WanPipeline:
    return build_pipeline(stage.vae, stage.encoder, stage.tokenizer, stage.transformer)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m tools.demo_model", description="Train the demo model from random weights."
    )
    parser.add_argument("--out", type=Path, required=True, help="folder for checkpoints and the result")
    parser.add_argument("--export", type=Path, help="folder for the pipeline (default: OUT/weights)")
    parser.add_argument("--minutes-vae", type=float, default=25.0)
    parser.add_argument("--minutes-dit", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--resume", action="store_true", help="continue from the checkpoints in OUT")
    return parser.parse_args()


if __name__ == "__main__":
    main()
