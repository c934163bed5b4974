"""The fingerprint: one hash of everything that changes a request's pixels, the same on every machine and day.

In: the resolved request (without id, names and input paths), the seeds, the bytes of its inputs, the model, the card's
constant keywords, the major versions of the libraries that compute, the format and the lossy settings of its encoder.
Out: how it is run (async or not, batch size, workers, device, transport) and what only changes a file's wrapping
(PNG compression, metadata).
"""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from omni_cli.config import OutputConfig, RunConfig, Tuning
from omni_cli.inputs import with_paths
from omni_cli.models.cards import Card
from omni_cli.planner.contents import Contents
from omni_cli.request import GenerationRequest, ModelInfo
from omni_cli.writers.record import encoding_of

VERSION = 1

_LIBRARIES = ("torch", "diffusers", "transformers")


class Fingerprinter:
    """Fingerprints of the requests of one run."""

    def __init__(self, config: RunConfig, card: Card, info: ModelInfo, versions: Mapping[str, str]) -> None:
        """For the model `info`, loaded as `config.model` says, under the library `versions` ("torch" → "2.9.1", ...)."""
        self._output = config.output
        self._contents = Contents()
        self._interpolator = config.engine.interpolator
        self._run = {
            "version": VERSION,
            "model": info,
            "variant": config.model.variant,
            "config": config.model.config,
            **_shaping(config.model.tuning),
            "call": card.call,
            **({} if card.value_range is None else {"value_range": card.value_range}),
            "majors": {name: versions[name].split(".")[0] for name in _LIBRARIES if name in versions},
        }

    def fingerprint(self, request: GenerationRequest, seeds: Sequence[int]) -> str:
        """SHA-256 in hex for the resolved `request`; of an input that cannot be read, only that. Such a request cannot be done."""
        facts = {
            "run": self._run,
            "request": self._without_names(request),
            "seeds": seeds,
            "encoding": _encoding(request.format, self._output),
        }
        if request.interpolate is not None and self._interpolator is not None:
            facts["interpolator"] = self._contents.digest(self._interpolator)
        return hashlib.sha256(msgspec.json.encode(facts, order="deterministic")).hexdigest()

    def _without_names(self, request: GenerationRequest) -> GenerationRequest:
        """`request` with inputs by content and without what is named elsewhere. Unsaid fields are not encoded at all."""
        by_content = with_paths(request, lambda file: self._content(file.path))
        return msgspec.structs.replace(by_content, id=None, model=None, output=None, seed=None, num_outputs=None)

    def _content(self, path: str) -> str:
        """The hash of what `path` holds; what is not an absolute path names something on a hub and stands for itself."""
        if not Path(path).is_absolute():
            return path
        try:
            return f"sha256:{self._contents.digest(path)}"
        except OSError:
            return "unreadable"


def _shaping(tuning: Tuning) -> dict[str, Tuning]:
    """The part that can change pixels, if any: not where weights wait; and files of components are in the model's revision."""
    shaping = msgspec.structs.replace(tuning, offload="none", components={})
    return {} if shaping == Tuning() else {"tuning": shaping}


def _encoding(form: str | None, output: OutputConfig) -> dict[str, object]:
    """The settings that change decoded pixels of a lossy format, those that were not said left out."""
    said = {name: value for name, value in encoding_of(form or "", output).items() if value is not None}
    return {"preset" if name == "encoder_preset" else name: value for name, value in said.items()}
