"""Accuracy on held-out scenes: `python -m tools.demo_model.evaluate WEIGHTS --sizes 64 128 --frames 9 17 -n 200`.

The pipeline renders the captions, each clip is written to a file and read back, and the detector compares it with its
scene.
"""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from diffusers import WanPipeline
from numpy.typing import NDArray

from omni_cli.models.demo.scenes import Scene, caption
from tools.demo_model.detect import Detection, attribute_accuracy, detect
from tools.demo_model.round_trip import round_trip
from tools.demo_model.scene_data import held_out

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
    """Render a clip per prompt, uint8 [T, H, W, 3], seeded by its index; `size` is (frames, height, width)."""
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


def detect_all(clips: Sequence[NDArray[np.uint8]]) -> list[Detection]:
    """Detect the scene of each clip, uint8 [T, H, W, 3], after encoding and decoding it."""
    return [detect(round_trip(clip)) for clip in clips]


def evaluate_sample(pipe: WanPipeline, count: int, sizes: Sequence[tuple[int, int, int]]) -> str:
    """Evaluate the first `count` held-out scenes at each of `sizes` (frames, height, width); return lines for a log."""
    pipe.set_progress_bar_config(disable=True)
    scenes = held_out()[:count]
    lines = []
    for size in sizes:
        detections = detect_all(render(pipe, [caption(scene) for scene in scenes], size))
        lines.append(f"  {_label(size)}  {_row(attribute_accuracy(zip(scenes, detections, strict=True)))}")
    return "\n".join(lines)


def main() -> None:
    """Print a row per size and length."""
    options = _options()
    torch.set_num_threads(options.threads)
    pipe = WanPipeline.from_pretrained(options.weights, torch_dtype=torch.float32)
    pipe.set_progress_bar_config(disable=True)
    scenes: Sequence[Scene] = held_out()[: options.n]
    prompts = [caption(scene) for scene in scenes]
    print(f"{len(scenes)} held-out scenes, {options.steps} steps, guidance {options.guidance}")
    for text in options.sizes:
        width, _, height = text.partition("x")
        for frames in options.frames:
            size = (frames, int(height or width), int(width))
            start = time.perf_counter()
            clips = render(pipe, prompts, size, options.steps, options.guidance, options.max_sequence_length)
            seconds = (time.perf_counter() - start) / len(clips)
            detections = detect_all(clips)
            row = _row(attribute_accuracy(zip(scenes, detections, strict=True)))
            print(f"{_label(size)}  {row}  {seconds:.3f} s", flush=True)
            if options.failures:
                _print_failures(scenes, detections)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m tools.demo_model.evaluate",
        description="Measure the accuracy on scenes that were held out of training.",
    )
    parser.add_argument("weights", type=Path)
    parser.add_argument("--sizes", nargs="+", default=["64", "128"], help="64 or 64x128 (width x height)")
    parser.add_argument("--frames", nargs="+", type=int, default=[9, 17])
    parser.add_argument("-n", type=int, default=200)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--guidance", type=float, default=GUIDANCE)
    parser.add_argument("--max-sequence-length", type=int, default=512)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--failures", action="store_true", help="print the wrong attributes of each clip")
    return parser.parse_args()


def _label(size: tuple[int, int, int]) -> str:
    frames, height, width = size
    return f"{width}x{height}x{frames}".ljust(11)


def _row(shares: dict[str, float]) -> str:
    return "  ".join(f"{name} {100 * shares[name]:5.1f}" for name in COLUMNS if name in shares)


def _print_failures(scenes: Sequence[Scene], detections: Sequence[Detection]) -> None:
    for scene, detection in zip(scenes, detections, strict=True):
        wrong = [n for n in ("foreground", "background", "shape") if vars(detection)[n] != vars(scene)[n]]
        if detection.motion not in (None, scene.motion):
            wrong.append("motion")
        if wrong:
            print(f"    {caption(scene)}: " + ", ".join(f"{n} {vars(detection)[n]}" for n in wrong))


if __name__ == "__main__":
    main()
