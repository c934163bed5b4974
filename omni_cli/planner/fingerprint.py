"""The fingerprint of a request: one hash of everything but its seeds that changes its pixels, the same everywhere.

Included: the resolved request (without id, names and input paths), the contents of its inputs, the model's revision,
class and dtype, the card's constant keywords, the major versions of the libraries that compute (of compel for requests
with weights), the format and its encoder's lossy settings.
Excluded: seeds and number of outputs, which are compared output by output; how it is run (async or not, batch size,
workers, device, transport) and what changes only a file's container (PNG compression, metadata), where files are and
how their paths are spelled.
"""

import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import msgspec

from omni_cli.config import ModelConfig, OutputConfig, RunConfig, Tuning
from omni_cli.dependencies import installed_version
from omni_cli.inputs import InputFile, base_name, input_files, with_paths
from omni_cli.models.cards import Card
from omni_cli.models.registry import file_mode, real_path
from omni_cli.request import GenerationRequest, InputRecord, ModelInfo
from omni_cli.storage.digest import InputDigests
from omni_cli.writers.formats import encoding_settings, output_of

VERSION = 2

COMPEL = "compel"

_LIBRARIES = ("torch", "diffusers", "transformers")


class Fingerprinter:
    """Fingerprints of the requests of one run."""

    def __init__(self, config: RunConfig, card: Card, info: ModelInfo, versions: Mapping[str, str]) -> None:
        """Fingerprint for the model `info`, loaded as `config.model`, under library `versions` by package name."""
        self._output = config.output
        self._contents = InputDigests()
        self._interpolator = config.engine.interpolator
        self._run = {
            "version": VERSION,
            "model": _model_content(config.model, info),
            "variant": config.model.variant,
            "config": _config_name(config.model),
            **_pixel_tuning(config.model.tuning),
            "call": card.call,
            **({} if card.value_range is None else {"value_range": card.value_range}),
            "majors": {name: versions[name].split(".")[0] for name in _LIBRARIES if name in versions},
        }

    def fingerprint(self, request: GenerationRequest) -> str:
        """Return the SHA-256 in hex of the resolved `request`.

        An unreadable input is hashed as "unreadable": that fingerprint never matches a finished row.
        """
        content = {
            "run": self._run,
            "request": self._by_content(request),
            "encoding": _encoding(request.format, output_of(request, self._output)),
        }
        if request.interpolate is not None and self._interpolator is not None:
            content["interpolator"] = self._contents.digest(self._interpolator)
        if weighting := weighting_versions(request):
            content["weighting"] = {name: version.split(".")[0] for name, version in weighting.items()}
        return hashlib.sha256(msgspec.json.encode(content, order="deterministic")).hexdigest()

    def input_records(self, request: GenerationRequest) -> tuple[InputRecord, ...]:
        """Return the base name, hash and size of each input file of the resolved `request`."""
        return tuple(self._record(file) for file in input_files(request))

    def _record(self, file: InputFile) -> InputRecord:
        path = Path(file.path)
        if not path.is_absolute():
            return InputRecord(field=file.name, name=file.path)
        name = base_name(file.path)
        try:
            size = None if path.is_dir() else path.stat().st_size
            return InputRecord(field=file.name, name=name, sha256=self._contents.digest(file.path), bytes=size)
        except OSError:
            return InputRecord(field=file.name, name=name)

    def _by_content(self, request: GenerationRequest) -> GenerationRequest:
        """Return `request` with the hashes of its inputs for their paths, and without what is hashed elsewhere.

        Fields without a value are not encoded at all.
        """
        hashed = with_paths(request, lambda file: content_of(file.path, self._contents))
        elsewhere = ("id", "model", "output", "seed", "num_outputs", "quality", "meta")
        return msgspec.structs.replace(hashed, **dict.fromkeys(elsewhere))


def weighting_versions(request: GenerationRequest) -> dict[str, str]:
    """Return the versions of the packages that apply the weights in the texts of `request`; empty without weights."""
    version = None if request.prompt_weighting is None else compel_version()
    return {} if version is None else {COMPEL: version}


@cache
def compel_version() -> str | None:
    """Return the version of the package that applies weights in prompts; None if it is not installed."""
    return installed_version(COMPEL)


def content_of(path: str, digests: InputDigests) -> str:
    """Return the hash of the file at `path`, or `path` itself if it is not absolute: an id on a hub."""
    if not Path(path).is_absolute():
        return path
    try:
        return f"sha256:{digests.digest(path)}"
    except OSError:
        return "unreadable"


def _model_content(model: ModelConfig, info: ModelInfo) -> dict[str, str]:
    """Return what tells models apart: class, dtype and revision, whatever the model is called.

    Without a revision, only where the model is: a real path, or its name if there is no such file.
    """
    identity = {"name": real_path(model.model, Path())} if info.revision is None else {"revision": info.revision}
    return {**identity, "pipeline": info.pipeline, "dtype": info.dtype}


def _config_name(model: ModelConfig) -> str | None:
    """Return the hub id of a single file's configuration; None for a folder, whose content is in the revision."""
    return None if model.config is None or file_mode(Path(model.config)) else model.config


def _pixel_tuning(tuning: Tuning) -> dict[str, Tuning]:
    """Return the settings that can change pixels: not offloading, nor component files (the revision has those)."""
    relevant = msgspec.structs.replace(tuning, offload="none", components={})
    return {} if relevant == Tuning() else {"tuning": relevant}


def _encoding(form: str | None, output: OutputConfig) -> dict[str, object]:
    """Return the settings that change the decoded pixels of a lossy format, without those that are None."""
    chosen = {name: value for name, value in encoding_settings(form or "", output).items() if value is not None}
    return {"preset" if name == "encoder_preset" else name: value for name, value in chosen.items()}
