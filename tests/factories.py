"""Values for the tests of several packages, with defaults that a test overrides by keyword."""

from typing import Any

from omni_cli.media import ColorModel, Kind, MediaHeader
from omni_cli.request import ErrorInfo, GenerationRequest, ModelInfo, PlannedRequest, Result, Status
from omni_cli.shape import Setup, Shape, Size

MODEL = ModelInfo(id="demo", revision=None, pipeline="DemoPipeline", dtype="float32")


def planned(
    request_id: str | None = None,
    *files: str,
    index: int = 0,
    seeds: tuple[int, ...] | None = None,
    fingerprint: str = "f",
    batch_key: str = "",
    floats_for: str = "",
    **fields: Any,
) -> PlannedRequest:
    """Return a planned request with these `fields` of GenerationRequest.

    The default id is "r{index}". The number of outputs is that of `seeds`, else of `files`, else one; missing seeds
    count up from 5, and missing files are named after the id and the format ("png" by default).
    """
    request_id = request_id or f"r{index}"
    outputs = len(seeds or files or (None,))
    request = GenerationRequest(id=request_id, **{"format": "png", "num_outputs": outputs, **fields})
    adapters = tuple((adapter.path, adapter.weight) for adapter in request.lora or ())
    size = Size(request.height, request.width, request.num_frames)
    names = [request_id] if outputs == 1 else [f"{request_id}-{number}" for number in range(outputs)]
    return PlannedRequest(
        request=request,
        index=index,
        seeds=seeds or tuple(range(5, 5 + outputs)),
        files=files or tuple(f"{name}.{request.format}" for name in names),
        fingerprint=fingerprint,
        shape=Shape(Setup(request.model, adapters, size), batch_key),
        floats_for=floats_for,
    )


def planned_call(*request_ids: str, **fields: Any) -> list[PlannedRequest]:
    """Return one request per id, as one call for an executor."""
    return [planned(request_id, **fields) for request_id in request_ids]


def result(request_id: str, status: Status = "done", **fields: Any) -> Result:
    """Return a manifest row with these `fields` of Result; a failed one has an error."""
    error = ErrorInfo(kind="forward_failed", message="no") if status == "failed" else None
    defaults = {
        "index": 0,
        "request": GenerationRequest(id=request_id),
        "fingerprint": "f",
        "model": MODEL,
        "error": error,
    }
    return Result(id=request_id, status=status, **{**defaults, **fields})


def media_header(shape: tuple[int, int, int, int, int], kind: Kind = Kind.IMAGE) -> MediaHeader:
    """Return the header of uint8 RGB media with this shape, [N, T, H, W, 3]."""
    return MediaHeader(kind=kind, dtype="uint8", shape=shape, color=ColorModel.RGB, value_range=(0.0, 255.0))
