"""Requests and results: what a user asks for, what is planned, and what came of it.

Pure data (msgspec structs), so that prompt files, messages between processes and manifest rows are decoded with checked
types and an error that gives the path of the fault. The parent process imports this module: no torch.
"""

import re
from typing import Any, Literal, NamedTuple

import msgspec

from omni_cli.shape import Shape

SCHEMA_VERSION = 2
"""Of manifest rows. Version 1 (omni-gen 0.1.0) had the seeds in the fingerprint, and ids by row number."""

MAX_SEED = 2**63 - 1
"""Largest seed: `torch.Generator.manual_seed` takes a signed 64-bit integer; seeds here are not negative."""

DERIVED_SEEDS = 2**32
"""Seeds of outputs whose request gives none are below this."""

EXACT_INTEGERS = 2**53
"""Largest integer up to which every JSON reader is exact: many read all numbers as 64-bit floats."""

_LARGE_SEED = re.compile(rb'"seeds?":(?:\[[0-9,]*)?[0-9]{16}')

Status = Literal["done", "failed", "cancelled"]


class Adapter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A LoRA: `path` is a file, folder or hub id."""

    path: str
    weight: float = 1.0


class GenerationRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One request, with diffusers' own names. None means that the field was not given.

    `height` and `width` are pixels, `fps` frames per second, `seconds` the length of a clip without `num_frames`,
    `seed` the seed of the first output. `image`, `last_image`, `mask`, `video`, `prompt_embeds` and `latents` are
    paths of input files (see `inputs`). `extra` holds any other keyword of the pipeline's `__call__`. `model` is a
    model other than the run's: "demo", a folder, a hub id, or a `.safetensors` file. `prompt_weighting` is the syntax
    of weights in the texts, such as "a1111" for `(red:1.3)`; without it, brackets are words. `interpolate` is the
    factor by which frames and fps are multiplied. `output` is the file name inside the output folder, `format` the
    name of a format ("png", "mp4", ...), `quality` that of a JPEG, WebP or AVIF file, 1 to 100. `meta` is what the
    user keeps about the request: it goes into the row and changes nothing else.
    """

    id: str | None = None
    model: str | None = None
    prompt: str | None = None
    negative_prompt: str | None = None
    prompt_weighting: str | None = None
    seed: int | None = None
    height: int | None = None
    width: int | None = None
    num_frames: int | None = None
    seconds: float | None = None
    fps: float | None = None
    num_inference_steps: int | None = None
    guidance_scale: float | None = None
    guidance_scale_2: float | None = None
    true_cfg_scale: float | None = None
    strength: float | None = None
    image: str | list[str] | None = None
    last_image: str | None = None
    mask: str | None = None
    video: str | None = None
    prompt_embeds: str | None = None
    latents: str | None = None
    num_outputs: int | None = None
    interpolate: int | None = None
    lora: list[Adapter] | None = None
    extra: dict[str, Any] | None = None
    output: str | None = None
    format: str | None = None
    quality: int | None = None
    meta: dict[str, Any] | None = None


class OutputFile(msgspec.Struct, frozen=True, kw_only=True):
    """A finished output file, or folder of frames. `path` is POSIX and relative to the output folder.

    An image has `frames` 1 and `fps` None; `width`, `height` and `frames` are 0 where there is no picture.
    `sample_rate` (Hz), `samples` (per channel) and `channels` are set only where there is sound. The `sha256` of a
    folder covers the names and hashes of its files, its `bytes` is their sum.
    """

    path: str
    sha256: str
    bytes: int
    width: int
    height: int
    frames: int
    fps: float | None = None
    sample_rate: int | msgspec.UnsetType = msgspec.UNSET
    samples: int | msgspec.UnsetType = msgspec.UNSET
    channels: int | msgspec.UnsetType = msgspec.UNSET


class FinishedOutput(msgspec.Struct, frozen=True, kw_only=True):
    """An output that an earlier run has finished. `number` counts the outputs of its request from 0."""

    number: int
    seed: int
    file: OutputFile


class InputRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An input file as it was when its request was planned.

    `field` is its place in the request (`image`, `extra.control_image`), `name` its base name, `bytes` the size of a
    file, None for a folder. An adapter on a hub has its id as `name` and no `sha256`, nor has a file that could not be
    read.
    """

    field: str
    name: str
    sha256: str | None = None
    bytes: int | None = None


class PlannedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request with nothing left open: this is what crosses to the worker and what a manifest row records.

    `request` has id, format, sizes, fps and num_outputs filled in. `seeds` and `files` have one entry per output to
    render; `files` are POSIX paths relative to the output folder. `shape` decides which requests share a pipeline
    call. `floats_for` names what needs more than 8 bits of a level (a 16-bit encoder); "" if nothing does. `numbers`
    are those of the outputs to render, where that is not all of them: the others are in `finished`. `notes` go into
    the row. `inputs` has one entry per input file, in the order of `inputs.input_files`.
    """

    request: GenerationRequest
    index: int
    seeds: tuple[int, ...]
    files: tuple[str, ...]
    fingerprint: str
    shape: Shape = Shape()
    floats_for: str = ""
    numbers: tuple[int, ...] | None = None
    finished: tuple[FinishedOutput, ...] = ()
    notes: tuple[str, ...] = ()
    inputs: tuple[InputRecord, ...] = ()

    def number(self, position: int) -> int:
        """Return the number among all outputs of the request of the output at `position` in `seeds` and `files`."""
        return position if self.numbers is None else self.numbers[position]

    @property
    def id(self) -> str:
        """The request's id, filled in by the planner."""
        assert self.request.id is not None
        return self.request.id


class Interval(msgspec.Struct, frozen=True, array_like=True):
    """Seconds of the system-wide monotonic clock, which all processes of a machine share."""

    start: float
    end: float

    @property
    def seconds(self) -> float:
        """Length in seconds."""
        return self.end - self.start


class Timings(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds that a request spent in each phase. `forward` is that of the whole batch, undivided."""

    queued: float = 0.0
    forward: float = 0.0
    d2h: float = 0.0
    encode: float = 0.0
    write: float = 0.0


class Starts(msgspec.Struct, frozen=True, kw_only=True):
    """When the phases of a request began, in seconds since 1970 (UTC) to the microsecond; `timings` has their lengths.

    `run` is the start of the run that wrote the row, equal in all its rows. `worker` is an index. `encode` and `write`
    are those of the first file. What the request did not come to is None.
    """

    run: float
    worker: int | None = None
    forward: float | None = None
    d2h: float | None = None
    encode: float | None = None
    write: float | None = None


class ModelInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A loaded model: `id` as the user spelled it, `revision` a commit or content hash, `pipeline` the class name."""

    id: str
    revision: str | None
    pipeline: str
    dtype: str


class ExecutedOn(NamedTuple):
    """What computed an output: `device` is torch's name of it, `threads` the intra-op threads where it is a CPU.

    On a CPU, the number of threads changes the order of sums, and with it single levels of pixels.
    """

    device: str = ""
    threads: int | None = None


UNNAMED_DEVICE = ExecutedOn()
"""That of the loaded model, with a number of threads that is not known."""


class Provenance(msgspec.Struct, frozen=True, kw_only=True):
    """The environment an output was made in, beyond its request and model.

    `model` is where the model was loaded from: an absolute path, or its name as the user spelled it. `device` and
    `threads` are those of `ExecutedOn` (no threads in rows of 0.1.0), `versions` maps packages that compute and encode
    (and "omni-gen") to versions, `tuning` holds the non-default fields of `config.Tuning`, `encoding` the settings of a
    lossy encoder under the names of `config.OutputConfig`.
    """

    model: str = ""
    device: str = ""
    threads: int | None = None
    versions: dict[str, str] = {}
    tuning: dict[str, Any] = {}
    encoding: dict[str, Any] = {}


class ErrorInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Why a request failed: `kind` is a stable identifier, `message` is for people."""

    kind: str
    message: str


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one request: a row of `manifest.jsonl`.

    `notes` name fallbacks taken and faults tolerated. `inputs` has one entry per input file of `request`, in the order
    of `inputs.input_files`; rows of 0.1.0 have none, and no `starts`.
    """

    schema_version: int = SCHEMA_VERSION
    id: str
    index: int
    status: Status
    files: tuple[OutputFile, ...] = ()
    seeds: tuple[int, ...] = ()
    request: GenerationRequest
    fingerprint: str
    model: ModelInfo
    timings: Timings = Timings()
    starts: Starts | None = None
    attempts: int = 1
    error: ErrorInfo | None = None
    notes: tuple[str, ...] = ()
    made: Provenance | None = None
    inputs: tuple[InputRecord, ...] = ()

    def sample_id(self, number: int) -> str:
        """Return the id of output `number` as a request of its own."""
        return self.id if len(self.files) == 1 else f"{self.id}-{number}"


def to_json(value: msgspec.Struct) -> bytes:
    """Encode `value` as JSON whose seeds survive any reader: one above EXACT_INTEGERS is a string of its digits.

    Raises UnicodeEncodeError for lone surrogates.
    """
    encoded = msgspec.json.encode(value)
    if _LARGE_SEED.search(encoded) is None:
        return encoded
    return msgspec.json.encode(with_exact_seeds(msgspec.to_builtins(value)))


def with_exact_seeds(value: Any) -> Any:
    """Return `value` (dicts, lists and scalars) with every seed above EXACT_INTEGERS as a string of its digits."""
    if isinstance(value, dict):
        return {
            key: _exact_seed(item) if key in ("seed", "seeds") else with_exact_seeds(item)
            for key, item in value.items()
        }
    return [with_exact_seeds(item) for item in value] if isinstance(value, list | tuple) else value


def _exact_seed(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_exact_seed(item) for item in value]
    return str(value) if isinstance(value, int) and value > EXACT_INTEGERS else value
