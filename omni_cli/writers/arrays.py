"""Array files: npy, npz and safetensors, written frame by frame without holding the clip.

    npy           uint8 [H, W, C] of an image, [T, H, W, C] of a clip; float32 [C, S] of sound
                  with float arrays, float32 in 0..1 of both, as diffusers' `output_type="np"` gives it
    npz           frames, audio, sample_rate, fps, metadata: one stored member each; `numpy.load` needs no pickle
    safetensors   frames, audio; sample_rate, fps and metadata in the header. Latents: latents, audio_latents

A safetensors file is eight bytes of length, a JSON header and the bytes (github.com/huggingface/safetensors, "Format").
The safetensors library only takes whole tensors; here a clip is written while it is converted.
"""

import io
import json
import math
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from omni_cli.media import Kind
from omni_cli.writers.metadata import Metadata
from omni_cli.writers.samples import Frames, Latent, Sample, Sound

_DTYPES = {"|u1": ("U8", 1), "<f4": ("F32", 4)}
"""Safetensors' name and the bytes per element by numpy's array-protocol type string."""

_ALIGNMENT = 8


@dataclass(frozen=True, slots=True)
class _StreamedArray:
    """A C-contiguous array of `shape` whose bytes are those of `parts` in order. `descr`: numpy's type string."""

    descr: str
    shape: tuple[int, ...]
    parts: Iterator[NDArray[Any]]

    @property
    def nbytes(self) -> int:
        """Bytes of all parts."""
        return math.prod(self.shape) * _DTYPES[self.descr][1]

    def write(self, file: Any) -> None:
        """Write all bytes to `file`, a part at a time."""
        for part in self.parts:
            file.write(part.data.cast("B") if part.flags.c_contiguous else part.tobytes())


def write_arrays(
    file: BinaryIO,
    format_name: str,
    sample: Sample,
    fps: float | None,
    metadata: Metadata | None,
    float_frames: bool = False,
) -> None:
    """Write `sample` as "npy", "npz", "safetensors" or "latent", which is a safetensors file.

    `float_frames`: frames as float32 in 0..1, not as levels. Raises NonFiniteOutput for NaN or infinity in frames.
    """
    arrays, scalars = _arrays(sample, float_frames), _scalars(sample, fps, metadata)
    match format_name:
        case "npy":  # the main array alone
            _write_npy_array(file, next(iter(arrays.values())))
        case "npz":
            _write_npz(file, arrays, scalars)
        case _:
            _write_safetensors(file, arrays, scalars)


def _write_npz(file: BinaryIO, arrays: Mapping[str, _StreamedArray], scalars: Mapping[str, float | int | str]) -> None:
    """Write every array, with rates and metadata as zero-dimensional arrays."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                _write_npy_array(member, array)
        for name, value in scalars.items():
            buffer = io.BytesIO()
            np.lib.format.write_array(buffer, np.asarray(value), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), buffer.getvalue())


def _write_safetensors(
    file: BinaryIO, arrays: Mapping[str, _StreamedArray], scalars: Mapping[str, float | int | str]
) -> None:
    """Write every array as a tensor, floats first so that each is aligned; rates and metadata as text."""
    arrays = dict(sorted(arrays.items(), key=lambda item: item[1].descr != "<f4"))
    header: dict[str, Any] = {"__metadata__": {name: str(value) for name, value in scalars.items()}}
    offset = 0
    for name, array in arrays.items():
        offsets = [offset, offset + array.nbytes]
        header[name] = {"dtype": _DTYPES[array.descr][0], "shape": array.shape, "data_offsets": offsets}
        offset = offsets[1]
    text = json.dumps(header, ensure_ascii=True).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    file.write(len(text).to_bytes(8, "little") + text)
    for array in arrays.values():
        array.write(file)


def _write_npy_array(file: Any, array: _StreamedArray) -> None:
    header = {"descr": array.descr, "fortran_order": False, "shape": array.shape}
    np.lib.format.write_array_header_1_0(file, header)
    array.write(file)


def _arrays(sample: Sample, float_frames: bool) -> dict[str, _StreamedArray]:
    """Return the arrays of `sample` by name, the main one first."""
    match sample:
        case Frames():
            shape = sample.array.shape[1:] if sample.kind is Kind.IMAGE else sample.array.shape
            floats = ("<f4", shape, sample.iter_float32())
            frames = {"frames": _StreamedArray(*floats if float_frames else ("|u1", shape, iter(sample)))}
            return frames if sample.audio is None else frames | {"audio": _float_array(sample.audio.array)}
        case Sound():
            return {"audio": _float_array(sample.array)}
        case Latent():
            latents = {"latents": _float_array(sample.array)}
            return latents if sample.audio is None else latents | {"audio_latents": _float_array(sample.audio)}


def _float_array(array: NDArray[Any]) -> _StreamedArray:
    """Wrap a float32 array of any shape."""
    return _StreamedArray("<f4", array.shape, iter([array]))


def _scalars(sample: Sample, fps: float | None, metadata: Metadata | None) -> Mapping[str, float | int | str]:
    """Return the rates that the arrays are played at, and the metadata."""
    scalars: dict[str, float | int | str] = {} if fps is None else {"fps": fps}
    sound = sample if isinstance(sample, Sound) else sample.audio if isinstance(sample, Frames) else None
    if sound is not None:
        scalars["sample_rate"] = sound.sample_rate
    if metadata is not None:
        scalars["metadata"] = metadata.ascii_document
    return scalars
