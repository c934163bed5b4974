"""Metadata in files: the text that other tools read, and a JSON document from which `replay` renders the file again.

    PNG                     `parameters` (tEXt or iTXt): the text; `omni_gen` (iTXt): JSON
    JPEG, WebP, AVIF        EXIF UserComment: the text
    MP4, WebM, MOV, MKV     comment: JSON
    WAV, FLAC               comment: JSON
    GIF                     comment: JSON, ASCII
    npz, safetensors        `metadata`: JSON, ASCII
    npy                     none: no place for it

A folder of frames has it in its first PNG.

The parameters text has the form of AUTOMATIC1111's web UI: the prompt, a line `Negative prompt: …`, then one line of
`Steps: …, CFG scale: …, Seed: …`. Values keep every character except NUL, where PNG and EXIF readers stop: it becomes
␀.

A file may go to anyone: it holds no absolute path. Inputs, adapters, component files and local models are named by
their base names and hashes.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import msgspec

import omni_cli
from omni_cli.inputs import base_name, with_paths
from omni_cli.request import GenerationRequest, ModelInfo, PlannedRequest, Provenance, with_exact_seeds
from omni_cli.text import encodable


@dataclass(frozen=True, slots=True)
class Metadata:
    """Metadata of one sample. `settings`: the last line of the parameters text; `document`: the JSON document."""

    prompt: str
    negative_prompt: str
    settings: str
    document: str

    @classmethod
    def of(cls, planned: PlannedRequest, model: ModelInfo, sample: int, made: Provenance | None = None) -> Self:
        """Describe the output of `planned` at position `sample`; the document's request renders this one sample.

        What is said depends on the sample alone, not on its names, its place among others or where files are: a second
        rendering has the same metadata.
        """
        portable = _portable_model(model, made)
        request = with_paths(planned.request, lambda file: base_name(file.path))
        request = msgspec.structs.replace(
            request, id=None, model=None, output=None, seed=planned.seeds[sample], num_outputs=1
        )
        document = {
            "version": omni_cli.__version__,
            "request": with_exact_seeds(msgspec.to_builtins(request)),
            "model": portable,
            "fingerprint": planned.fingerprint,
        }
        if planned.inputs:
            document["inputs"] = msgspec.to_builtins(planned.inputs)
        if made is not None:
            document["made"] = _portable_provenance(made)
        return cls(
            prompt=encodable(request.prompt or ""),
            negative_prompt=encodable(request.negative_prompt or ""),
            settings=encodable(_settings_line(request, portable["id"])),
            document=_encode_json(document),
        )

    def parameters(self, max_bytes: int | None = None, encoding: str = "utf-8") -> str:
        """Return the parameters text, of at most `max_bytes` bytes in `encoding`.

        A longer text is cut between characters and says so: prompts are cut first, the settings last.
        """
        negative = f"\nNegative prompt: {self.negative_prompt}" if self.negative_prompt else ""
        prompts = self.prompt + negative
        full = f"{prompts}\n{self.settings}".replace("\0", "␀")
        if max_bytes is None or len(full.encode(encoding)) <= max_bytes:
            return full
        note = f"… [cut: {len(prompts)} characters do not fit here]"
        tail = f"{note}\n{self.settings}".replace("\0", "␀")
        available = max_bytes - len(tail.encode(encoding))
        if available < 0:
            return truncate(tail, max_bytes, encoding)
        return truncate(prompts.replace("\0", "␀"), available, encoding) + tail

    @property
    def ascii_document(self) -> str:
        """The JSON document with every non-ASCII character escaped."""
        return json.dumps(json.loads(self.document))


def truncate(text: str, max_bytes: int, encoding: str) -> str:
    """Return the longest start of `text` of at most `max_bytes` bytes in `encoding` (without a byte order mark)."""
    return text.encode(encoding)[: max(max_bytes, 0)].decode(encoding, errors="ignore")


def _portable_model(model: ModelInfo, made: Provenance | None) -> dict[str, Any]:
    """Return `model` with the base name of a local one, marked as such; a hub id and "demo" stay."""
    location = made.model if made is not None and made.model else model.id
    fields: dict[str, Any] = msgspec.to_builtins(model)
    if not Path(location).is_absolute():
        return fields | {"id": location}
    return fields | {"id": base_name(location), "local": True}


def _portable_provenance(made: Provenance) -> dict[str, Any]:
    """Return `made` without paths, and without the offloading, which changes no pixel and may differ next time."""
    tuning = {name: value for name, value in made.tuning.items() if name != "offload"}
    if "components" in tuning:
        tuning["components"] = {name: base_name(file) for name, file in tuning["components"].items()}
    fields = msgspec.to_builtins(msgspec.structs.replace(made, tuning=tuning))
    return {name: value for name, value in fields.items() if name != "model"}


def _settings_line(request: GenerationRequest, model: str) -> str:
    """Return `Steps: 20, CFG scale: 5, Seed: 7, …` without unset values.

    A value with a comma, colon or line end, which would break the list, is written as a JSON string.
    """
    size = f"{request.width}x{request.height}" if request.width and request.height else None
    settings: dict[str, Any] = {
        "Steps": request.num_inference_steps,
        "CFG scale": request.guidance_scale,
        "Seed": request.seed,
        "Size": size,
        "Frames": request.num_frames,
        "FPS": request.fps,
        "Denoising strength": request.strength,
        "Model": model,
        "Version": f"omni-gen {omni_cli.__version__}",
    }
    parts = []
    for name, value in settings.items():
        if value is not None:
            text = f"{value:g}" if isinstance(value, float) else str(value)
            quoted = json.dumps(text, ensure_ascii=False) if any(mark in text for mark in ',:\n\r"') else text
            parts.append(f"{name}: {quoted}")
    return ", ".join(parts)


def _encode_json(document: dict[str, Any]) -> str:
    """Return readable Unicode JSON, or ASCII where a lone surrogate can only be kept as an escape."""
    text = json.dumps(document, ensure_ascii=False)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return json.dumps(document)
    return text
