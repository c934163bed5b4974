"""How version 0.1.0 identified requests, to recognize what it finished: fingerprints with seeds, seeds of 63 bits.

Nothing here may change: it describes manifests that exist.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence

import msgspec

from omni_cli.config import OutputConfig, RunConfig, Tuning
from omni_cli.inputs import with_paths
from omni_cli.models.cards import Card
from omni_cli.planner.fingerprint import content_of
from omni_cli.request import MAX_SEED, GenerationRequest, ModelInfo
from omni_cli.storage.digest import InputDigests
from omni_cli.writers.formats import encoding_settings

_LIBRARIES = ("torch", "diffusers", "transformers")

_LINE_ID = re.compile(r"[0-9]{5,}")


def is_line_id(request_id: str) -> bool:
    """Return True if 0.1.0 may have given this id to a request without one: the number of its row, from 0."""
    return _LINE_ID.fullmatch(request_id) is not None


def sample_seeds_v1(seed: int | None, count: int, base_seed: int, request_id: str) -> tuple[int, ...]:
    """Return the seeds that 0.1.0 gave the `count` outputs of a request."""
    if seed is not None:
        return tuple((seed + n) % (MAX_SEED + 1) for n in range(count))
    return tuple(_derived_seed(base_seed, request_id, n) for n in range(count))


def _derived_seed(base_seed: int, request_id: str, n: int) -> int:
    triple = f"{base_seed}\n{n}\n{request_id}".encode("utf-8", "surrogatepass")
    digest = hashlib.blake2b(triple, digest_size=8, person=b"omni-gen seed").digest()
    return int.from_bytes(digest, "big") & MAX_SEED


class FingerprinterV1:
    """Fingerprints of 0.1.0 for the requests of one run."""

    def __init__(self, config: RunConfig, card: Card, info: ModelInfo, versions: Mapping[str, str]) -> None:
        """Fingerprint for the model `info`, loaded as `config.model`, under library `versions` by package name."""
        self._output = config.output
        self._contents = InputDigests()
        self._interpolator = config.engine.interpolator
        self._info = info
        self._run = {
            "version": 1,
            "variant": config.model.variant,
            "config": config.model.config,
            **_pixel_tuning(config.model.tuning),
            "call": card.call,
            **({} if card.value_range is None else {"value_range": card.value_range}),
            "majors": {name: versions[name].split(".")[0] for name in _LIBRARIES if name in versions},
        }

    def fingerprint(self, request: GenerationRequest, seeds: Sequence[int], model_id: str | None = None) -> str:
        """Return the SHA-256 in hex of the resolved `request`; `model_id` is the model as it was spelled then.

        An unreadable input is hashed as "unreadable": that fingerprint never matches a finished row.
        """
        info = self._info if model_id is None else msgspec.structs.replace(self._info, id=model_id)
        content = {
            "run": {**self._run, "model": info},
            "request": self._by_content(request),
            "seeds": seeds,
            "encoding": _encoding(request.format, self._output),
        }
        if request.interpolate is not None and self._interpolator is not None:
            content["interpolator"] = self._contents.digest(self._interpolator)
        return hashlib.sha256(msgspec.json.encode(content, order="deterministic")).hexdigest()

    def _by_content(self, request: GenerationRequest) -> GenerationRequest:
        """Return `request` with the hashes of its inputs for their paths, and without what is hashed elsewhere.

        Fields without a value are not encoded at all.
        """
        hashed = with_paths(request, lambda file: content_of(file.path, self._contents))
        return msgspec.structs.replace(hashed, id=None, model=None, output=None, seed=None, num_outputs=None)


def _pixel_tuning(tuning: Tuning) -> dict[str, Tuning]:
    """Return the settings that can change pixels: not offloading, nor component files (the revision has those)."""
    relevant = msgspec.structs.replace(tuning, offload="none", components={})
    return {} if relevant == Tuning() else {"tuning": relevant}


def _encoding(form: str | None, output: OutputConfig) -> dict[str, object]:
    """Return the settings that change the decoded pixels of a lossy format, without those that are None."""
    chosen = {name: value for name, value in encoding_settings(form or "", output).items() if value is not None}
    return {"preset" if name == "encoder_preset" else name: value for name, value in chosen.items()}
