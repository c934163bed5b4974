"""One pipeline measured: what the runner gives for a row of a prompt file, beside what plain diffusers gives."""

import functools
import inspect
import json
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import av
import numpy as np
import torch
from diffusers import SchedulerMixin
from PIL import Image

from omni_cli.config import EngineConfig, ModelConfig, OutputConfig, RunConfig
from omni_cli.inputs import replaced_files
from omni_cli.media import Kind, Media
from omni_cli.models.keywords import NAMES
from omni_cli.models.model_defaults import FIELDS
from omni_cli.planner import Planner
from omni_cli.planner.facts import KnownFacts
from omni_cli.planner.models import ModelFacts, Models
from omni_cli.prompts import read
from omni_cli.request import PlannedRequest
from omni_cli.worker.runner import DiffusersRunner
from tests.pipelines.cases import PROMPT, Case
from tests.worker.conftest import levels, load, plain

OTHER = "a much longer prompt about a blue square that moves to the left"

Array = np.ndarray[Any, Any]
Values = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The measurement of one case, in levels of 255 (in sound samples for audio).

    `alone` is the largest difference from plain diffusers, `together` that between samples of one call and the same
    rendered one by one (None where samples never share a call), `track` the one of the sound beside a clip. `steps` are
    the reported (step, total). `defaults` are what a row with nothing but its prompt and its input files asks for,
    and what the pipeline uses when it is called with nothing else.
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
    defaults: tuple[Values, Values]


def measure(case: Case, model: Path, folder: Path) -> Outcome:
    """Run `case` over the saved `model`; `folder` holds the input files and is written to."""
    runner = load(str(model))
    first, second = _planned(case.fields, case, runner, model, folder)
    steps: list[tuple[int, int]] = []
    media = runner.execute_model([first], lambda *step: steps.append(step), lambda: False)[0]
    known = KnownFacts(EngineConfig(), {"XDG_CACHE_HOME": "nowhere"})
    facts = known.look_up(ModelConfig(model=str(model), device="cpu"))
    assert facts == runner._model.loaded_message, "planning and the worker know the same"
    pipeline = plain(model)
    output = _by_diffusers(case, pipeline, folder)
    ours, theirs = values(media), _array(output, case)
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
        defaults=_defaults(case, runner, pipeline, folder),
    )


def values(media: Media) -> Array:
    """uint8 levels of a picture or clip, float samples [N, C, S] of sound."""
    return media.data.float().numpy() if media.spec.kind is Kind.AUDIO else levels(media)


def _defaults(case: Case, runner: DiffusersRunner, pipeline: Any, folder: Path) -> tuple[Values, Values]:
    """What a row of the prompt and the input files asks for, and what the pipeline uses for these alone."""
    files = {name: value for name, value in case.fields.items() if name in READERS}
    fields = files | case.least
    request = _planned(fields, case, runner, Path(pipeline.name_or_path), folder)[0].request
    theirs = used_by(pipeline, _keywords(fields, case, folder) | runner._model.card.call)
    if files:  # inputs give the size
        theirs = {name: value for name, value in theirs.items() if name not in ("height", "width", "num_frames")}
    return {name: getattr(request, name) for name in theirs}, theirs | case.advice


def used_by(pipeline: Any, keywords: dict[str, Any]) -> Values:
    """What the call of `pipeline` with `keywords` uses for fields of a request, once it comes to its VAE or its steps.

    The pipeline is good for nothing else afterwards.
    """

    class ComesToSteps(BaseException):
        """Ends the call."""

    def stop(*args: Any, **more: Any) -> None:
        raise ComesToSteps

    for part in (getattr(pipeline, name, None) for name in pipeline.config):
        for method in ("set_timesteps", "encode"):
            if isinstance(part, SchedulerMixin | torch.nn.Module) and hasattr(part, method):
                setattr(part, method, functools.wraps(getattr(part, method))(stop))
    try:
        pipeline(**keywords, generator=torch.Generator("cpu").manual_seed(5))
    except ComesToSteps as reached:
        calls = (frame for frame, _ in traceback.walk_tb(reached.__traceback__) if frame.f_code.co_name == "__call__")
        values = next(frame.f_locals for frame in calls if frame.f_locals.get("self") is pipeline)
    taken = inspect.signature(pipeline.__call__).parameters
    names = {field: name for field in FIELDS for name in NAMES[field] if name in taken and field != "fps"}
    return {field: values[name] for field, name in names.items() if values[name] is not None}


def _planned(
    fields: dict[str, Any], case: Case, runner: DiffusersRunner, model: Path, folder: Path
) -> list[PlannedRequest]:
    """A row of `fields` twice, as a prompt file: with seed 5, and with another prompt and seed."""
    rows = []
    for seed, prompt in ((5, PROMPT), (6, OTHER)):
        rows.append({"id": f"r{seed}", "seed": seed, **({"prompt": prompt} if case.prompt else {}), **fields})
    path = folder / f"{case.model}.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    facts = runner._model.loaded_message
    config = RunConfig(model=ModelConfig(model=str(model)), output=OutputConfig(output_dir=str(folder / "out")))
    models = Models(config.model, folder, lambda _: ModelFacts(facts.card, facts.info, facts.versions))
    planner = Planner(config, models, folder)
    planner.check_all(read(str(path)))
    return list(planner.plan_all(read(str(path))))


def _by_diffusers(case: Case, pipeline: Any, folder: Path) -> Any:
    """What the pipeline's own `__call__` gives for the same fields."""
    keywords = _keywords(case.fields, case, folder) | case.plain
    return pipeline(**keywords, generator=torch.Generator("cpu").manual_seed(5), output_type="np")


def _keywords(fields: dict[str, Any], case: Case, folder: Path) -> dict[str, Any]:
    """The keywords of the pipeline's call for `fields`, in diffusers' words."""
    keywords: dict[str, Any] = {"prompt": PROMPT} if case.prompt else {}
    for name, value in fields.items():
        read_file = READERS.get(name)
        keywords[case.names.get(name, name)] = value if read_file is None else read_file(folder / value)
    for name, value in keywords.pop("extra", {}).items():
        keywords[name] = replaced_files(value, name, lambda file: READERS[file.kind](folder / file.path))
    return keywords


def _array(output: Any, case: Case) -> Array:
    """Pictures or frames quantized by rounding, several pictures of one sample side by side; sound as it is."""
    floats = np.asarray(next(iter(output.values())))
    if case.file == ".wav":
        return floats if floats.ndim == 3 else floats[:, None]
    if case.file == ".png":
        floats = np.concatenate(list(floats), axis=1)[None]
    elif floats.ndim == 4:
        floats = floats[None]
    return (((floats - case.black_level) / (1 - case.black_level)) * 255).round().astype(np.uint8)


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
    """Write picture.png, last.png, mask.png and clip.mp4 (64x32, five frames) of fixed noise and shapes to `folder`."""
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


READERS: dict[str, Callable[[Path], Any]] = {"image": _rgb, "last_image": _rgb, "mask": _grey, "video": _frames}
"""Fields that name files, and how plain diffusers is given them."""
