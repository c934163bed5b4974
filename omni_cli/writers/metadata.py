"""What a file says about its own making: the text that other tools read, and a JSON document that this one replays.

    PNG           `parameters` (tEXt or iTXt), `omni_gen` (iTXt, JSON)    MP4, WebM, MOV, MKV     comment: JSON
    JPEG, WebP    EXIF UserComment: parameters                            WAV, FLAC               comment: JSON
    AVIF          EXIF UserComment: parameters                            npz, safetensors        `metadata`: JSON, ASCII
    GIF           comment: JSON, ASCII                                    npy                     nothing: it has no place

A folder of frames says it in its first PNG.

The parameters text has the form of AUTOMATIC1111's web UI: the prompt, a line `Negative prompt: …`, then one line of
`Steps: …, CFG scale: …, Seed: …`. Values keep every character; only NUL, which PNG and EXIF readers end at, becomes ␀.
"""

import json
from dataclasses import dataclass
from typing import Any, Self

import msgspec

import omni_cli
from omni_cli.request import GenerationRequest, Made, ModelInfo, PlannedRequest


@dataclass(frozen=True, slots=True)
class Metadata:
    """Text about one sample. `settings` is the last line of the parameters, `document` the JSON."""

    prompt: str
    negative_prompt: str
    settings: str
    document: str

    @classmethod
    def of(cls, planned: PlannedRequest, model: ModelInfo, sample: int, made: Made | None = None) -> Self:
        """Describe output number `sample` (from 0) of `planned`; the document's request renders this one sample again."""
        request = msgspec.structs.replace(planned.request, seed=planned.seeds[sample], num_outputs=1)
        document = {
            "version": omni_cli.__version__,
            "request": msgspec.to_builtins(request),
            "sample": sample,
            "model": msgspec.to_builtins(model),
            "fingerprint": planned.fingerprint,
        }
        if made is not None:
            document["made"] = msgspec.to_builtins(made)
        return cls(
            prompt=_valid(request.prompt or ""),
            negative_prompt=_valid(request.negative_prompt or ""),
            settings=_valid(_settings(request, model)),
            document=_json(document),
        )

    def parameters(self, max_bytes: int | None = None, encoding: str = "utf-8") -> str:
        """The parameters text, of at most `max_bytes` when written in `encoding`.

        What is too long is cut between characters, prompt and negative prompt first and the settings last, and the text
        says that it was cut.
        """
        negative = f"\nNegative prompt: {self.negative_prompt}" if self.negative_prompt else ""
        body = self.prompt + negative
        whole = f"{body}\n{self.settings}".replace("\0", "␀")
        if max_bytes is None or len(whole.encode(encoding)) <= max_bytes:
            return whole
        note = f"… [cut: {len(body)} characters do not fit here]"
        tail = f"{note}\n{self.settings}".replace("\0", "␀")
        room = max_bytes - len(tail.encode(encoding))
        if room < 0:
            return cut(tail, max_bytes, encoding)
        return cut(body.replace("\0", "␀"), room, encoding) + tail

    @property
    def ascii_document(self) -> str:
        """The JSON with every character beyond ASCII escaped."""
        return json.dumps(json.loads(self.document))


def cut(text: str, max_bytes: int, encoding: str) -> str:
    """The longest start of `text` that takes at most `max_bytes` in `encoding` (without a byte order mark)."""
    return text.encode(encoding)[: max(max_bytes, 0)].decode(encoding, errors="ignore")


def _settings(request: GenerationRequest, model: ModelInfo) -> str:
    """`Steps: 20, CFG scale: 5, Seed: 7, …`, without what was not said."""
    size = f"{request.width}x{request.height}" if request.width and request.height else None
    rows: dict[str, Any] = {
        "Steps": request.num_inference_steps,
        "CFG scale": request.guidance_scale,
        "Seed": request.seed,
        "Size": size,
        "Frames": request.num_frames,
        "FPS": request.fps,
        "Denoising strength": request.strength,
        "Model": model.id,
        "Version": f"omni-gen {omni_cli.__version__}",
    }
    return ", ".join(f"{key}: {_quoted(value)}" for key, value in rows.items() if value is not None)


def _quoted(value: object) -> str:
    """`value` as text, as a JSON string where a comma, colon or line end would break the list it stands in."""
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return json.dumps(text, ensure_ascii=False) if any(mark in text for mark in ',:\n\r"') else text


def _valid(text: str) -> str:
    """`text` without lone surrogates, which no encoding can write."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _json(document: dict[str, Any]) -> str:
    """JSON in readable Unicode; escaped to ASCII if a lone surrogate leaves no other way to keep it."""
    text = json.dumps(document, ensure_ascii=False)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return json.dumps(document)
    return text
