"""One pipeline measured: what the runner gives for a row of a prompt file, beside what plain diffusers gives."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import av
import numpy as np
import torch
from PIL import Image

from omni_cli.config import ModelConfig, OutputConfig, RunConfig
from omni_cli.media import Kind, Media
from omni_cli.planner import Planner
from omni_cli.planner.models import Facts, Models
from omni_cli.prompts import read
from omni_cli.request import PlannedRequest
from omni_cli.worker.runner import DiffusersRunner
from tests.pipelines.cases import PROMPT, Case
from tests.worker.conftest import levels, load, plain

OTHER = "a much longer prompt about a blue square that moves to the left"

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was seen of one case. `alone` and `together` are the largest difference: in levels of 255, in sound samples for audio.

    `alone` compares with plain diffusers, `together` samples of one call with the same made one by one; None where the card
    says that samples do not share a call. `track` is as `alone`, for the sound beside a clip. `steps` are the (step, total) that were told.
    """

    pipeline: str
    kind: Kind
    file: str
    fps: float | None
    alone: float
    together: float | None
    track: float | None
    contrast: float
    steps: tuple[tuple[int, int], ...]


def measure(case: Case, model: Path, folder: Path) -> Outcome:
    """Run `case` over the saved `model`; `folder` holds the input files and is written to."""
    runner = load(str(model))
    first, second = _planned(case, runner, model, folder)
    steps: list[tuple[int, int]] = []
    media = runner.execute_model([first], lambda *step: steps.append(step), lambda: False)[0]
    output = _by_diffusers(case, plain(model), folder)
    ours, theirs = values(media), _array(output)
    return Outcome(
        pipeline=type(runner._model.pipeline).__name__,
        kind=media.spec.kind,
        file=Path(first.files[0]).suffix,
        fps=first.request.fps,
        alone=_difference(ours, theirs),
        together=_together(runner, [first, second], media) if runner._model.card.batchable else None,
        track=None if media.audio is None else _difference(values(media.audio), np.asarray(output.audio)),
        contrast=float(theirs.astype(np.float64).std()),
        steps=tuple(steps),
    )


def values(media: Media) -> Array:
    """uint8 levels of a picture or clip, float samples [N, C, S] of sound."""
    return media.data.float().numpy() if media.spec.kind is Kind.AUDIO else levels(media)


def _planned(case: Case, runner: DiffusersRunner, model: Path, folder: Path) -> list[PlannedRequest]:
    """The case twice, as a prompt file: with seed 5, and with another prompt and seed."""
    rows = []
    for seed, prompt in ((5, PROMPT), (6, OTHER)):
        rows.append({"id": f"r{seed}", "seed": seed, **({"prompt": prompt} if case.prompt else {}), **case.fields})
    path = folder / f"{case.model}.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    facts = runner._model.facts
    config = RunConfig(model=ModelConfig(model=str(model)), output=OutputConfig(output_dir=str(folder / "out")))
    models = Models(config.model, folder, lambda _: Facts(facts.card, facts.info, facts.versions))
    planner = Planner(config, models, folder)
    planner.check_all(read(str(path)))
    return list(planner.plan_all(read(str(path))))


def _by_diffusers(case: Case, pipeline: Any, folder: Path) -> Any:
    """What the pipeline's own `__call__` gives for the same fields."""
    readers: dict[str, Callable[[Path], Any]] = {"image": _rgb, "last_image": _rgb, "mask": _grey, "video": _frames}
    keywords: dict[str, Any] = {"prompt": PROMPT} if case.prompt else {}
    for name, value in case.fields.items():
        read_file = readers.get(name)
        keywords[case.names.get(name, name)] = value if read_file is None else read_file(folder / value)
    keywords |= keywords.pop("extra", {}) | case.plain
    return pipeline(**keywords, generator=torch.Generator("cpu").manual_seed(5), output_type="np")


def _array(output: Any) -> Array:
    """Pictures or frames quantized by rounding, sound as it is."""
    if hasattr(output, "audios"):
        return np.asarray(output.audios)
    floats = np.asarray(output.frames if hasattr(output, "frames") else output.images)
    return (floats * 255).round().astype(np.uint8)


def _together(runner: DiffusersRunner, requests: list[PlannedRequest], first: Media) -> float:
    """Largest difference between `requests` in one call and each alone; `first` is what the first gave alone."""
    together: set[int] = set()
    made = runner.execute_model(requests, lambda step, total: together.add(total), lambda: False)
    steps = requests[0].request.num_inference_steps
    assert together == {steps}, f"{together}: they did not share a call of {steps} steps"
    second = runner.execute_model(requests[1:], lambda *step: None, lambda: False)[0]
    return max(_difference(values(one), values(other)) for one, other in zip(made, [first, second], strict=True))


def _difference(one: Array, other: Array) -> float:
    assert one.shape == other.shape, f"{one.shape} is not {other.shape}"
    return float(np.abs(one.astype(np.float64) - other.astype(np.float64)).max())


def write_inputs(folder: Path) -> None:
    """picture.png, last.png, mask.png and clip.mp4, 64 wide and 32 high, five frames: noise over shapes, always the same."""
    random = np.random.default_rng(0)
    for name in ("picture", "last"):
        Image.fromarray(random.integers(0, 255, (32, 64, 3), dtype=np.uint8)).save(folder / f"{name}.png")
    mask = np.zeros((32, 64), np.uint8)
    mask[8:24, 16:48] = 255
    Image.fromarray(mask).save(folder / "mask.png")
    with av.open(str(folder / "clip.mp4"), "w") as container:
        stream = container.add_stream("libx264", rate=8)
        stream.width, stream.height, stream.pix_fmt = 64, 32, "yuv420p"
        for _ in range(5):
            pixels = random.integers(0, 255, (32, 64, 3), dtype=np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, "rgb24")))
        container.mux(stream.encode(None))


def _rgb(path: Path) -> Image.Image:
    return Image.open(path).convert("RGB")


def _grey(path: Path) -> Image.Image:
    return Image.open(path).convert("L")


def _frames(path: Path) -> list[Image.Image]:
    with av.open(str(path)) as container:
        return [frame.to_image() for frame in container.decode(video=0)]
