"""The loop that a user of diffusers writes, as a program: `pipe(...)`, then `image.save` or `export_to_video`.

It uses nothing of the engine's output path (device output processor, side stream, writers), and the libraries' default
settings unless the arm is tuned. It reads and writes the JSON lines of `plain_arm`.
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
from omni_cli.models.model_files import ModelForm, locate
from omni_cli.request import Interval, PlannedRequest
from omni_cli.worker.intra_op_threads import intra_op_threads
from omni_cli.worker.loader.hub import download, quiet_libraries
from omni_cli.worker.loader.single_file import load_single_file
from omni_cli.worker.loader.tune import resolve_device_and_dtype
from omni_cli.worker.pipeline.invocation import call_arguments

_PIL_FORMATS = ("png", "jpeg", "webp", "gif")


def main() -> None:
    """Load the model, then run one loop per line of input until it ends."""
    # Libraries print to stdout: replies get a descriptor of their own, and stdout becomes stderr.
    replies = os.fdopen(os.dup(1), "wb")
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
    _reply(replies, ready)
    for line in sys.stdin.buffer:
        turn = msgspec.json.decode(line, type=PlainRound)
        with torch.inference_mode(job.inference_mode), intra_op_threads(turn.threads or torch.get_num_threads()):
            done = loop(pipe, turn.requests, job.card, Path(job.folder))
        _reply(replies, done)


def load(model: ModelConfig) -> tuple[Any, torch.device, torch.dtype]:
    """Load the pipeline as diffusers does; return it with its device and dtype. Raises what diffusers raises."""
    source = locate(model)
    device, dtype = resolve_device_and_dtype(model)
    with quiet_libraries():
        if source.form is ModelForm.FILE and source.path is not None:
            pipe = load_single_file(source.path, model, dtype)
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
    """Run the loop over `requests`. The keywords are built before it: a user has them in the source."""
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
    call = call_arguments(request, card) | {"output_type": "pil" if request.format in _PIL_FORMATS else "np"}
    texts = {"prompt": request.prompt, "negative_prompt": request.negative_prompt}
    return call | {name: text for name, text in texts.items() if text is not None}


def save(output: Any, path: Path, form: str | None, fps: float | None) -> None:
    """Write the first sample, with one call per format. An npy file holds the levels that other arms encode.

    Levels are uint8 [H, W, C] or [T, H, W, C].
    """
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


def _reply(replies: IO[bytes], reply: PlainReady | PlainDone) -> None:
    replies.write(msgspec.json.encode(reply) + b"\n")
    replies.flush()


if __name__ == "__main__":
    main()
