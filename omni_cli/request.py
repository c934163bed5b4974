"""The nouns of the field: what a user asks for, what is planned, and what came of it.

Pure data (msgspec structs), so that prompt files, messages between processes and manifest rows are decoded with types
checked and the path of a fault in the error. No torch here: the parent process imports this.
"""

from typing import Any, Literal

import msgspec

SCHEMA_VERSION = 1

MAX_SEED = 2**63 - 1
"""Largest seed: `torch.Generator.manual_seed` takes a signed 64-bit integer; ours are not negative."""

Status = Literal["done", "failed", "cancelled"]


class Adapter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A LoRA: a file, folder or hub id, and its weight."""

    path: str
    weight: float = 1.0


class GenerationRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One request, in diffusers' own names. A field that is None was not said.

    Sizes are pixels, `fps` frames per second, `seed` the seed of the first output. `extra` holds any other keyword of the
    pipeline's `__call__`. `image`, `last_image`, `mask`, `video`, `prompt_embeds` and `latents` are paths of input files
    (see `inputs`). `output` is the wanted file name inside the output folder, `format` the name of a writer ("png", "mp4", ...).
    `model` names another model than the run's own: "demo", a folder, a hub id, or a `.safetensors` file.
    `interpolate` is the frames, and the frames per second, that are made for each of the pipeline's.
    """

    id: str | None = None
    model: str | None = None
    prompt: str | None = None
    negative_prompt: str | None = None
    seed: int | None = None
    height: int | None = None
    width: int | None = None
    num_frames: int | None = None
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


class PlannedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request with nothing left open: this is what crosses to the worker and what a manifest row records.

    `request` has id, format, sizes, fps and num_outputs filled in. `seeds` and `files` have one entry per output;
    `files` are POSIX paths relative to the output folder. Requests with the same `batch_key` may share a pipeline call;
    an empty key never shares. `floats_for` names what needs more than 8 bits of a level (a 16-bit encoder); "" if nothing does.
    """

    request: GenerationRequest
    index: int
    seeds: tuple[int, ...]
    files: tuple[str, ...]
    fingerprint: str
    batch_key: str = ""
    floats_for: str = ""

    @property
    def id(self) -> str:
        """The request's id, which planning has filled in."""
        assert self.request.id is not None
        return self.request.id


class Interval(msgspec.Struct, frozen=True, array_like=True):
    """A stretch of time in seconds of the system-wide monotonic clock, the same in all processes of a machine."""

    start: float
    end: float

    @property
    def seconds(self) -> float:
        """Length in seconds."""
        return self.end - self.start


class Timings(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds a request spent in each phase. Batched requests carry the batch's forward, undivided."""

    queued: float = 0.0
    forward: float = 0.0
    d2h: float = 0.0
    encode: float = 0.0
    write: float = 0.0


class OutputFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file in place, or a folder of frames: `path` is POSIX and relative to the output folder.

    `frames` is 1 and `fps` null for an image; `width`, `height` and `frames` are 0 where there is no picture. What holds sound also
    says its `sample_rate` in Hz, `samples` per channel, and `channels`; other rows do not have these keys. A folder's `sha256`
    is over the names and hashes of its files, its `bytes` theirs together (`digest.folder_digest`).
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


class ModelInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What was loaded: `id` as the user named it, `revision` the commit or a content hash, `pipeline` the class name."""

    id: str
    revision: str | None
    pipeline: str
    dtype: str


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """How an output came to be, beyond its request and model: what a second rendering must repeat, or may differ in.

    `model` is where it was loaded from: an absolute path, or a name as the user gave it. `device` is torch's name of it, `versions` those of the packages that compute and encode (and "omni-gen"), `tuning` the
    non-default part of `config.Tuning`, `encoding` the settings of a lossy encoder by the names of `config.OutputConfig`.
    """

    model: str = ""
    device: str = ""
    versions: dict[str, str] = {}
    tuning: dict[str, Any] = {}
    encoding: dict[str, Any] = {}


class ErrorInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Why a request failed: `kind` is a stable word, `message` is for people."""

    kind: str
    message: str


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one request: exactly a row of `manifest.jsonl`. `notes` are fall-backs taken and faults let pass."""

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
    attempts: int = 1
    error: ErrorInfo | None = None
    notes: tuple[str, ...] = ()
    made: Made | None = None
