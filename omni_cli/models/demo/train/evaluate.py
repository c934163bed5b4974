"""How well a model obeys: `python -m omni_cli.models.demo.train.evaluate WEIGHTS --sizes 64 128 --frames 9 17 -n 200`.

Draws held-out combinations through the pipeline, puts each clip through a real file, and lets the detector judge.
"""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from diffusers import WanPipeline
from numpy.typing import NDArray

from omni_cli.models.demo.detect import Seen, detect, obedience
from omni_cli.models.demo.scenes import Scene, caption, held_out
from omni_cli.models.demo.train.files import through_file

STEPS, GUIDANCE = 8, 3.0
COLUMNS = ("foreground", "background", "shape", "motion", "all")


def render(
    pipe: WanPipeline,
    prompts: Sequence[str],
    size: tuple[int, int, int],
    steps: int = STEPS,
    guidance: float = GUIDANCE,
    max_sequence_length: int = 512,
    batch: int = 8,
) -> list[NDArray[np.uint8]]:
    """One clip for each prompt, uint8 [T, H, W, 3], seeded by its index; `size` is frames, height and width."""
    frames, height, width = size
    clips: list[NDArray[np.uint8]] = []
    for i in range(0, len(prompts), batch):
        part = list(prompts[i : i + batch])
        video = pipe(
            prompt=part, negative_prompt="", num_frames=frames, height=height, width=width,
            num_inference_steps=steps, guidance_scale=guidance, max_sequence_length=max_sequence_length,
            generator=[torch.Generator().manual_seed(i + j) for j in range(len(part))], output_type="np",
        ).frames  # fmt: skip
        clips.extend(np.round(video * 255).astype(np.uint8))
    return clips


def judge(clips: Sequence[NDArray[np.uint8]]) -> list[Seen]:
    """What the detector sees in each clip after a trip through a file."""
    return [detect(through_file(clip)) for clip in clips]


def quick(pipe: WanPipeline, count: int, sizes: Sequence[tuple[int, int, int]]) -> str:
    """A few held-out scenes at each of `sizes`, in words for a log."""
    pipe.set_progress_bar_config(disable=True)
    scenes = held_out()[:count]
    lines = []
    for size in sizes:
        seen = judge(render(pipe, [caption(scene) for scene in scenes], size))
        lines.append(f"  {_label(size)}  {_row(obedience(zip(scenes, seen, strict=True)))}")
    return "\n".join(lines)


def main() -> None:
    """Prints one row for each size and length."""
    options = _options()
    torch.set_num_threads(options.threads)
    pipe = WanPipeline.from_pretrained(options.weights, torch_dtype=torch.float32)
    pipe.set_progress_bar_config(disable=True)
    scenes: Sequence[Scene] = held_out()[: options.n]
    prompts = [caption(scene) for scene in scenes]
    print(f"{len(scenes)} unseen combinations, {options.steps} steps, guidance {options.guidance}")
    for height, width in (_size(text) for text in options.sizes):
        for frames in options.frames:
            began = time.perf_counter()
            clips = render(
                pipe, prompts, (frames, height, width), options.steps, options.guidance, options.max_sequence_length
            )
            seconds = (time.perf_counter() - began) / len(clips)
            seen = judge(clips)
            row = _row(obedience(zip(scenes, seen, strict=True)))
            print(f"{_label((frames, height, width))}  {row}  {seconds:.3f} s", flush=True)
            if options.failures:
                _print_failures(scenes, seen)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure obedience on combinations that training did not see.")
    parser.add_argument("weights", type=Path)
    parser.add_argument("--sizes", nargs="+", default=["64", "128"], help="64 or 64x128 (width x height)")
    parser.add_argument("--frames", nargs="+", type=int, default=[9, 17])
    parser.add_argument("-n", type=int, default=200)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--guidance", type=float, default=GUIDANCE)
    parser.add_argument("--max-sequence-length", type=int, default=512)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--failures", action="store_true", help="say what was asked and what was seen")
    return parser.parse_args()


def _size(text: str) -> tuple[int, int]:
    width, _, height = text.partition("x")
    return int(height or width), int(width)


def _label(size: tuple[int, int, int]) -> str:
    frames, height, width = size
    return f"{width}x{height}x{frames}".ljust(11)


def _row(shares: dict[str, float]) -> str:
    return "  ".join(f"{name} {100 * shares[name]:5.1f}" for name in COLUMNS if name in shares)


def _print_failures(scenes: Sequence[Scene], seen: Sequence[Seen]) -> None:
    for scene, found in zip(scenes, seen, strict=True):
        wrong = [n for n in ("foreground", "background", "shape") if vars(found)[n] != vars(scene)[n]]
        if found.motion not in (None, scene.motion):
            wrong.append("motion")
        if wrong:
            print(f"    {caption(scene)}: " + ", ".join(f"{n} {vars(found)[n]}" for n in wrong))


if __name__ == "__main__":
    main()
