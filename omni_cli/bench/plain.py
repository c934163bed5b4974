"""The loop that a user of diffusers writes, as a program of its own: `pipe(...)`, then `image.save` or `export_to_video`.

Only here do a bench's arms meet torch and diffusers. Nothing of the engine's output path is used: no seam, no side stream, no
writers; settings are the libraries' defaults. Speaks JSON lines (see `plain_arm`).
"""

import os
import sys
import time
from pathlib import Path
from typing import IO, Any

import msgspec
import numpy as np
import torch
from diffusers import DiffusionPipeline
from diffusers.utils import export_to_gif, export_to_video

from omni_cli.bench.plain_arm import PlainDone, PlainModel, PlainReady, PlainRound
from omni_cli.config import ModelConfig
from omni_cli.models.cards import Card
from omni_cli.models.source import Form, locate
from omni_cli.request import Interval, PlannedRequest
from omni_cli.worker.calls import keywords
from omni_cli.worker.loader.hub import download
from omni_cli.worker.loader.place import place
from omni_cli.worker.loader.quiet import quiet
from omni_cli.worker.loader.single_file import load_file

_PICTURES = ("png", "jpeg", "webp", "gif")


def main() -> None:
    """Load, then one loop per line until the input ends."""
    # Libraries print to stdout; the answers keep it to themselves.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    job = msgspec.json.decode(sys.stdin.buffer.readline(), type=PlainModel)
    pipe, device, dtype = load(job.model)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else ""
    ready = PlainReady(
        pipeline=type(pipe).__name__,
        device=str(device),
        dtype=str(dtype).removeprefix("torch."),
        device_name=name,
    )
    _answer(answers, ready)
    for line in sys.stdin.buffer:
        _answer(answers, loop(pipe, msgspec.json.decode(line, type=PlainRound).requests, job.card, Path(job.folder)))


def load(model: ModelConfig) -> tuple[Any, torch.device, torch.dtype]:
    """The pipeline as its own library loads it."""
    source = locate(model)
    device, dtype = place(model)
    with quiet():
        if source.form is Form.FILE and source.path is not None:
            pipe = load_file(source.path, model, dtype)
        else:
            pipe = DiffusionPipeline.from_pretrained(
                source.path or download(model, lambda what: None),
                torch_dtype=dtype,
                variant=model.variant,
                use_safetensors=True,
                trust_remote_code=model.trust_remote_code,
                custom_pipeline=model.custom_pipeline,
            )
        pipe.to(device)
    pipe.set_progress_bar_config(disable=True)
    return pipe, device, dtype


def loop(pipe: Any, requests: tuple[PlannedRequest, ...], card: Card, folder: Path) -> PlainDone:
    """The loop itself. Keywords are made beforehand: a user has them in the source."""
    calls = [_keywords(planned, card) for planned in requests]
    forwards, saves = [], []
    for planned, call in zip(requests, calls, strict=True):
        path = folder / planned.files[0]
        path.parent.mkdir(parents=True, exist_ok=True)
        start = time.monotonic()
        output = pipe(**call, generator=torch.Generator("cpu").manual_seed(planned.seeds[0]))
        computed = time.monotonic()
        save(output, path, planned.request.format, planned.request.fps)
        forwards.append(Interval(start, computed))
        saves.append(Interval(computed, time.monotonic()))
    return PlainDone(forwards=tuple(forwards), saves=tuple(saves))


def _keywords(planned: PlannedRequest, card: Card) -> dict[str, Any]:
    request = planned.request
    call = keywords(request, card) | {"output_type": "pil" if request.format in _PICTURES else "np"}
    texts = {"prompt": request.prompt, "negative_prompt": request.negative_prompt}
    return call | {name: text for name, text in texts.items() if text is not None}


def save(output: Any, path: Path, form: str | None, fps: float | None) -> None:
    """One sample to disk, in one line each. npy holds the levels that the other arms encode: [H, W, C] or [T, H, W, C]."""
    sample = (output.frames if hasattr(output, "frames") else output.images)[0]
    if form == "mp4":
        export_to_video(list(sample), str(path), fps=fps)
    elif form == "gif":
        export_to_gif(list(sample), str(path), fps=fps)
    elif form == "npy":
        levels = (np.asarray(sample) * 255).round().astype(np.uint8)
        np.save(path, levels[0] if levels.ndim == 4 and len(levels) == 1 else levels)
    else:
        (sample[0] if isinstance(sample, list) else sample).save(path)


def _answer(answers: IO[bytes], answer: PlainReady | PlainDone) -> None:
    answers.write(msgspec.json.encode(answer) + b"\n")
    answers.flush()


if __name__ == "__main__":
    main()
